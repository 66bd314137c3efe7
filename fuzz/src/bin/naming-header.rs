//! See `fuzz::naming::NAMING_HEADER`.
#![no_main]

fuzz::program!(fuzz::naming::NAMING_HEADER);
