//! See `fuzz::naming::FILE_NAME`.
#![no_main]

fuzz::program!(fuzz::naming::FILE_NAME);
