//! See `fuzz::trust::PROOF_REAL`.
#![no_main]

fuzz::program!(fuzz::trust::PROOF_REAL);
