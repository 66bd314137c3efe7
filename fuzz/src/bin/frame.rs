//! See `fuzz::wire::FRAME`.
#![no_main]

fuzz::program!(fuzz::wire::FRAME);
