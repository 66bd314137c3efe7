//! Little-endian fields of fixed width, written to and read from bytes. Reading is strict: it never goes past the end
//! of the input.

/// The bytes are shorter than their layout, or have a value that the layout does not allow. On a lane it means that
/// the peer process broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Appends fields to what grows by bytes, in little-endian order.
pub trait Put {
    /// Appends these bytes alone.
    fn put_raw(&mut self, v: &[u8]);
    /// Appends one byte.
    #[inline(always)]
    fn put_u8(&mut self, v: u8) {
        self.put_raw(&[v]);
    }
    /// Appends two bytes.
    #[inline(always)]
    fn put_u16(&mut self, v: u16) {
        self.put_raw(&v.to_le_bytes());
    }
    /// Appends four bytes.
    #[inline(always)]
    fn put_u32(&mut self, v: u32) {
        self.put_raw(&v.to_le_bytes());
    }
    /// Appends eight bytes, in two's complement.
    #[inline(always)]
    fn put_i64(&mut self, v: i64) {
        self.put_raw(&v.to_le_bytes());
    }
    /// Appends eight bytes.
    #[inline(always)]
    fn put_u64(&mut self, v: u64) {
        self.put_raw(&v.to_le_bytes());
    }
    /// Appends the length of `v` as a `u32`, then `v`.
    ///
    /// # Panics
    /// If `v` has 4 GiB or more.
    fn put_bytes(&mut self, v: &[u8]) {
        self.put_u32(u32::try_from(v.len()).expect("a record's field is under 4 GiB"));
        self.put_raw(v);
    }
}

impl Put for Vec<u8> {
    #[inline(always)]
    fn put_raw(&mut self, v: &[u8]) {
        self.extend_from_slice(v);
    }
}

/// Takes fields off the front of a slice. The slice inside is what has not been taken yet.
///
/// Each call returns [`Malformed`], and takes nothing, if fewer bytes are left than it needs.
#[derive(Clone, Copy)]
pub struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    /// The next `n` bytes.
    #[inline]
    pub(crate) fn slice(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        if n > self.0.len() {
            return Err(Malformed);
        }
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        Ok(head)
    }
    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.slice(N)?.try_into().expect("slice of N bytes"))
    }
    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }
    /// The next two bytes, as a number.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    /// The next four bytes, as a number.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    /// The next eight bytes, as a number.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    /// A field written by [`Put::put_bytes`]. A length above `max` bytes is [`Malformed`], and is found before any of
    /// the bytes is taken.
    pub fn bytes(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let n = self.u32()? as usize;
        if n > max { Err(Malformed) } else { self.slice(n) }
    }
    /// All bytes that are left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
    /// [`Malformed`] if bytes are left: the input is longer than its layout.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// For serde, `#[serde(with = "base::bytes::whole")]`: bytes in one piece, and not one by one. In postcard both are the same bytes.
pub mod whole {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;
    use std::fmt;

    /// Writes them.
    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    /// Reads them.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }
        }
        from.deserialize_byte_buf(Bytes)
    }
}
