//! See `fuzz::trust::RECORDS`.
#![no_main]

fuzz::program!(fuzz::trust::RECORDS);
