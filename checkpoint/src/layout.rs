//! An image as bytes, which are written and read as a stream: docs/checkpoints.md has the layout.
//!
//! Invariants: neither side has more of the body in memory than a chunk, and of what is read the longest value. Beyond a chunk,
//! memory is taken for bytes that have been read, and for no number alone. No byte of a chunk is used before its checksum was compared.

use crate::packing::Packing;
use base::bytes::{Put, Take};
use crc32fast::Hasher;
use postcard::de_flavors::Flavor as From;
use postcard::ser_flavors::Flavor as To;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::{self, Read, Write};

/// The first bytes of an image.
const MAGIC: [u8; 8] = *b"MPICONNi";
/// The version of the format.
pub const VERSION: u32 = 2;
/// Magic, version, packing, length of the head, CRC-32 of the head, and of all this.
const BEGIN: usize = 28;
/// The longest head.
const MAX_HEAD: usize = 1 << 20;
/// The most bytes of a chunk, unpacked.
const MAX_CHUNK: usize = 1 << 20;
/// What is written at a time is a multiple of this.
const PIECE: usize = 1 << 20;
/// Before a chunk: its length, its length when unpacked, CRC-32 of all chunks so far, and of this. The last chunk has no bytes.
const CHUNK_BEGIN: usize = 16;

/// Why bytes are no image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageError {
    /// They begin otherwise.
    Foreign,
    /// They have this other version of the format.
    Version(u32),
    /// They are packed in this other way.
    Packing(u32),
    /// There are this many, and more should be there.
    Truncated(u64),
    /// They were changed.
    Damaged,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Foreign => f.write_str("no image of this library"),
            ImageError::Version(v) => write!(f, "version {v} of the format, this release reads {VERSION}"),
            ImageError::Packing(n) => write!(f, "packed in a way that this release does not know ({n})"),
            ImageError::Truncated(n) => write!(f, "cut off after {n} bytes"),
            ImageError::Damaged => f.write_str("damaged: a checksum differs"),
        }
    }
}

/// Why an image was not read.
#[derive(Debug)]
pub enum ReadError {
    /// The system refuses.
    System(io::Error),
    /// The bytes are no image.
    Image(ImageError),
}

impl std::convert::From<ImageError> for ReadError {
    fn from(e: ImageError) -> ReadError {
        ReadError::Image(e)
    }
}

/// The checksum of these bytes behind others that have this one.
pub fn crc(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

// ------------------------------------------------------------------------------------------------------------ writing

/// Writes an image.
pub fn write<H: Serialize, B: Serialize>(head: &H, body: &B, packing: Packing, to: &mut dyn Write) -> io::Result<()> {
    let head = postcard::to_stdvec(head).map_err(unwritable)?;
    if head.len() > MAX_HEAD {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "names and label are too long for an image"));
    }
    let mut out = Vec::with_capacity(PIECE + BEGIN + head.len() + CHUNK_BEGIN + MAX_CHUNK);
    begin(&head, packing.number(), &mut out);
    let mut chunks = Chunks { to, out, content: 0, packing, running: 0, fault: None };
    chunks.begin();
    match postcard::serialize_with_flavor(body, &mut chunks) {
        Ok(()) => chunks.end(),
        Err(e) => Err(chunks.fault.take().unwrap_or_else(|| unwritable(e))),
    }
}

/// What is before the chunks.
pub fn begin(head: &[u8], packing: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.put_u32(VERSION);
    out.put_u32(packing);
    out.put_u32(head.len() as u32);
    out.put_u32(crc(0, head));
    let checksum = crc(0, out);
    out.put_u32(checksum);
    out.extend_from_slice(head);
}

/// What is before a chunk of this length, with the checksum of all so far.
pub fn chunk_begin(length: u32, unpacked: u32, running: u32) -> Vec<u8> {
    let mut begin = Vec::with_capacity(CHUNK_BEGIN);
    begin.put_u32(length);
    begin.put_u32(unpacked);
    begin.put_u32(running);
    let checksum = crc(0, &begin);
    begin.put_u32(checksum);
    begin
}

fn unwritable(e: postcard::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, e)
}

