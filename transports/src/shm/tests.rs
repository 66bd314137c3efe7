//! The conformance suite for shared memory.

use super::hello::MAX_MESSAGE;
use super::rights::Connection;
use crate::stream::ByteStream;
use std::io::{self, IoSlice, IoSliceMut};

crate::conformance::suite!(shm, |place, _| Stranger::reach(&place.address));

/// A connection without doorbells.
struct Stranger(Connection);

impl Stranger {
    fn reach(process: &[u8]) -> io::Result<Stranger> {
        let connection = Connection::new()?;
        connection.reach(process.try_into().unwrap())?;
        Ok(Stranger(connection))
    }
}

impl ByteStream for Stranger {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = bufs.iter().flat_map(|b| b.iter().copied()).collect();
        self.0.send(&bytes, &[]).map(|()| bytes.len())
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut bytes = [0; MAX_MESSAGE];
        let (n, _) = self.0.receive(&mut bytes)?;
        bufs[0][..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn cut(&mut self) {
        self.0.cut();
    }
}
