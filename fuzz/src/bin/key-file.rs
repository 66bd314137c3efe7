//! See `fuzz::trust::KEY_FILE`.
#![no_main]

fuzz::program!(fuzz::trust::KEY_FILE);
