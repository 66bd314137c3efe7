//! See `fuzz::checkpoint::IMAGE`.
#![no_main]

fuzz::program!(fuzz::checkpoint::IMAGE);
