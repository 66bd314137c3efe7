//! See `fuzz::text::PORT_NAME`.
#![no_main]

fuzz::program!(fuzz::text::PORT_NAME);
