//! Byte order.

/// Appends values of `size` bytes, with the bytes of each reversed if `swap`.
pub(super) fn reorder(size: usize, swap: bool, data: &[u8], out: &mut Vec<u8>) {
    // Each size has its own loop, so that the compiler uses byte swaps of whole words.
    fn swapped<const N: usize>(data: &[u8], out: &mut Vec<u8>) {
        out.extend(data.as_chunks::<N>().0.iter().flat_map(|value| {
            let mut value = *value;
            value.reverse();
            value
        }));
    }
    match size {
        _ if !swap => out.extend_from_slice(data),
        2 => swapped::<2>(data, out),
        4 => swapped::<4>(data, out),
        8 => swapped::<8>(data, out),
        16 => swapped::<16>(data, out),
        _ => out.extend_from_slice(data),
    }
}
