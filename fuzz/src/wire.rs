//! What `wire` reads: headers of frames, HELLO and HELLO-ACK, contact records, commands of operators and their answers.

use crate::Target;
use base::ProcId;
use base::bytes::Take;
use wire::control::{
    Addressee, Answer, Carried, Command, Flow, Job, MAX_ANSWER, Member, Outcome, Pair, Report, Request, Wait, What,
};
use wire::frame::{Header, Kind, MAX_PAYLOAD};
use wire::hello::{HELLO_ACK_LEN, HELLO_LEN, HelloError};
use wire::ranges::{Range, Tree, rooted};
use wire::{Contact, Contacts, Hello, HelloAck, Move, Status, TransportId, Why};

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
    Hello { source: FROM, dest: TO, cookie: [5; 16], process, generation: 1, stripe: 0, received: 0, moves: None }
}

/// `wire::Hello::decode`.
pub const HELLO: Target = Target {
    run: hello,
    seeds: || {
        let moves = Some(Move { leaves: 1, why: Why::Ordered });
        let all = [
            said([6; 16]),
            Hello { stripe: 2, received: u64::MAX, ..said([0; 16]) },
            Hello { generation: 2, moves, ..said([6; 16]) },
        ];
        all.map(|hello| hello.encode()).to_vec()
    },
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
        assert_eq!(all.len(), u32::from(*size));
        assert_eq!(all.bytes(), records);
        let each: Vec<Contact> = all.iter().collect();
        if let Some(leader) = all.leader() {
            assert!(
                leader < all.len()
                    && all.root().is_some()
                    && each.len() == 1
                    && all.get(leader) == each.first().cloned()
            );
            return;
        }
        assert_eq!(each.len() as u32, all.len());
        assert!((0..all.len()).all(|rank| all.get(rank).as_ref() == Some(&each[rank as usize])));
        let again = Contacts::from(each.clone());
        assert_eq!(again.iter().collect::<Vec<_>>(), each);
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
        let mut one = Vec::new();
        record().encode(&mut one);
        let entries = [(TransportId::registered(1), &b"abc"[..]), (TransportId::registered(200), b"")];
        let other = Contact::new([1; 16], [0; 16], entries);
        let mut third = record();
        third.process = [8; 16];
        let group = Contacts::from(vec![other, record(), third]);
        let root = rooted(&group, 1, digest).expect("a member");
        vec![one, [&[3], group.bytes()].concat(), [&[3], root.bytes()].concat()]
    },
    longest: 512,
    memory: 16 << 10,
};

/// A hash that is cheap.
pub fn digest(bytes: &[u8]) -> [u8; 16] {
    base::hash::fnv128(bytes).to_le_bytes()
}

/// The group of which ranges are told.
fn large_group() -> Contacts {
    let member = |rank: u8| Contact::new([rank; 16], [rank / 64; 16], [(TransportId::registered(1), &[rank][..])]);
    Contacts::from((1..=100).map(member).collect::<Vec<_>>())
}

/// A range as it is told: its number, and the rest.
fn range(input: &[u8]) {
    let Some((number, bytes)) = input.split_first() else { return };
    let Ok(range) = Range::decode(bytes) else { return };
    let mut out = Vec::new();
    range.encode(&mut out);
    assert_eq!(out, bytes, "a range has one form");
    let group = large_group();
    let tree = Tree::over(&group, digest);
    let root = tree.root(digest).expect("it has ranks");
    if let Ok(records) = range.check(&root, group.len(), u32::from(*number), digest) {
        assert_eq!(Range::of(&group, &tree, u32::from(*number)), Some(range), "it is the one that the leader told");
        assert!(records.iter().all(|(rank, contact)| group.get(*rank).as_ref() == Some(contact)));
    }
}

/// `wire::ranges::Range`.
pub const RANGE: Target = Target {
    run: range,
    seeds: || {
        let group = large_group();
        let tree = Tree::over(&group, digest);
        let told = |number: u8| {
            let mut out = vec![number];
            Range::of(&group, &tree, u32::from(number)).expect("a range").encode(&mut out);
            out
        };
        (0..4).map(told).collect()
    },
    longest: 2048,
    memory: 256 << 10,
};

/// What a process tells of itself.
fn report() -> Report {
    let flow = Flow { messages: 3, bytes: 24 };
    let carried = vec![Carried { transport: "shm".into(), pairs: 1, sent: flow, received: flow }];
    let wait = Wait { since: 5, call: "MPI_Recv".into(), what: "for a message".into(), peers: vec![(7, 0)] };
    let pair = Pair { incarnation: 7, rank: 1, round_trip: Some(9), transport: "tcp".into(), ..Pair::default() };
    Report {
        pid: 1,
        host: "node1".into(),
        waits: vec![wait],
        jobs: vec![Job { incarnation: 7, waited: 4, name: "ocean".into(), carried }],
        pairs: vec![pair.clone(), Pair { why: "no shm: other host".into(), ..pair }],
        ..Report::default()
    }
}

fn control_request(input: &[u8]) {
    if let Ok(request) = Request::decode(input) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
}

/// `wire::control::Request::decode`.
pub const CONTROL_REQUEST: Target = Target {
    run: control_request,
    seeds: || {
        let switch =
            Command::Switch { transport: "tcp".into(), peer: Some("ocean".into()), rank: None, peer_rank: Some(1) };
        let commands = [
            Command::Lanes,
            Command::Files,
            switch,
            Command::Hold,
            Command::Use("shm".into()),
            Command::Sum(1, report().into()),
            Command::Left(2, None),
        ];
        let to = [Addressee::Named("air".into()), Addressee::Member(7, 3), Addressee::Passed(7, 3, [9; 16])];
        let members = vec![Member { rank: 1, contact: record() }, Member { rank: 2, contact: record() }];
        let all = commands.into_iter().zip(to.into_iter().cycle());
        all.map(|(command, to)| {
            Request { id: [1; 16], serial: 2, limit: 3, to, command, members: members.clone() }.encode()
        })
        .collect()
    },
    longest: 2048,
    memory: 256 << 10,
};

fn control_answer(input: &[u8]) {
    if let Ok(answer) = Answer::decode(input) {
        let again = answer.encode();
        assert_eq!(Answer::decode(&again), Ok(answer));
        assert!(again.len() <= MAX_ANSWER);
    }
}

/// `wire::control::Answer::decode`.
pub const CONTROL_ANSWER: Target = Target {
    run: control_answer,
    seeds: || {
        let what = [
            What::Done("two of 3 pairs".into()),
            What::UnderWay("it does not answer".into()),
            What::Report(report().into()),
            What::Refused("no device".into()),
            What::NotAnswering,
            What::Dead("refused".into()),
            What::Overtaken,
        ];
        let outcomes = (0..).zip(what).map(|(rank, what)| Outcome { rank, what }).collect();
        let all = [Answer::Outcomes { repeated: true, outcomes }, Answer::NoSuchJob, Answer::Busy, Answer::Malformed];
        all.map(|answer| answer.encode()).into()
    },
    longest: 2048,
    memory: 256 << 10,
};
