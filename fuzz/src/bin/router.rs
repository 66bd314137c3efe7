//! See `fuzz::router::ROUTER`.
#![no_main]

fuzz::program!(fuzz::router::ROUTER);
