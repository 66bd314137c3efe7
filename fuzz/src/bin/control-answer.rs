//! See `fuzz::wire::CONTROL_ANSWER`.
#![no_main]

fuzz::program!(fuzz::wire::CONTROL_ANSWER);
