//! A hash to spread names and to notice mistakes. It is no protection against an adversary.

/// FNV-1a over 128 bits.
pub fn fnv128(bytes: &[u8]) -> u128 {
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    bytes.iter().fold(start, |h, b| (h ^ u128::from(*b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts() {
        assert_eq!(fnv128(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(fnv128(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }
}