/// The body, which is gathered into chunks.
struct Chunks<'a> {
    to: &'a mut dyn Write,
    /// What is to be written; its last chunk is open.
    out: Vec<u8>,
    /// Where the content of the open chunk begins.
    content: usize,
    packing: Packing,
    running: u32,
    fault: Option<io::Error>,
}

impl Chunks<'_> {
    /// Opens a chunk.
    fn begin(&mut self) {
        self.content = self.out.len() + CHUNK_BEGIN;
        self.out.resize(self.content, 0);
    }

    /// Closes the open chunk.
    fn close(&mut self) {
        let unpacked = self.out.len() - self.content;
        self.packing.pack(&mut self.out, self.content);
        self.running = crc(self.running, &self.out[self.content..]);
        let begin = chunk_begin((self.out.len() - self.content) as u32, unpacked as u32, self.running);
        self.out[self.content - CHUNK_BEGIN..self.content].copy_from_slice(&begin);
    }

    /// Room in the open chunk, which is a new one if it was full.
    fn room(&mut self) -> io::Result<usize> {
        if self.out.len() - self.content == MAX_CHUNK {
            self.close();
            // What ends within a page costs the kernel a fifth more.
            let whole = self.out.len() - self.out.len() % PIECE;
            self.to.write_all(&self.out[..whole])?;
            self.out.drain(..whole);
            self.begin();
        }
        Ok(MAX_CHUNK - (self.out.len() - self.content))
    }

    fn add(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(self.room()?.min(bytes.len()));
            self.out.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    fn end(mut self) -> io::Result<()> {
        if self.out.len() > self.content {
            self.close();
            self.begin();
        }
        self.close();
        self.to.write_all(&self.out)
    }
}

impl To for &mut Chunks<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.add(bytes).map_err(|e| {
            self.fault = Some(e);
            postcard::Error::SerializeBufferFull
        })
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

// ------------------------------------------------------------------------------------------------------------ reading

/// An image whose head was read.
pub struct Reader<'a> {
    from: &'a mut dyn Read,
    /// How many bytes of it were read.
    read: u64,
    packing: Packing,
    running: u32,
    /// The content of a chunk, and how much of it was taken.
    chunk: Vec<u8>,
    taken: usize,
    /// A chunk as it is in the file.
    packed: Vec<u8>,
    /// A value of several chunks.
    value: Vec<u8>,
    /// The last chunk was read.
    is_over: bool,
    fault: Option<ReadError>,
}

impl<'a> Reader<'a> {
    /// Reads the head of an image. No byte behind it is read.
    pub fn begin<H: DeserializeOwned>(from: &'a mut dyn Read) -> Result<(H, Reader<'a>), ReadError> {
        let mut all = Reader {
            from,
            read: 0,
            packing: Packing::default(),
            running: 0,
            chunk: Vec::new(),
            taken: 0,
            packed: Vec::new(),
            value: Vec::new(),
            is_over: false,
            fault: None,
        };
        let mut begin = Vec::new();
        let is_whole = all.take(BEGIN, &mut begin);
        let length = begin.len().min(MAGIC.len());
        if begin[..length] != MAGIC[..length] {
            return Err(ImageError::Foreign.into());
        }
        is_whole?;
        let mut fields = Take(&begin[MAGIC.len()..]);
        let mut field = || fields.u32().map_err(|_| ImageError::Damaged);
        let (version, packing, length, of_head, of_all) = (field()?, field()?, field()?, field()?, field()?);
        if version != VERSION {
            return Err(ImageError::Version(version).into());
        }
        if crc(0, &begin[..BEGIN - 4]) != of_all || length as usize > MAX_HEAD {
            return Err(ImageError::Damaged.into());
        }
        all.packing = Packing::of(packing).ok_or(ImageError::Packing(packing))?;
        let mut head = Vec::new();
        all.take(length as usize, &mut head)?;
        if crc(0, &head) != of_head {
            return Err(ImageError::Damaged.into());
        }
        Ok((postcard::from_bytes(&head).map_err(|_| ImageError::Damaged)?, all))
    }

