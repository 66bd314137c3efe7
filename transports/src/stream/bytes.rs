//! A connected stream of bytes.

use std::io::{self, IoSlice, IoSliceMut};
use wire::lane::InKernel;

const EFAULT: i32 = nix::errno::Errno::EFAULT as i32;

/// Both directions of a connected stream. `WouldBlock` means "no room" or "nothing there"; reading 0 bytes, the end.
pub trait ByteStream {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    /// Ends it both ways; both sides see it.
    fn cut(&mut self);
    /// What was written and the other side's kernel has not acknowledged, if a kernel is between the two.
    fn in_kernel(&self) -> Option<InKernel> {
        None
    }
    /// How many descriptors it takes.
    fn descriptors(&self) -> usize {
        1
    }
}

/// A buffer that the program gave is no memory of its: no lane can do better, so this ends as a program ends that
/// touches such memory itself.
pub fn stop_if_bad_memory(e: &io::Error, call: &str) {
    if e.raw_os_error() == Some(EFAULT) {
        panic!("mpi_connect: the buffer of a {call} is not in this program's memory ({e})");
    }
}
