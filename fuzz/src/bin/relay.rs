//! See `fuzz::relay::RELAY`.
#![no_main]

fuzz::program!(fuzz::relay::RELAY);