    /// Reads so many bytes, at most a chunk, in place of what a vector has. What is missing is not there.
    fn take(&mut self, count: usize, to: &mut Vec<u8>) -> Result<(), ReadError> {
        to.resize(count, 0);
        let mut got = 0;
        while got < count {
            match self.from.read(&mut to[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return Err(ReadError::System(e)),
            }
        }
        to.truncate(got);
        self.read += got as u64;
        if got < count { Err(ImageError::Truncated(self.read).into()) } else { Ok(()) }
    }

    /// Reads the next chunk. Whether there is one.
    fn next_chunk(&mut self) -> Result<bool, ReadError> {
        if self.is_over {
            return Ok(false);
        }
        let mut begin = Vec::new();
        self.take(CHUNK_BEGIN, &mut begin)?;
        let mut fields = Take(&begin);
        let mut field = || fields.u32().map_err(|_| ImageError::Damaged);
        let (length, unpacked, running, of_begin) = (field()? as usize, field()? as usize, field()?, field()?);
        if crc(0, &begin[..CHUNK_BEGIN - 4]) != of_begin || unpacked > MAX_CHUNK || length > unpacked {
            return Err(ImageError::Damaged.into());
        }
        let mut packed = std::mem::take(&mut self.packed);
        self.take(length, &mut packed)?;
        self.running = crc(self.running, &packed);
        if self.running != running {
            return Err(ImageError::Damaged.into());
        }
        (self.chunk, self.packed) = if length == unpacked {
            (packed, std::mem::take(&mut self.chunk))
        } else {
            let chunk = self.packing.unpack(&packed, unpacked).ok_or(ImageError::Damaged)?;
            (chunk, packed)
        };
        self.taken = 0;
        self.is_over = unpacked == 0;
        Ok(!self.is_over)
    }

    /// The body. Of the source, nothing behind the image is read.
    pub fn body<B: DeserializeOwned>(mut self) -> Result<B, ReadError> {
        let mut from = postcard::Deserializer::from_flavor(Body(&mut self));
        let body = B::deserialize(&mut from);
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let body = body.map_err(|_| ImageError::Damaged)?;
        if self.taken < self.chunk.len() || self.next_chunk()? {
            return Err(ImageError::Damaged.into());
        }
        Ok(body)
    }

    /// Reads to the end of the image, and compares its checksums. How many bytes it has.
    pub fn skip(mut self) -> Result<u64, ReadError> {
        while self.next_chunk()? {}
        Ok(self.read)
    }
}

/// The bytes of a body.
struct Body<'r, 'a>(&'r mut Reader<'a>);

impl Body<'_, '_> {
    /// Sees that bytes are left in the chunk.
    fn fill(&mut self) -> postcard::Result<()> {
        if self.0.taken < self.0.chunk.len() {
            return Ok(());
        }
        match self.0.next_chunk() {
            Ok(true) => Ok(()),
            Ok(false) => Err(postcard::Error::DeserializeUnexpectedEnd),
            Err(e) => {
                self.0.fault = Some(e);
                Err(postcard::Error::DeserializeUnexpectedEnd)
            }
        }
    }
}

impl<'r> From<'r> for Body<'r, '_> {
    type Remainder = ();
    type Source = ();

    fn pop(&mut self) -> postcard::Result<u8> {
        self.fill()?;
        let byte = self.0.chunk[self.0.taken];
        self.0.taken += 1;
        Ok(byte)
    }

    /// What is known to be there: more than that is taken for no list.
    fn size_hint(&self) -> Option<usize> {
        Some(self.0.chunk.len() - self.0.taken)
    }

    /// Nothing of a body is borrowed.
    fn try_take_n(&mut self, _: usize) -> postcard::Result<&'r [u8]> {
        Err(postcard::Error::WontImplement)
    }

    fn try_take_n_temp<'t>(&'t mut self, count: usize) -> postcard::Result<&'t [u8]>
    where
        'r: 't,
    {
        if self.0.chunk.len() - self.0.taken >= count {
            self.0.taken += count;
            return Ok(&self.0.chunk[self.0.taken - count..self.0.taken]);
        }
        self.0.value.clear();
        while self.0.value.len() < count {
            self.fill()?;
            let Reader { chunk, taken, value, .. } = &mut *self.0;
            let now = (chunk.len() - *taken).min(count - value.len());
            value.extend_from_slice(&chunk[*taken..*taken + now]);
            *taken += now;
        }
        Ok(&self.0.value)
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
