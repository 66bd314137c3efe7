//! See `fuzz::spawn::REQUEST`.
#![no_main]

fuzz::program!(fuzz::spawn::REQUEST);
