//! Threads inside a user's program: the client of naming servers renews claims on one, and the library reports long waits.

use std::io;
use std::thread::Builder;

/// The stack of a thread, in bytes; the system's resolver needs most of it.
const STACK: usize = 512 << 10;

/// Starts a thread of this name in which all signals are blocked.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    base::thread::begin(Builder::new().name(name.into()).stack_size(STACK), work).map(drop)
}
