//! See `fuzz::naming::SETTINGS`.
#![no_main]

fuzz::program!(fuzz::naming::SETTINGS);
