//! The figures of a process: see [`super`].

use super::{list, put_list, put_text, rank, text};
use base::bytes::{Malformed, Put, Take};
use base::protocol::control::MAX_NAME;
use base::protocol::operator::{MAX_JOBS, MAX_LINES, MAX_WAITS, MAX_WORD, MAX_WORDS, NONE};

/// The figures of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of the process on its host.
    pub pid: u32,
    /// The name of its host.
    pub host: String,
    /// Microseconds since it began to use the library.
    pub at: u64,
    /// Microseconds that its calls have waited for other jobs.
    pub waited: u64,
    /// Whether it is held.
    pub hold: Holding,
    /// The calls that wait.
    pub waits: Vec<Wait>,
    /// The other jobs.
    pub jobs: Vec<Job>,
    /// The pairs with the most traffic.
    pub pairs: Vec<Pair>,
    /// How many pairs are left off.
    pub left_off: u32,
}

/// How far a process is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Holding {
    /// It is not held.
    #[default]
    No = 0,
    /// It has no connection, and waits for resume.
    Held = 1,
    /// It is about to be held: not all of its connections are closed.
    Closing = 2,
}

impl Holding {
    fn decode(from: &mut Take<'_>) -> Result<Holding, Malformed> {
        [Holding::No, Holding::Held, Holding::Closing].get(usize::from(from.u8()?)).copied().ok_or(Malformed)
    }
}

/// A call that waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wait {
    /// Microseconds since it began to wait.
    pub since: u64,
    /// The MPI function.
    pub call: String,
    /// What it waits for, in words.
    pub what: String,
    /// The processes for which it waits: the incarnation of the job, and the rank.
    pub peers: Vec<(u64, u32)>,
}

/// Another job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// Its incarnation.
    pub incarnation: u64,
    /// Microseconds that calls have waited for it.
    pub waited: u64,
    /// Its name.
    pub name: String,
    /// What was carried by each transport.
    pub carried: Vec<Carried>,
}

/// What one transport has carried between two jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// The transport.
    pub transport: String,
    /// Pairs that use it now.
    pub pairs: u32,
    /// From this process.
    pub sent: Flow,
    /// To this process.
    pub received: Flow,
}

/// A pair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pair {
    /// The incarnation of the other job.
    pub incarnation: u64,
    /// The rank there.
    pub rank: u32,
    /// Messages that no receive has matched.
    pub unexpected: u32,
    /// Receives that wait for a message from it.
    pub posted: u32,
    /// Receives that wait for a message from anyone, in inter-communicators of which it is the first process.
    pub from_any: u32,
    /// The round trip in microseconds.
    pub round_trip: Option<u32>,
    /// Microseconds that calls have waited for it alone.
    pub waited: u64,
    /// From this process.
    pub sent: Flow,
    /// To this process.
    pub received: Flow,
    /// The transport; empty: not connected.
    pub transport: String,
    /// Why it is not connected, or no better transport is used.
    pub why: String,
}

/// Messages of one direction, and the bytes of their data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// Messages.
    pub messages: u64,
    /// Bytes of their data.
    pub bytes: u64,
}

impl Report {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.pid);
        out.put_u64(self.at);
        out.put_u64(self.waited);
        out.put_u8(self.hold as u8);
        put_text(out, &self.host, MAX_NAME);
        put_list(out, &self.waits, MAX_WAITS, |out, wait| wait.encode(out));
        put_list(out, &self.jobs, MAX_JOBS, |out, job| job.encode(out));
        put_list(out, &self.pairs, MAX_LINES, |out, pair| pair.encode(out));
        out.put_u32(self.left_off.saturating_add(self.pairs.len().saturating_sub(MAX_LINES) as u32));
    }

    pub(super) fn decode(from: &mut Take<'_>) -> Result<Report, Malformed> {
        Ok(Report {
            pid: from.u32()?,
            at: from.u64()?,
            waited: from.u64()?,
            hold: Holding::decode(from)?,
            host: text(from, MAX_NAME)?,
            waits: list(from, MAX_WAITS, Wait::decode)?,
            jobs: list(from, MAX_JOBS, Job::decode)?,
            pairs: list(from, MAX_LINES, Pair::decode)?,
            left_off: from.u32()?,
        })
    }
}

impl Wait {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.since);
        put_text(out, &self.call, MAX_WORDS);
        put_text(out, &self.what, MAX_WORDS);
        put_list(out, &self.peers, MAX_WAITS, |out, (incarnation, rank)| {
            out.put_u64(*incarnation);
            out.put_u32(*rank);
        });
    }

    fn decode(from: &mut Take<'_>) -> Result<Wait, Malformed> {
        Ok(Wait {
            since: from.u64()?,
            call: text(from, MAX_WORDS)?,
            what: text(from, MAX_WORDS)?,
            peers: list(from, MAX_WAITS, |from| Ok((from.u64()?, from.u32()?)))?,
        })
    }
}

impl Job {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.incarnation);
        out.put_u64(self.waited);
        put_text(out, &self.name, MAX_NAME);
        put_list(out, &self.carried, MAX_WORD, |out, carried| {
            put_text(out, &carried.transport, MAX_WORD);
            out.put_u32(carried.pairs);
            carried.sent.encode(out);
            carried.received.encode(out);
        });
    }

    fn decode(from: &mut Take<'_>) -> Result<Job, Malformed> {
        let carried = |from: &mut Take<'_>| {
            Ok(Carried {
                transport: text(from, MAX_WORD)?,
                pairs: from.u32()?,
                sent: Flow::decode(from)?,
                received: Flow::decode(from)?,
            })
        };
        Ok(Job {
            incarnation: from.u64()?,
            waited: from.u64()?,
            name: text(from, MAX_NAME)?,
            carried: list(from, MAX_WORD, carried)?,
        })
    }
}

impl Pair {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.incarnation);
        out.put_u32(self.rank);
        out.put_u32(self.unexpected);
        out.put_u32(self.posted);
        out.put_u32(self.from_any);
        out.put_u32(self.round_trip.unwrap_or(NONE));
        out.put_u64(self.waited);
        self.sent.encode(out);
        self.received.encode(out);
        put_text(out, &self.transport, MAX_WORD);
        put_text(out, &self.why, MAX_WORDS);
    }

    fn decode(from: &mut Take<'_>) -> Result<Pair, Malformed> {
        Ok(Pair {
            incarnation: from.u64()?,
            rank: from.u32()?,
            unexpected: from.u32()?,
            posted: from.u32()?,
            from_any: from.u32()?,
            round_trip: rank(from)?,
            waited: from.u64()?,
            sent: Flow::decode(from)?,
            received: Flow::decode(from)?,
            transport: text(from, MAX_WORD)?,
            why: text(from, MAX_WORDS)?,
        })
    }
}

impl Flow {
    fn encode(self, out: &mut Vec<u8>) {
        out.put_u64(self.messages);
        out.put_u64(self.bytes);
    }

    fn decode(from: &mut Take<'_>) -> Result<Flow, Malformed> {
        Ok(Flow { messages: from.u64()?, bytes: from.u64()? })
    }
}
