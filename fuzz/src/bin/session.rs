//! See `fuzz::session::HOSTILE`.
#![no_main]

fuzz::program!(fuzz::session::HOSTILE);
