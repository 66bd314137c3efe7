//! Temperatures as colours, the seam between the halves, and who drew which.

use crate::plate::{HEIGHT, WIDTH};
use font8x8::legacy::BASIC_LEGACY;
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

/// So many pixels each way for a cell of the plate and for a dot of a letter.
const SCALE: usize = 2;
/// Above the plate, for the text.
const BAND: usize = 32;
const GLYPH: usize = 8 * SCALE;
const PAPER: [u8; 3] = [245, 245, 245];
const INK: [u8; 3] = [30, 30, 30];
const SEAM: [u8; 3] = [255, 255, 255];

fn colour(value: f64) -> [f64; 3] {
    let at = value.clamp(0.0, 1.0) * (RAMP.len() - 1) as f64;
    let below = (at as usize).min(RAMP.len() - 2);
    let part = at - below as f64;
    std::array::from_fn(|i| RAMP[below][i] * (1.0 - part) + RAMP[below + 1][i] * part)
}

/// Rows of pixels.
struct Canvas {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Canvas {
        Canvas { width, pixels: vec![PAPER; width * height] }
    }

    fn square(&mut self, x: usize, y: usize, size: usize, colour: [u8; 3]) {
        for row in y..y + size {
            self.pixels[row * self.width + x..][..size].fill(colour);
        }
    }

    /// Text in the middle of a stretch of the band.
    fn write(&mut self, text: &str, from: usize, width: usize) {
        let text: Vec<char> = text.chars().take(width / GLYPH).collect();
        let start = from + (width - text.len() * GLYPH) / 2;
        for (at, letter) in text.iter().enumerate() {
            let glyph = BASIC_LEGACY.get(*letter as usize).unwrap_or(&BASIC_LEGACY['?' as usize]);
            for (y, bits) in glyph.iter().enumerate() {
                for x in (0..8).filter(|x| bits >> x & 1 == 1) {
                    self.square(start + at * GLYPH + x * SCALE, (BAND - GLYPH) / 2 + y * SCALE, SCALE, INK);
                }
            }
        }
    }
}

/// Writes the plate as a PNG, with faint lines of equal temperature, the seam dashed, and above each half the MPI that
/// solved it.
pub fn write(path: &Path, plate: &[f64], mpis: [&str; 2]) -> std::io::Result<()> {
    let (width, height) = (WIDTH * SCALE, BAND + HEIGHT * SCALE);
    let mut canvas = Canvas::new(width, height);
    let level = |x: usize, y: usize| (plate[y * WIDTH + x] / CONTOUR).floor();
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let here = level(x, y);
            let crossed = here != level((x + 1).min(WIDTH - 1), y) || here != level(x, (y + 1).min(HEIGHT - 1));
            let shade = if crossed { 0.8 } else { 1.0 };
            let colour = colour(plate[y * WIDTH + x]).map(|c| (c * shade) as u8);
            canvas.square(x * SCALE, BAND + y * SCALE, SCALE, colour);
        }
    }
    for y in (0..height - SCALE).filter(|y| (y / (4 * SCALE)).is_multiple_of(2)) {
        canvas.square(width / 2 - SCALE / 2, y, SCALE, if y < BAND { INK } else { SEAM });
    }
    for (half, mpi) in mpis.into_iter().enumerate() {
        canvas.write(&format!("{mpi}, 2 ranks"), half * width / 2, width / 2);
    }
    let mut file = BufWriter::new(File::create(path)?);
    let mut encoder = png::Encoder::new(&mut file, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(canvas.pixels.as_flattened())?;
    writer.finish()?;
    file.flush()
}
