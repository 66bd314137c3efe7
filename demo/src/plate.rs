//! How large the plate is: as in plate.c.

pub const WIDTH: usize = 600;
pub const HEIGHT: usize = 400;
