//! See `fuzz::files::ASK`.
#![no_main]

fuzz::program!(fuzz::files::ASK);
