//! See `fuzz::session::CONTROL`.
#![no_main]

fuzz::program!(fuzz::session::CONTROL);
