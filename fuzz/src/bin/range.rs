//! See `fuzz::wire::RANGE`.
#![no_main]

fuzz::program!(fuzz::wire::RANGE);
