//! What `fuzz/` needs of the decoders of this folder.

use super::address::parse;
use super::bodies::Bodies;
use super::reads::Reads;
use super::room::Written;
use super::setup::Said;
use super::words::{SHORT, Words};
use super::writes::Writes;
use crate::ip::MAX_ADDRESSES;
use base::bytes::Take;
use base::protocol::rdma::{FIRST_MSG, MAX_PORTS, NEXT_MSG, SLOT, WORDS, message};
use base::rdma::Port;

/// Reads an input as each thing that another process says: an entry, a queue pair, a READ_THIS, a ROOM, a WRITTEN, a short BYTES, MSGs. Returns whether no limit is
/// passed, each has one form, and a number is used once.
pub fn holds(input: &[u8]) -> bool {
    let (ports, addresses) = parse(input);
    let is_bounded = ports.len() <= MAX_PORTS && addresses.len() <= MAX_ADDRESSES;
    let has_two_forms = Said::decode(input).is_ok_and(|said| Said::decode(&said.encode()) != Ok(said));
    let mut reads = Reads::new(1);
    let is_used_twice = reads.add(1, Take(input)).is_ok() && reads.add(1, Take(input)).is_ok();
    let mut writes = Writes::new(true);
    writes.set_asked();
    let is_heard_twice = writes.hear(Take(input)).is_ok() && writes.hear(Take(input)).is_ok();
    let is_beyond = Written::decode(Take(input)).is_ok_and(|w| w.at + w.len > w.header.len as usize);
    let left_out = input.first_chunk().map_or(0, |number| u32::from_le_bytes(*number));
    let mut content = [input, &[0; SHORT]].concat();
    let is_too_long =
        Words::<WORDS>::default().put_back(left_out, &mut content, input.len()).is_ok_and(|len| len > SHORT);
    let is_no_body = has_no_body(left_out, input);
    is_bounded && !is_no_body && !is_too_long && !has_two_forms && !is_used_twice && !is_heard_twice && !is_beyond
}

/// Reads an input as a MSG with its numbers, and then as the next one. Returns whether a body that was taken is none, or lies elsewhere
/// than in the slot.
fn has_no_body(number: u32, input: &[u8]) -> bool {
    let mut bodies = Bodies::default();
    [(FIRST_MSG, 0), (NEXT_MSG, number)].into_iter().any(|(kind, number)| {
        let mut slot = [&[0; message::BYTES][..], input, &[0; SLOT]].concat();
        let heard = bodies.hear(kind, number, &mut slot, message::BYTES + input.len());
        heard.is_ok_and(|(_, at, end)| at >= end || end > slot.len())
    })
}

/// One of each.
pub fn seeds() -> Vec<Vec<u8>> {
    let port = Port { device: [0; 64], gid: [2; 16], lid: 3, port: 1, gid_index: 1, kind: 2, mtu: 3 };
    let addresses = [([127, 0, 0, 1], 80).into(), ([0xfe80, 0, 0, 0, 0, 0, 0, 1], 9).into()];
    let said =
        Said { port: 1, lid: 2, number: 3, sequence: 4, credits: 5, reads: 6, writes: true, mtu: 3, gid: [8; 16] };
    let header = wire::frame::Header {
        len: 100,
        kind: wire::frame::Kind::Bulk,
        ack_now: false,
        generation: 1,
        source: base::ProcId { incarnation: 1, rank: 2 },
        dest: base::ProcId { incarnation: 3, rank: 4 },
        a: 5,
        b: 6,
    };
    let piece = [&7u64.to_le_bytes()[..], &100u32.to_le_bytes(), &9u32.to_le_bytes()].concat();
    let room = [&4096u64.to_le_bytes()[..], &[7, 0, 0, 0, 0, 1, 0, 0, 8, 0, 0, 0]].concat();
    let written = Written { header, at: 40, len: 60 }.encode().to_vec();
    let entry = super::address::entry(&[port], &addresses);
    vec![entry, said.encode(), [&header.encode()[..], &piece].concat(), room, written]
}
