//! See `fuzz::streams::STRIPED`.
#![no_main]

fuzz::program!(fuzz::streams::STRIPED);
