//! See `fuzz::trust::PROOF`.
#![no_main]

fuzz::program!(fuzz::trust::PROOF);
