//! See `fuzz::naming::REQUEST`.
#![no_main]

fuzz::program!(fuzz::naming::REQUEST);
