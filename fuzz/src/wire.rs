//! What `wire` reads: headers of frames, HELLO and HELLO-ACK, contact records.

use crate::Target;
use base::ProcId;
use base::bytes::Take;
use wire::frame::{Header, Kind, MAX_PAYLOAD};
use wire::hello::{HELLO_ACK_LEN, HELLO_LEN, HelloError};
use wire::{Contact, Hello, HelloAck, Status, TransportId};

/// Both ends, for seeds.
pub const FROM: ProcId = ProcId { incarnation: 0x0123_4567_89ab_cdef, rank: 1 };
/// The other end.
pub const TO: ProcId = ProcId { incarnation: 7, rank: 0 };

/// A header of each kind.
pub fn headers() -> Vec<Header> {
    let one = |kind, len, a, b| Header { len, kind, ack_now: a == 2, generation: 1, source: FROM, dest: TO, a, b };
    vec![
        one(Kind::Msg, 40, 1, 0),
        one(Kind::Ack, 0, 0, 5),
        one(Kind::Bulk, 100, 9, 1 << 20),
        one(Kind::Switch, 0, 2, 0),
        one(Kind::Lost, 0, 3, 0),
        one(Kind::Ping, 0, 2, 4),
        one(Kind::Pong, 0, 2, 4),
    ]
}

fn header(input: &[u8]) {
    let Some(bytes) = input.first_chunk() else { return };
    if let Ok(header) = Header::decode(bytes) {
        assert!(header.is_sound() && header.len as usize <= MAX_PAYLOAD);
        assert_eq!(header.encode(), *bytes, "one header has one form");
    }
}

/// `wire::frame::Header::decode`.
pub const FRAME: Target = Target {
    run: header,
    seeds: || headers().iter().map(|header| header.encode().to_vec()).collect(),
    longest: 48,
    memory: 0,
};

fn hello(input: &[u8]) {
    match Hello::decode(input) {
        Ok(hello) => {
            let bytes = hello.encode();
            assert_eq!((bytes.len(), input.len()), (HELLO_LEN, HELLO_LEN));
            assert_eq!(Hello::decode(&bytes), Ok(hello));
        }
        Err(HelloError::OtherVersion) => assert!(input.len() > 9),
        Err(HelloError::Foreign) => {}
    }
}

/// A HELLO of this process.
pub fn said(process: [u8; 16]) -> Hello {
    Hello { source: FROM, dest: TO, cookie: [5; 16], process, generation: 1, stripe: 0, received: 0 }
}

/// `wire::Hello::decode`.
pub const HELLO: Target = Target {
    run: hello,
    seeds: || vec![said([6; 16]).encode(), Hello { stripe: 2, received: u64::MAX, ..said([0; 16]) }.encode()],
    longest: HELLO_LEN + 8,
    memory: 4 * HELLO_LEN,
};

fn hello_ack(input: &[u8]) {
    if let Ok(ack) = HelloAck::decode(input) {
        // Of another version nothing behind the version is looked at.
        assert!(input.len() == HELLO_ACK_LEN || ack.status == Status::OtherVersion);
        assert_eq!(HelloAck::decode(&ack.encode()), Ok(ack));
    }
}

/// A HELLO-ACK with this status.
pub fn answered(status: Status) -> HelloAck {
    HelloAck { status, generation: 1, process: [3; 16], received: 4 }
}

/// `wire::HelloAck::decode`.
pub const HELLO_ACK: Target = Target {
    run: hello_ack,
    seeds: || {
        let all = [Status::Good, Status::BadCookie, Status::NoSuchProcess, Status::BetterConnection, Status::Later];
        let other = [HelloAck::other_version().encode()];
        all.map(|status| answered(status).encode()).into_iter().chain(other).collect()
    },
    longest: HELLO_ACK_LEN + 8,
    memory: 4 * HELLO_ACK_LEN,
};

fn contact(input: &[u8]) {
    let mut from = Take(input);
    if let Ok(contact) = Contact::decode(&mut from) {
        let taken = input.len() - from.0.len();
        let mut out = Vec::new();
        contact.encode(&mut out);
        assert_eq!(out, input[..taken], "a record has one form");
        assert!(contact.is_sound());
        let entries: Vec<_> = contact.entries().collect();
        for (transport, _) in &entries {
            assert!(contact.entry(*transport).is_some());
        }
        assert_eq!(Contact::new(contact.process, contact.host, entries), contact);
    }
    // As a leader sends those of its whole group: the first byte is the size.
    if let Some((size, records)) = input.split_first()
        && let Ok(all) = session::leaders::contacts(records, u32::from(*size))
    {
        assert_eq!(all.len(), usize::from(*size));
        let mut out = Vec::new();
        all.iter().for_each(|contact| contact.encode(&mut out));
        assert_eq!(out, records);
    }
}

/// A contact record with the entries of both transports.
pub fn record() -> Contact {
    let places = ["10.1.2.3:4000".parse().expect("an address"), "[fe80::1]:4001".parse().expect("an address")];
    transports::registry::at_addresses([7; 16], [9; 16], &places)
}

/// `wire::Contact::decode`, and `session::leaders::contacts`.
pub const CONTACT: Target = Target {
    run: contact,
    seeds: || {
        let (mut one, mut group) = (Vec::new(), vec![3]);
        record().encode(&mut one);
        let entries = [(TransportId::registered(1), &b"abc"[..]), (TransportId::registered(200), b"")];
        Contact::new([1; 16], [0; 16], entries).encode(&mut group);
        record().encode(&mut group);
        record().encode(&mut group);
        vec![one, group]
    },
    longest: 512,
    memory: 16 << 10,
};
