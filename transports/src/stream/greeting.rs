//! HELLO and HELLO-ACK over a byte stream, which may come in pieces.
//!
//! Used by both ends of a handshake over a stream. Invariant: no byte behind the message is read, and no more is held than the
//! longest message has.

use super::ByteStream;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use wire::hello::{HELLO_ACK_LEN, HELLO_LEN, HelloError, MAX_PROOF};
use wire::{Hello, HelloAck};

/// The bytes of a HELLO or HELLO-ACK that have come so far.
#[derive(Default)]
pub(crate) struct Greeting(Vec<u8>);

impl Greeting {
    /// Reads until there are `len` bytes. `WouldBlock` if they have not all come yet.
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

    /// The whole HELLO, or the reason why it cannot be understood. `WouldBlock` if it is not whole yet.
    pub(crate) fn hello(&mut self, stream: &mut impl ByteStream) -> io::Result<Result<Hello, HelloError>> {
        self.fill(stream, HELLO_LEN)?;
        let head = self.0.first_chunk().expect("as long as a head");
        match Hello::proof_len(head) {
            Ok(proof) => self.fill(stream, HELLO_LEN + proof)?,
            Err(e) => {
                // A socket that is closed with something unread takes back what was said to the other side: here, which
                // version is spoken. A later one may have a proof behind its head.
                if e == HelloError::OtherVersion {
                    let _ = self.fill(stream, HELLO_LEN + MAX_PROOF);
                }
                return Ok(Err(e));
            }
        }
        Ok(Hello::decode(&std::mem::take(&mut self.0)))
    }

    /// The whole HELLO-ACK. `WouldBlock` if it is not whole yet.
    pub(crate) fn ack(&mut self, stream: &mut impl ByteStream) -> io::Result<HelloAck> {
        self.fill(stream, HELLO_ACK_LEN)?;
        let head = self.0.first_chunk().expect("as long as a head");
        let proof = HelloAck::proof_len(head).map_err(|_| ErrorKind::InvalidData)?;
        self.fill(stream, HELLO_ACK_LEN + proof)?;
        HelloAck::decode(&std::mem::take(&mut self.0)).map_err(|_| ErrorKind::InvalidData.into())
    }
}

/// Writes a HELLO or HELLO-ACK. A new stream has room for it, so a partial write is an error.
pub(crate) fn say(stream: &mut impl ByteStream, bytes: &[u8]) -> io::Result<()> {
    let n = stream.write_vectored(&[IoSlice::new(bytes)])?;
    if n == bytes.len() { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}
