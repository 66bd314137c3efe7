//! See `fuzz::checkpoint::MESSAGE`.
#![no_main]

fuzz::program!(fuzz::checkpoint::MESSAGE);
