//! See `fuzz::wire::CONTACT`.
#![no_main]

fuzz::program!(fuzz::wire::CONTACT);
