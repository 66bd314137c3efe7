//! Records: the content of an encrypted connection, in pieces that are each encrypted and authenticated.
//!
//! [`Outbox`] makes them of bytes that are to be sent, and [`Inbox`] opens those that have come. Neither reads or writes a
//! socket. Invariants: the nonce of a direction counts its records from 0 and never goes back, across new keys too; content is
//! delivered only from a record whose tag was right; what an inbox holds is bounded by two records.

use crate::key::hash;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use base::protocol::greeting::{AES_256_GCM as BY_AES, CHACHA20_POLY1305 as BY_CHACHA, CONFIRMATION, PLAIN};
use base::protocol::record::{REKEY, TAG, head};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use zeroize::Zeroizing;

/// The most bytes of content of one record.
pub use base::protocol::record::MAX_CONTENT as MOST_RECORD;
/// Bytes in front of the content.
const HEAD: usize = head::BYTES;
/// Bytes of an inbox's buffer at first, and once a record does not fit: the largest one, and what comes with it.
const FIRST: usize = 4 << 10;
const BUFFER: usize = 2 * (HEAD + MOST_RECORD + TAG);

/// A record was changed, repeated, left out, or is none. The connection is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// How content is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// It is not.
    Plain,
    Aes,
    ChaCha,
}

impl Protection {
    /// The fastest protection that both machines compute in hardware, if there is to be any.
    pub(crate) fn choose(encrypted: bool, aes_is_fast_there: bool) -> Protection {
        match encrypted {
            false => Protection::Plain,
            true if aes_is_fast_there && is_aes_fast() => Protection::Aes,
            true => Protection::ChaCha,
        }
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Protection::Plain => PLAIN,
            Protection::Aes => BY_AES,
            Protection::ChaCha => BY_CHACHA,
        }
    }

    pub(crate) fn of(number: u8) -> Option<Protection> {
        [Protection::Plain, Protection::Aes, Protection::ChaCha].into_iter().find(|p| p.number() == number)
    }

    fn algorithm(self) -> &'static Algorithm {
        if self == Protection::Aes { &AES_256_GCM } else { &CHACHA20_POLY1305 }
    }
}

/// Whether this machine computes AES-GCM in hardware.
pub(crate) fn is_aes_fast() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    false
}

/// The key of one direction, and the number of its next record.
pub(crate) struct Direction {
    protection: Protection,
    secret: Zeroizing<[u8; 32]>,
    key: LessSafeKey,
    next: u64,
}

impl Direction {
    /// `split` is what the handshake has made for this direction.
    pub(crate) fn new(protection: Protection, split: &[u8; 32]) -> Direction {
        // One secret per cipher, so that none is used with two.
        let purpose = ["mpi-connect records, plain", "mpi-connect records, aes", "mpi-connect records, chacha"];
        let secret = Zeroizing::new(hash(purpose[usize::from(protection.number())], split));
        Direction { protection, key: key(protection, &secret), secret, next: 0 }
    }

    fn nonce(&mut self) -> Nonce {
        if self.next > 0 && self.next.is_multiple_of(REKEY) {
            self.secret = Zeroizing::new(hash("mpi-connect next key", &self.secret[..]));
            self.key = key(self.protection, &self.secret);
        }
        let mut bytes = [0; 12];
        bytes[4..].copy_from_slice(&self.next.to_le_bytes());
        self.next = self.next.checked_add(1).expect("no connection carries 2^64 records");
        Nonce::assume_unique_for_key(bytes)
    }

    /// The record without content that confirms a handshake.
    pub(crate) fn confirm(&mut self) -> [u8; CONFIRMATION] {
        let nonce = self.nonce();
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut []);
        tag.expect("nothing is too long").as_ref().try_into().expect("a tag of 16 bytes")
    }

    /// Whether these bytes are the other side's [`Direction::confirm`].
    pub(crate) fn is_confirmed(&mut self, tag: &[u8]) -> bool {
        let nonce = self.nonce();
        self.key.open_separate_gather(nonce, Aad::empty(), &[], tag, &mut []).is_ok()
    }
}

fn key(protection: Protection, secret: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(protection.algorithm(), secret).expect("both ciphers have keys of 32 bytes"))
}

/// Bytes that are to be sent, as records.
pub struct Outbox {
    direction: Direction,
    /// Memory that is used again as it is. What waits in it was not sent.
    bytes: Vec<u8>,
    waits: Range<usize>,
}

impl Outbox {
    pub(crate) fn new(direction: Direction) -> Outbox {
        Outbox { direction, bytes: Vec::new(), waits: 0..0 }
    }

