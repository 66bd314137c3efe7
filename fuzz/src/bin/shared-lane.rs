//! See `fuzz::shared::SHARED_LANE`.
#![no_main]

fuzz::program!(fuzz::shared::SHARED_LANE);
