//! See `fuzz::node::NOTE`.
#![no_main]

fuzz::program!(fuzz::node::NOTE);
