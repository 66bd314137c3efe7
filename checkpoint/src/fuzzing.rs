//! What fuzz/ needs: images with good checksums around bytes that no writer makes.

use crate::layout::{begin, chunk_begin, crc};

/// An image of this head, packed in the way of this number, with these chunks and how long each is said to be when unpacked.
pub fn image(head: &[u8], packing: u32, chunks: &[(&[u8], u32)]) -> Vec<u8> {
    let (mut out, mut running) = (Vec::new(), 0);
    begin(head, packing, &mut out);
    for (chunk, unpacked) in chunks {
        running = crc(running, chunk);
        out.extend(chunk_begin(chunk.len() as u32, *unpacked, running));
        out.extend_from_slice(chunk);
    }
    out
}
