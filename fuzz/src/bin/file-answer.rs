//! See `fuzz::files::ANSWER`.
#![no_main]

fuzz::program!(fuzz::files::ANSWER);
