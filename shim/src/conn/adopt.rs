//! `MPI_CONNECT_ADOPT=1`: this library serves the inter-communicators that MPI_Intercomm_create makes within one job
//! like those between jobs. So any unmodified program or test suite with inter-communicators tests this library.
//!
//! The MPI below makes its own inter-communicator first, with all its checks, and the two sides exchange their contact
//! records by it. It stays as the twin, for the calls that this library does not serve: collectives, merge. Invariant:
//! an adopted inter-communicator knows its remote group as a group of the MPI below.

use super::collective::{Team, agree, copy, decide, encoded_contact, failed, native, or_free};
use crate::abi::Abi;
use crate::error::copy_errhandler;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::group::NativeGroup;
use crate::inter::{Inter, Members, Remote};
use crate::progress;
use base::ProcId;
use base::bytes::{Put, Take};
use base::protocol::context::ONLY;
use base::settings;
use node::leaders::MAX_RECORDS;
use node::{Contacts, ContextId, Group, Node, RemoteGroup};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, LazyLock};

pub fn is_on() -> bool {
    static ON: LazyLock<bool> = LazyLock::new(settings::adopt);
    *ON
}

/// Adopts the inter-communicator `twin` that the MPI below has just made from `local`. Collective over both sides.
pub fn adopt(abi: &Abi, node: &Node, local: Handle, twin: Handle) -> Result<Inter, Failure> {
    let team = copy(abi, local, 0)?;
    let inter = or_free(abi, team.comm, join(abi, node, &team, twin))?;
    copy_errhandler(twin, team.comm);
    inter.set_twin(twin);
    Ok(inter)
}

fn join(abi: &Abi, node: &Node, team: &Team, between: Handle) -> Result<Inter, Failure> {
    let Team { comm: shadow, rank, size, .. } = *team;
    let decided = |records: Result<Vec<u8>, Failure>| {
        let records = records?;
        let mut own = Vec::new();
        own.put_u64(u64::from_le_bytes(base::ident::random()));
        own.extend_from_slice(&base::ident::random::<16>());
        own.put_u32(size);
        own.put_bytes(&records);
        let theirs = swap(abi, between, &own)?;
        // The other processes of this side need only our incarnation and cookie.
        own.truncate(24);
        own.extend_from_slice(&theirs);
        Ok(own)
    };
    let told = decide(abi, node, team, progress::build().map(|()| encoded_contact(node)), decided)?;
    let damaged = |_| Failure::new(Class::Intern, "what the leaders told each other is damaged");
    let mut told = Take(&told);
    let mut identity = || Ok((told.u64()?, told.array()?));
    let ((incarnation, cookie), (remote, remote_cookie)) =
        identity().and_then(|own| Ok((own, identity()?))).map_err(damaged)?;
    let count = told.u32().map_err(damaged)?;
    let contacts = told.bytes(MAX_RECORDS).and_then(|records| Contacts::gathered(records, count)).map_err(damaged)?;
    let here = NativeGroup::remote_of(between).map_err(|code| failed("MPI_Comm_remote_group", code))?;
    let members = Members::all(contacts.clone());
    node.add_group(Group { incarnation, cookie, rank, size });
    let context = ContextId::root(ONLY);
    let me = ProcId { incarnation, rank };
    let id = node.open(me, &RemoteGroup { incarnation: remote, cookie: remote_cookie, contacts }, context);
    // All processes that may connect are known now.
    node.remove_group(incarnation);
    // No process dials another one before that one knows it.
    agree(abi, shadow, 0)?;
    if rank == 0 {
        swap(abi, between, &[])?;
    }
    agree(abi, shadow, 0)?;
    let name = "the same MPI job".to_owned();
    let remote = Remote { name, members, foreign: None, here: Some(Arc::new(here)) };
    base::log!(Info, "adopted an inter-communicator with {count} ranks of {}", remote.name);
    Ok(Inter::new(shadow, id, context, remote, super::bounds::largest_tag(abi)))
}

/// Exchanges bytes between the ranks 0 of both sides by the MPI below, and returns the other side's.
fn swap(abi: &Abi, between: Handle, own: &[u8]) -> Result<Vec<u8>, Failure> {
    // SAFETY: buffers of these sizes, which outlive the calls.
    let say = |out: &[u8], back: &mut [u8]| unsafe {
        let (sent, got) = (out.len() as c_int, back.len() as c_int);
        let ignore = abi.status_ignore as *mut c_void;
        let (out, back) = (out.as_ptr().cast(), back.as_mut_ptr().cast());
        native("MPI_Sendrecv", pmpi::sendrecv(out, sent, abi.byte, 0, 0, back, got, abi.byte, 0, 0, between, ignore))
    };
    let mut length = [0; 8];
    say(&(own.len() as u64).to_le_bytes(), &mut length)?;
    let mut theirs = vec![0; u64::from_le_bytes(length) as usize];
    say(own, &mut theirs)?;
    Ok(theirs)
}
