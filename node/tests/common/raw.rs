//! A process that is not one, played frame by frame over TCP.

use super::{Job, member, proved};
use node::{Contact, ContextId, ProcId, RemoteGroup};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use wire::frame::{HEADER, Header, Kind};
use wire::hello::{HELLO_ACK_LEN, Hello};

/// A process that is not one: its lanes are written and read by hand.
pub struct Raw {
    pub stream: TcpStream,
    pub me: ProcId,
    pub to: ProcId,
    pub generation: u16,
    pub sent: u64,
    pub received: u64,
}

/// What a raw process finds in a frame.
pub type Frame = (Header, Vec<u8>);

impl Raw {
    /// The number by which [`member`] knows it.
    const MEMBER: u8 = 9;

    /// Its process number.
    pub fn process() -> [u8; 16] {
        member(Raw::MEMBER).identity().process()
    }

    /// The status of the answer; `None` if there was none.
    pub fn dial(b: &Job, me: ProcId, generation: u16, received: u64) -> (Option<u8>, Raw) {
        Raw::dial_as(b, me, Raw::process(), generation, 0, received)
    }

    /// In the name of some process, for a lane or a further connection of one. What it proves is its own identity.
    pub fn dial_as(
        b: &Job,
        me: ProcId,
        process: [u8; 16],
        generation: u16,
        stripe: u16,
        received: u64,
    ) -> (Option<u8>, Raw) {
        let (dest, cookie) = (b.id(), b.group.cookie);
        let hello = Hello { source: me, dest, cookie, process, generation, stripe, received, moves: None };
        let mut stream = proved(node::ip_addresses(&b.node.contact())[0], &member(Raw::MEMBER)).unwrap();
        stream.set_read_timeout(Some(NOTICED)).unwrap();
        stream.write_all(&hello.encode()).unwrap();
        let mut ack = [0; HELLO_ACK_LEN];
        let status = stream.read_exact(&mut ack).is_ok().then_some(ack[8]);
        (status, Raw { stream, me, to: b.id(), generation, sent: 0, received })
    }

    pub fn contact(addresses: &[SocketAddr]) -> Contact {
        node::at_addresses(Raw::process(), [9; 16], addresses)
    }

    /// `b` knows it as a job of one, at these addresses.
    pub fn known_to(b: &Job, me: ProcId, addresses: &[SocketAddr]) -> node::InterId {
        let contacts = vec![Raw::contact(addresses)].into();
        let there = RemoteGroup { incarnation: me.incarnation, cookie: [0; 16], contacts };
        b.node.open(b.id(), &there, ContextId::root(1))
    }

    pub fn header(&self, kind: Kind, a: u64, b: u64, len: usize) -> [u8; HEADER] {
        let (len, generation) = (len as u32, self.generation);
        Header { len, kind, ack_now: false, generation, source: self.me, dest: self.to, a, b }.encode()
    }

    pub fn frame(&mut self, kind: Kind, a: u64, b: u64, payload: &[u8]) {
        self.stream.write_all(&self.header(kind, a, b, payload.len())).unwrap();
        self.stream.write_all(payload).unwrap();
    }

    pub fn say(&mut self, body: &[u8]) {
        self.sent += 1;
        self.frame(Kind::Msg, self.sent, self.received, body);
    }

    /// EAGER (1) or RTS (2), with what follows the envelope.
    pub fn envelope(&mut self, kind: u8, tag: i64, rest: &[u8]) {
        let mut body = vec![kind, 0];
        body.extend_from_slice(&tag.to_le_bytes());
        body.extend_from_slice(&0u32.to_le_bytes());
        body.extend_from_slice(&0u64.to_le_bytes());
        body.extend_from_slice(&1u64.to_le_bytes());
        body.extend_from_slice(&77u64.to_le_bytes());
        body.extend_from_slice(rest);
        self.say(&body);
    }

    pub fn hear(&mut self) -> Frame {
        self.try_hear().unwrap()
    }

    /// `None`: nothing in time.
    pub fn try_hear(&mut self) -> Option<Frame> {
        let mut head = [0; HEADER];
        self.stream.read_exact(&mut head).ok()?;
        let header = Header::decode(&head).unwrap();
        let mut payload = vec![0; header.len as usize];
        self.stream.read_exact(&mut payload).unwrap();
        if header.kind == Kind::Msg {
            self.received = header.a;
        }
        Some((header, payload))
    }

    /// Answers the next question for a sign of life.
    pub fn live(&mut self) {
        loop {
            let (header, _) = self.hear();
            if header.kind == Kind::Ping {
                return self.frame(Kind::Pong, header.a, self.received, &[]);
            }
        }
    }

    /// The next message of one of these types.
    pub fn hear_one_of(&mut self, types: &[u8]) -> Vec<u8> {
        loop {
            let (header, payload) = self.hear();
            if header.kind == Kind::Msg && types.contains(&payload[0]) {
                return payload;
            }
        }
    }
}

pub const NOTICED: Duration = Duration::from_secs(5);
pub const CTS: u8 = 3;
pub const DONE: u8 = 4;

/// Smaller than any of the jobs, and greater.
pub const LOW: ProcId = ProcId { incarnation: 0, rank: 0 };
pub const HIGH: ProcId = ProcId { incarnation: u64::MAX, rank: 0 };

pub fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// An address where nobody answers and nobody refuses.
pub fn dark() -> SocketAddr {
    "192.0.2.7:9".parse().unwrap()
}
