//! See `fuzz::session::SNAPSHOT`.
#![no_main]

fuzz::program!(fuzz::session::SNAPSHOT);
