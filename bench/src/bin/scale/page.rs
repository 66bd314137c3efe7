//! The table, the laws and the picture.

use crate::measure::Measured;
pub fn show(all: &[Measured], stopped: Option<&str>) -> Result<(), String> {
    for m in all { println!("{}", m.line()); }
    println!("{stopped:?}");
    Ok(())
}
