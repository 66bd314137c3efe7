//! MPI_Comm_join: makes an inter-communicator of two processes that have a socket between them.
//!
//! Each process writes its contact to the socket and reads the other's. Nothing else goes over the socket, and no byte
//! stays unread.

use super::open::own_name;
use crate::abi;
use crate::conn::bounds::{self, largest_tag};
use crate::conn::collective::{Team, copy, or_free};
use crate::conn::joined;
use crate::error::copy_errhandler;
use crate::failure::{Class, Failure};
use crate::inter::Inter;
use crate::process::node;
use crate::wait::wait_until;
use crate::{datatype, progress};
use base::ProcId;
use base::bytes::Put;
use base::ident::random;
use base::log::Patience;
use base::protocol::context::ONLY;
use base::protocol::port::{JOIN_MAGIC as MAGIC, MAX_JOIN as MOST, join as at};
use node::leaders::{Agreement, Party};
use node::{Contacts, Group, Node, Waits};
use std::collections::HashSet;
use std::ffi::c_int;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The time between two looks at the socket.
const AGAIN: Duration = Duration::from_millis(1);

pub fn join(fd: c_int) -> Result<Inter, Failure> {
    let node = node().and_then(|node| progress::build().map(|()| node))?;
    let abi = abi::get();
    let team = copy(abi, abi.comm_self, 0)?;
    let group = Group { incarnation: u64::from_le_bytes(random()), cookie: random(), rank: 0, size: 1 };
    node.add_open_group(group);
    let made = or_free(abi, team.comm, meet(node, &team, &group, fd));
    node.remove_group(group.incarnation);
    let inter = made?;
    copy_errhandler(abi.comm_self, inter.shadow);
    base::log!(Info, "joined with {} over a socket", inter.remote.name);
    Ok(inter)
}

fn meet(node: &Node, team: &Team, group: &Group, fd: c_int) -> Result<Inter, Failure> {
    let tag_ub = largest_tag(abi::get());
    let contact = node.contact();
    let own = Party {
        incarnation: group.incarnation,
        cookie: group.cookie,
        size: 1,
        tag_ub: tag_ub as u32,
        representation: datatype::representation().number(),
        registered: None,
        name: own_name(),
        wanted: String::new(),
        records: Contacts::from(vec![contact.clone()]).bytes().to_vec(),
    };
    let theirs = swap(node, fd, &joined::write(&Agreement { context: ONLY, remote: own }))?;
    let agreement = joined::read(&theirs)?;
    joined::check(&agreement.remote, &HashSet::from([contact.process]))?;
    let me = ProcId { incarnation: group.incarnation, rank: 0 };
    joined::open(node, me, (team.comm, tag_ub), &agreement, None)
}

/// Writes `own`, and reads what the other side writes.
fn swap(node: &Node, fd: c_int, own: &[u8]) -> Result<Vec<u8>, Failure> {
    let timeout = bounds::timeout()?;
    let deadline = Instant::now() + timeout;
    let mut out = MAGIC.to_vec();
    out.put_u32(own.len() as u32);
    out.extend_from_slice(own);
    let (mut sent, mut got) = (0, Vec::new());
    let mut wanted = at::CONTEXT;
    let mut patience = Patience::new(Instant::now());
    let _told = Waits::begin(node, "MPI_Comm_join", "for the other side of its socket".to_owned());
    loop {
        sent += some(send(fd, &out[sent..]))?;
        let mut piece = vec![0; wanted - got.len()];
        let n = some(receive(fd, &mut piece))?;
        got.extend_from_slice(&piece[..n]);
        wanted = whole(&got)?;
        if sent == out.len() && got.len() == wanted && wanted > at::CONTEXT {
            return Ok(got.split_off(at::CONTEXT));
        }
        if Instant::now() >= deadline {
            let text = format!("waited {} s for the other side of the socket", timeout.as_secs_f32());
            return Err(Failure::new(Class::Timeout, text));
        }
        if let Some(seconds) = patience.is_over(Instant::now()) {
            base::log!(
                Notice,
                "MPI_Comm_join waits for {seconds} s for the other side of the socket, which needs this library too: \
                 start it by 'mpi-connect run'"
            );
        }
        if n == 0 {
            wait_until(node, Some(Instant::now() + AGAIN), |_| None::<()>);
        }
    }
}

/// The bytes of the other side's whole message, as far as those that have come tell: at least its head.
pub(crate) fn whole(got: &[u8]) -> Result<usize, Failure> {
    let Some((head, _)) = got.split_first_chunk::<{ at::CONTEXT }>() else { return Ok(at::CONTEXT) };
    let length = u32::from_le_bytes([head[at::LEN], head[at::LEN + 1], head[at::LEN + 2], head[at::LEN + 3]]) as usize;
    if head[..at::LEN] != MAGIC || length > MOST {
        let text = "the other side does not join by this library: both sides need it";
        return Err(Failure::new(Class::Other, text));
    }
    Ok(at::CONTEXT + length)
}

/// The number of bytes that were moved. 0: the call would block.
fn some(moved: io::Result<usize>) -> Result<usize, Failure> {
    moved.or_else(|e| match (e.kind(), e.raw_os_error()) {
        (ErrorKind::WouldBlock | ErrorKind::Interrupted, _) => Ok(0),
        (_, Some(libc::ENOTSOCK | libc::EBADF | libc::ENOTCONN)) => {
            Err(Failure::new(Class::Arg, format!("the descriptor is no connected socket: {e}")))
        }
        _ => Err(Failure::new(Class::Other, format!("the other side of the socket is gone: {e}"))),
    })
}

fn send(fd: c_int, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    // SAFETY: a buffer of this many bytes.
    let n = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

fn receive(fd: c_int, to: &mut [u8]) -> io::Result<usize> {
    if to.is_empty() {
        return Ok(0);
    }
    // SAFETY: a buffer of this many bytes.
    let n = unsafe { libc::recv(fd, to.as_mut_ptr().cast(), to.len(), libc::MSG_DONTWAIT) };
    match usize::try_from(n) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(n) => Ok(n),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
