//! See `fuzz::node::CONVERT`.
#![no_main]

fuzz::program!(fuzz::node::CONVERT);
