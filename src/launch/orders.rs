//! Where orders come from while a launch runs, if it is not alone: the host that it was started from, or the process that had a
//! job started by MPI_Comm_spawn.
//!
//! Invariant: the end of the connection is an order to end, unless the other side has said before that it is none.

use super::there;
use base::bytes::{Malformed, Put};
use base::protocol::spawn::{MAX_REPORT, MAX_SPAWN, RELEASE};
use base::spawn::Request;
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Who gives orders.
pub enum Orders {
    /// A launch on another host.
    Launch(File),
    /// The root of MPI_Comm_spawn, which is told why the job has ended.
    Parent(File),
}

/// What came.
pub enum Order {
    Signals(Vec<Signal>),
    /// The jobs do not depend on the other side any more.
    Release,
    /// The connection has ended.
    End,
}

impl Orders {
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Orders::Launch(from) | Orders::Parent(from) => from.as_fd(),
        }
    }

    pub fn next(&self) -> Order {
        match self {
            Orders::Launch(from) => there::orders(from).map_or(Order::End, Order::Signals),
            Orders::Parent(from) => {
                let mut bytes = [0; 16];
                match (&mut &*from).read(&mut bytes) {
                    Ok(n @ 1..) if bytes[..n].contains(&RELEASE) => Order::Release,
                    Ok(1..) => Order::Signals(Vec::new()),
                    _ => Order::End,
                }
            }
        }
    }

    pub fn is_parent(&self) -> bool {
        matches!(self, Orders::Parent(_))
    }

    /// Tells a parent why there is no job any more, or none at all. It may be gone, or have no use for it.
    pub fn report(&self, why: &str) {
        if let Orders::Parent(to) = self {
            let mut end = MAX_REPORT.min(why.len());
            while !why.is_char_boundary(end) {
                end -= 1;
            }
            let mut out = Vec::new();
            out.put_bytes(&why.as_bytes()[..end]);
            let _ = (&mut &*to).write_all(&out);
        }
    }
}

/// What a parent wants to have started.
pub fn request(from: &File) -> io::Result<Request> {
    let mut from = from;
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_SPAWN {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Request::decode(&bytes).map_err(|Malformed| io::ErrorKind::InvalidData.into())
}
