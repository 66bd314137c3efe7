//! Keys, their identifiers, and their form as text.
//!
//! Invariant: a key is erased when it is dropped, and is never part of a message: `Debug` shows its identifier.

use aws_lc_rs::digest;
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of a key.
const LEN: usize = 32;

/// A key: whoever holds it may join.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Zeroizing<[u8; LEN]>);

/// The identifier of a key, from which the key cannot be told: the first 8 bytes of a hash of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub [u8; 8]);

/// A text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError;

impl Key {
    /// A new key, from the kernel's random source.
    pub fn new() -> Key {
        Key(Zeroizing::new(base::ident::random()))
    }

    /// The key of these bytes, which have to be secret and hard to guess.
    pub fn from_bytes(bytes: [u8; LEN]) -> Key {
        Key(Zeroizing::new(bytes))
    }

    /// A key that only who knows all of `secret` can make.
    pub fn derived(purpose: &str, secret: &[u8]) -> Key {
        Key(Zeroizing::new(hash(purpose, secret)))
    }

    /// The key of 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Key, ParseError> {
        let digits = text.as_bytes();
        let mut key = Zeroizing::new([0; LEN]);
        if digits.len() != 2 * LEN {
            return Err(ParseError);
        }
        for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16).ok_or(ParseError);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Key(key))
    }

    /// The key as [`Key::parse`] reads it.
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 * LEN));
        for byte in self.0.iter() {
            text.extend([byte >> 4, byte & 15].map(|n| char::from_digit(n.into(), 16).expect("a digit")));
        }
        text
    }

    /// Its identifier.
    pub fn id(&self) -> KeyId {
        let hash = hash("mpi-connect key id", &self.0[..]);
        KeyId(*hash.first_chunk().expect("it is longer"))
    }

    pub(crate) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl Default for Key {
    fn default() -> Key {
        Key::new()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// 16 hexadecimal digits in groups of four.
impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, pair) in self.0.chunks_exact(2).enumerate() {
            write!(f, "{}{:02x}{:02x}", if n > 0 { "-" } else { "" }, pair[0], pair[1])?;
        }
        Ok(())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A number that everybody may know, from which `secret` cannot be told.
pub fn public_number(purpose: &str, secret: &[u8]) -> u64 {
    u64::from_le_bytes(*hash(purpose, secret).first_chunk().expect("it is longer"))
}

/// Half of a hash of bytes, for the trees over contact records. No other bytes with the same one can be found for given bytes.
pub fn digest(bytes: &[u8]) -> [u8; 16] {
    *hash("mpi-connect records", bytes).first_chunk().expect("it is longer")
}

/// SHA-256 of a purpose and bytes. The length of the purpose comes first, so no two pairs give the same input.
pub(crate) fn hash(purpose: &str, bytes: &[u8]) -> [u8; LEN] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&[purpose.len() as u8]);
    context.update(purpose.as_bytes());
    context.update(bytes);
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_as_text() {
        let key = Key::new();
        assert_eq!(Key::parse(&key.text()), Ok(key.clone()));
        assert_eq!(key.text().len(), 64);
        assert_ne!(Key::new(), key);
        for bad in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(Key::parse(bad), Err(ParseError), "{bad}");
        }
    }

    #[test]
    fn an_identifier_tells_keys_apart_and_shows_none() {
        let key = Key::from_bytes([7; 32]);
        assert_eq!(key.id(), Key::parse(&"07".repeat(32)).unwrap().id());
        assert_ne!(key.id(), Key::from_bytes([8; 32]).id());
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.id().to_string()) && !shown.contains("0707"), "{shown}");
        assert_eq!(KeyId([1, 2, 3, 4, 5, 6, 7, 0xff]).to_string(), "0102-0304-0506-07ff");
    }

    #[test]
    fn derived_keys_depend_on_both() {
        let key = Key::derived("port", b"abc");
        assert_eq!(key, Key::derived("port", b"abc"));
        assert_ne!(key, Key::derived("port", b"abd"));
        assert_ne!(key, Key::derived("por", b"tabc"));
    }
}
