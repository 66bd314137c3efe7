//! See `fuzz::naming::RECORD`.
#![no_main]

fuzz::program!(fuzz::naming::RECORD);
