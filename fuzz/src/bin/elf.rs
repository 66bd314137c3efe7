//! See `fuzz::text::ELF`.
#![no_main]

fuzz::program!(fuzz::text::ELF);
