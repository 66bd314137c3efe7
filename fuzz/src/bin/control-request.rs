//! See `fuzz::wire::CONTROL_REQUEST`.
#![no_main]

fuzz::program!(fuzz::wire::CONTROL_REQUEST);
