//! See `fuzz::streams::GREETING`.
#![no_main]

fuzz::program!(fuzz::streams::GREETING);
