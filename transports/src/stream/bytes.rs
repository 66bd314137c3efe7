//! A connected stream of bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::time::Duration;
use wire::lane::InKernel;

const EFAULT: i32 = nix::errno::Errno::EFAULT as i32;

/// Both directions of a connected stream. No call blocks.
pub trait ByteStream {
    /// Writes bytes of these buffers, in order, and returns how many. `WouldBlock` if there is no room.
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Writes all of a short message, which may travel with what is written next.
    fn write_more(&mut self, bytes: &[u8]) -> io::Result<()> {
        let n = self.write_vectored(&[IoSlice::new(bytes)])?;
        if n == bytes.len() { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
    /// Reads bytes into these buffers, in order, and returns how many; 0 at the end of the stream. `WouldBlock` if there are
    /// none.
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    /// Writes what it has taken and kept. Returns whether nothing is left.
    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }
    /// Whether it has taken bytes that are not written yet.
    fn has_output(&self) -> bool {
        false
    }
    /// From now on the reader looks at [`ByteStream::has_input`] before it waits, so more may be read at once than is asked for.
    fn read_ahead(&mut self) {}
    /// Whether it has bytes to be read of which its descriptor does not tell.
    fn has_input(&self) -> bool {
        false
    }
    /// Ends both directions; both sides see the end.
    fn cut(&mut self);
    /// The bytes that were written and that the other side's kernel has not acknowledged; `None` if no kernel is in between.
    fn in_kernel(&self) -> Option<InKernel> {
        None
    }
    /// The round trip to the other side's kernel, as this host's measures it; `None` if no kernel is in between.
    fn round_trip(&self) -> Option<Duration> {
        None
    }
    /// The number of its descriptors.
    fn descriptors(&self) -> usize {
        1
    }
}

/// Panics on EFAULT: the program has given a buffer that is not in its memory. No other lane could do better, and a
/// program that touches such memory itself ends too.
pub(super) fn stop_if_bad_memory(e: &io::Error, call: &str) {
    if e.raw_os_error() == Some(EFAULT) {
        panic!("mpi_connect: the buffer of a {call} is not in this program's memory ({e})");
    }
}
