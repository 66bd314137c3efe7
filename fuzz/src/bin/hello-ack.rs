//! See `fuzz::wire::HELLO_ACK`.
#![no_main]

fuzz::program!(fuzz::wire::HELLO_ACK);
