//! See `fuzz::streams::ADDRESSES`.
#![no_main]

fuzz::program!(fuzz::streams::ADDRESSES);
