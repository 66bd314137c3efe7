//! See `fuzz::text::JOIN`.
#![no_main]

fuzz::program!(fuzz::text::JOIN);