    /// Makes one record of the beginning of this content, and returns how many bytes of it it has: at most [`MOST_RECORD`].
    pub fn add(&mut self, content: &[IoSlice<'_>]) -> usize {
        let all: usize = content.iter().map(|piece| piece.len()).sum();
        let len = all.min(MOST_RECORD);
        if len == 0 {
            return 0;
        }
        if self.waits.is_empty() {
            self.waits = 0..0;
        }
        let record = self.waits.end..self.waits.end + HEAD + len + TAG;
        if self.bytes.len() < record.end {
            self.bytes.resize(record.end, 0);
        }
        self.waits.end = record.end;
        let head = ((len + TAG) as u32).to_le_bytes();
        let (to, rest) = self.bytes[record].split_at_mut(HEAD);
        to.copy_from_slice(&head);
        let (to, tag) = rest.split_at_mut(len);
        let nonce = self.direction.nonce();
        let (key, aad) = (&self.direction.key, Aad::from(head));
        if let Some(whole) = content.first().filter(|piece| piece.len() >= len) {
            // From where it is: no copy.
            key.seal_out_of_place_scatter(nonce, aad, &whole[..len], to, &[], tag).expect("a record is short");
            return len;
        }
        let mut at = 0;
        for piece in content {
            let piece = &piece[..piece.len().min(len - at)];
            to[at..][..piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        let made = key.seal_in_place_separate_tag(nonce, aad, to).expect("a record is short");
        tag.copy_from_slice(made.as_ref());
        len
    }

    /// What is to be written next.
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.waits.clone()]
    }

    /// Reports that so many bytes of it were written.
    pub fn sent(&mut self, n: usize) {
        self.waits.start += n;
    }
}

/// Records that have come, and their content.
pub struct Inbox {
    direction: Direction,
    bytes: Vec<u8>,
    /// What has come and was not opened.
    here: Range<usize>,
    /// Content that was opened and not taken.
    content: Range<usize>,
    ahead: bool,
}

impl Inbox {
    pub(crate) fn new(direction: Direction) -> Inbox {
        Inbox { direction, bytes: Vec::new(), here: 0..0, content: 0..0, ahead: false }
    }

    /// From now on, [`Inbox::space`] is as large as the buffer allows, and not only as the record that comes. So one read brings
    /// several small records, or parts of two large ones. Whoever watches the connection is then not told of content that is here
    /// already: [`Inbox::has_content`] is.
    pub fn read_ahead(&mut self) {
        self.ahead = true;
    }

    /// Whether content waits that needs no more bytes of the other side.
    #[inline]
    pub fn has_content(&self) -> bool {
        !self.content.is_empty() || self.ahead && self.record().is_ok_and(|record| record.is_some())
    }

    /// The record that comes next, if it is whole: where it lies, without its head.
    #[inline]
    fn record(&self) -> Result<Option<Range<usize>>, Broken> {
        let Some(head) = self.bytes[self.here.clone()].first_chunk() else { return Ok(None) };
        let at = self.here.start + HEAD;
        let record = at..at + len(head)?;
        Ok((record.end <= self.here.end).then_some(record))
    }

    /// Where the next bytes of the connection belong. Empty as long as a record is whole or content waits: [`Inbox::take`]
    /// comes first.
    pub fn space(&mut self) -> Result<&mut [u8], Broken> {
        if !self.content.is_empty() || self.record()?.is_some() {
            return Ok(&mut []);
        }
        let wanted = match self.bytes[self.here.clone()].first_chunk() {
            None => HEAD,
            Some(head) => HEAD + len(head)?,
        };
        if self.here.is_empty() {
            self.here = 0..0;
        } else if self.here.start + wanted > self.bytes.len() {
            self.bytes.copy_within(self.here.clone(), 0);
            self.here = 0..self.here.len();
        }
        if wanted > self.bytes.len() {
            // Most connections bring little at a time.
            self.bytes.resize(if wanted > FIRST { BUFFER } else { FIRST }, 0);
        }
        let end = if self.ahead { self.bytes.len() } else { self.here.start + wanted };
        Ok(&mut self.bytes[self.here.end..end])
    }

    /// Reports that so many bytes were put into [`Inbox::space`].
    pub fn filled(&mut self, n: usize) {
        self.here.end += n;
    }

    /// Moves content to these buffers, in order, and returns how many bytes; 0 if no record is whole.
    pub fn take(&mut self, to: &mut [IoSliceMut<'_>]) -> Result<usize, Broken> {
        if self.content.is_empty() {
            let Some(record) = self.record()? else { return Ok(0) };
            let head: [u8; HEAD] = self.bytes[self.here.start..record.start].try_into().map_err(|_| Broken)?;
            self.here.start = record.end;
            let (nonce, aad) = (self.direction.nonce(), Aad::from(head));
            let (content, key) = (record.start..record.end - TAG, &self.direction.key);
            if let Some(whole) = to.first_mut().filter(|piece| piece.len() >= content.len()) {
                // To where it belongs: no copy.
                let (sealed, tag) = self.bytes[record].split_at(content.len());
                let opened = key.open_separate_gather(nonce, aad, sealed, tag, &mut whole[..content.len()]);
                return opened.map(|()| content.len()).map_err(|_| Broken);
            }
            key.open_in_place(nonce, aad, &mut self.bytes[record]).map_err(|_| Broken)?;
            self.content = content;
        }
        let mut taken = 0;
        for piece in to {
            let n = piece.len().min(self.content.len());
            piece[..n].copy_from_slice(&self.bytes[self.content.start..self.content.start + n]);
            self.content.start += n;
            taken += n;
        }
        Ok(taken)
    }
}

/// The length of the record of this head, without the head.
fn len(head: &[u8; HEAD]) -> Result<usize, Broken> {
    let len = u32::from_le_bytes(*head) as usize;
    if (TAG + 1..=TAG + MOST_RECORD).contains(&len) { Ok(len) } else { Err(Broken) }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
