//! See `fuzz::streams::STREAM`.
#![no_main]

fuzz::program!(fuzz::streams::STREAM);
