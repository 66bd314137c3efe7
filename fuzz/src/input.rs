//! An input as a script: which steps are done, with which numbers and bytes.
//!
//! For targets that drive a state machine. Invariant: every input is a script, and its end is the script's end, so the
//! fuzzer may cut, join and change inputs as it likes.

/// The rest of a script.
pub struct Script<'a>(pub &'a [u8]);

impl<'a> Script<'a> {
    /// The next byte. `None`: the script is at its end.
    pub fn step(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte, or 0.
    pub fn byte(&mut self) -> u8 {
        self.step().unwrap_or(0)
    }

    /// The next two bytes as a number.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// The next eight bytes as a number.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number: small ones take a byte, and others, which a byte from 248 on announces, eight more.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ ..248 => u64::from(small),
            // Near the end of the range.
            248 => u64::MAX - u64::from(self.byte()),
            249 => i64::MAX as u64 - u64::from(self.byte()),
            250 => 1 << (self.byte() % 64),
            _ => self.long(),
        }
    }

    /// As many of the next bytes as there are, at most this many.
    pub fn some(&mut self, most: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        some
    }

    /// Bytes behind their number, which is one byte, or three if that is 255.
    pub fn bytes(&mut self) -> &'a [u8] {
        let n = match self.byte() {
            255 => usize::from(self.short()),
            n => usize::from(n),
        };
        self.some(n)
    }
}

/// Bytes behind their number, as [`Script::bytes`] reads them. For seeds.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(n @ ..=254) => out.push(n),
        _ => {
            out.push(255);
            out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        }
    }
    out.extend_from_slice(bytes);
}
