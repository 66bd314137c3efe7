//! HELLO and HELLO-ACK over a byte stream, however little of them comes at a time.
//!
//! Used by both ends of a handshake over a stream. Invariant: nothing behind the one that is read is touched, and no more
//! than the longest is ever held.

use super::ByteStream;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use wire::hello::{HELLO_ACK_LEN, HELLO_LEN, HelloError};
use wire::{Hello, HelloAck};

/// What has come of one of them.
#[derive(Default)]
pub struct Greeting(Vec<u8>);

impl Greeting {
    /// Reads until there are `len` bytes; `WouldBlock`: not yet.
    fn fill(&mut self, stream: &mut impl ByteStream, len: usize) -> io::Result<()> {
        let mut have = self.0.len();
        self.0.resize(len.max(have), 0);
        while have < len {
            match stream.read_vectored(&mut [IoSliceMut::new(&mut self.0[have..len])]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => have += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => {
                    self.0.truncate(have);
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// A whole HELLO, once; or why it cannot be looked at.
    pub fn hello(&mut self, stream: &mut impl ByteStream) -> io::Result<Result<Hello, HelloError>> {
        self.fill(stream, HELLO_LEN)?;
        let head = self.0.first_chunk().expect("as long as a head");
        match Hello::proof_len(head) {
            Ok(proof) => self.fill(stream, HELLO_LEN + proof)?,
            Err(e) => return Ok(Err(e)),
        }
        Ok(Hello::decode(&std::mem::take(&mut self.0)))
    }

    /// A whole HELLO-ACK, once.
    pub fn ack(&mut self, stream: &mut impl ByteStream) -> io::Result<HelloAck> {
        self.fill(stream, HELLO_ACK_LEN)?;
        let head = self.0.first_chunk().expect("as long as a head");
        let proof = HelloAck::proof_len(head).map_err(|_| ErrorKind::InvalidData)?;
        self.fill(stream, HELLO_ACK_LEN + proof)?;
        HelloAck::decode(&std::mem::take(&mut self.0)).map_err(|_| ErrorKind::InvalidData.into())
    }
}

/// Writes one of them. A fresh stream has room for it; one that has not is of no use.
pub fn say(stream: &mut impl ByteStream, bytes: &[u8]) -> io::Result<()> {
    let n = stream.write_vectored(&[IoSlice::new(bytes)])?;
    if n == bytes.len() { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}
