//! See `fuzz::wire::HELLO`.
#![no_main]

fuzz::program!(fuzz::wire::HELLO);
