//! See `fuzz::naming::ANSWER`.
#![no_main]

fuzz::program!(fuzz::naming::ANSWER);
