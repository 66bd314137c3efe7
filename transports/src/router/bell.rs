//! Bells: descriptors that are readable while they are rung.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;

/// A bell that is not rung.
pub(super) fn bell() -> io::Result<EventFd> {
    Ok(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?)
}
