//! See `fuzz::shared::SHARED_TAIL`.
#![no_main]

fuzz::program!(fuzz::shared::SHARED_TAIL);
