//! See `fuzz::engine::HOSTILE`.
#![no_main]

fuzz::program!(fuzz::engine::HOSTILE);
