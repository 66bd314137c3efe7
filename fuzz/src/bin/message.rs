//! See `fuzz::engine::MESSAGE`.
#![no_main]

fuzz::program!(fuzz::engine::MESSAGE);
