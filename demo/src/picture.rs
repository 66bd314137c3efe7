//! Temperatures as colours.

use crate::{HEIGHT, WIDTH};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// From cold to hot; colours between these are mixed.
const RAMP: [[f64; 3]; 7] = [
    [13.0, 22.0, 62.0],
    [42.0, 52.0, 140.0],
    [118.0, 44.0, 150.0],
    [196.0, 60.0, 117.0],
    [242.0, 113.0, 74.0],
    [252.0, 190.0, 88.0],
    [253.0, 248.0, 200.0],
];

/// Lines of equal temperature lie so far apart.
const CONTOUR: f64 = 0.05;

fn colour(value: f64) -> [f64; 3] {
    let at = value.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let below = (at as usize).min(RAMP.len() - 2);
    let part = at - below as f64;
    std::array::from_fn(|i| RAMP[below][i] * (1.0 - part) + RAMP[below + 1][i] * part)
}

/// Writes the plate as a PNG, one pixel a cell, with faint lines of equal temperature.
pub fn write(path: &Path, plate: &[f64]) -> std::io::Result<()> {
    let level = |x: usize, y: usize| (plate[y * WIDTH + x] / CONTOUR).floor();
    let mut pixels = Vec::with_capacity(WIDTH * HEIGHT * 3);
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let here = level(x, y);
            let crossed = here != level((x + 1).min(WIDTH - 1), y) || here != level(x, (y + 1).min(HEIGHT - 1));
            let shade = if crossed { 0.8 } else { 1.0 };
            pixels.extend(colour(plate[y * WIDTH + x]).map(|c| (c * shade) as u8));
        }
    }
    let mut file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(&mut file, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    file.flush()
}
