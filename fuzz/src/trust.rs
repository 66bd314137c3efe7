//! What `trust` reads: both sides of the handshake, records, the text of a key file.
//!
//! Invariant: keys and identities are fixed. Ephemeral keys are not, so nothing here depends on which they are. Handshakes with
//! real primitives cost more than all else: most targets have them within [`door::cheaply`].

use crate::Target;
use crate::input::{Script, put_bytes};
use std::hash::{DefaultHasher, Hasher};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use trust::{Answering, Channel, Dialling, Encrypt, GREETING, Identity, Inbox, Key, MOST_RECORD, Progress, Protocol};
use trust::{Ring, Trust, fuzzing as door};

/// One of two processes, 1 and 2, with one key. No handshake changes them, so they are made once.
pub fn process(number: usize) -> &'static Arc<Trust> {
    static REAL: OnceLock<[Arc<Trust>; 2]> = OnceLock::new();
    static CHEAP: OnceLock<[Arc<Trust>; 2]> = OnceLock::new();
    let both = if door::is_cheap() { &CHEAP } else { &REAL };
    let make = |number| {
        let ring = Ring::new(Key::from_bytes([5; 32]), []);
        Arc::new(Trust::new(ring, Encrypt::Network).with_identity(Identity::from_secret([number; 32])))
    };
    &both.get_or_init(|| [1, 2].map(make))[number - 1]
}

/// Both have answered nobody yet: what an input does depends on no other.
pub fn begin_anew() {
    [1, 2].into_iter().for_each(|number| door::forget_proofs(process(number)));
}

/// Fields of the answer's head that decide nothing: the flags; the identifier of the key, and what is reserved.
const IDLE: [Range<usize>; 2] = [12..16, 20..GREETING];
/// Message 0 is the greeting, 1 the answer, 2 the confirmation.
const MESSAGES: usize = 3;

/// Runs a handshake to its end. `meddle` sees each message. The channels, of the dialling and of the answering side.
fn meet(near: bool, mut meddle: impl FnMut(usize, &mut [u8])) -> [Option<Channel>; 2] {
    let (mut dialling, mut said) = Dialling::begin(process(1), Protocol::Jobs, near);
    let mut answering = Answering::begin(process(2), Protocol::Jobs, near);
    let mut said_back = Vec::new();
    meddle(0, &mut said);
    let mut heard = &said[..];
    while heard.len() >= answering.wants() && answering.wants() > 0 {
        let (now, later) = heard.split_at(answering.wants());
        heard = later;
        match answering.hear(now) {
            Ok(Progress::Say(bytes) | Progress::Done(bytes)) => said_back.extend(bytes),
            Ok(Progress::More) => {}
            Err(refusal) => said_back.extend(refusal.say),
        }
    }
    meddle(1, &mut said_back);
    let (mut heard, mut confirmation) = (&said_back[..], Vec::new());
    while heard.len() >= dialling.wants() && dialling.wants() > 0 {
        let (now, later) = heard.split_at(dialling.wants());
        heard = later;
        match dialling.hear(now) {
            Ok(Progress::Say(bytes) | Progress::Done(bytes)) => confirmation.extend(bytes),
            Ok(Progress::More) => {}
            Err(_) => break,
        }
    }
    meddle(2, &mut confirmation);
    if confirmation.len() == answering.wants() && !confirmation.is_empty() {
        let _ = answering.hear(&confirmation);
    }
    [dialling.finish(), answering.finish()]
}

fn changed_handshake(near: bool, mut s: Script<'_>) {
    let mut changes = Vec::new();
    while let Some(message) = s.step() {
        changes.push((usize::from(message) % MESSAGES, usize::from(s.byte()), s.byte()));
    }
    // Where each message differs from what was said.
    let mut differs: [Vec<usize>; MESSAGES] = Default::default();
    let channels = meet(near, |n, bytes| {
        let before = bytes.to_vec();
        for (_, at, with) in changes.iter().filter(|change| change.0 == n && !before.is_empty()) {
            bytes[at % before.len()] ^= with;
        }
        differs[n] = (0..before.len()).filter(|at| bytes[*at] != before[*at]).collect();
    });
    let is_idle = |at: &usize| IDLE.iter().any(|idle| idle.contains(at));
    let proved = differs[0].is_empty() && differs[1].iter().all(is_idle);
    let [dialled, answered] = channels;
    assert_eq!(dialled.is_some(), proved, "{differs:?}");
    assert_eq!(answered.is_some(), proved && differs[2].is_empty(), "{differs:?}");
    for (channel, other) in dialled.iter().map(|c| (c, 2)).chain(answered.iter().map(|c| (c, 1))) {
        assert_eq!((channel.process, channel.is_encrypted()), (process(other).identity().process(), !near));
    }
    let ends = (dialled.and_then(Channel::into_records), answered.and_then(Channel::into_records));
    if let (Some((mut outbox, _)), Some((_, mut inbox))) = ends {
        outbox.add(&[IoSlice::new(b"hello")]);
        assert_eq!(open(&mut inbox, outbox.waiting(), 9, &mut [0; 3]), (b"hello".to_vec(), true));
    }
}

fn proof(input: &[u8]) {
    begin_anew();
    let mut s = Script(input);
    let flags = s.byte();
    let (near, protocol) = (flags & 1 != 0, if flags & 2 == 0 { Protocol::Jobs } else { Protocol::Naming });
    match flags >> 2 & 3 {
        0 | 1 => changed_handshake(near, s),
        // Nobody can have answered this greeting before it was made.
        2 => {
            let (mut dialling, _) = Dialling::begin(process(1), protocol, near);
            while dialling.wants() > 0 && !s.0.is_empty() {
                if dialling.hear(s.some(dialling.wants())).is_err() {
                    assert_eq!(dialling.wants(), 0);
                }
            }
            assert!(dialling.finish().is_none());
        }
        // A greeting may have been recorded. The confirmation of what it is answered cannot.
        _ => {
            let mut answering = Answering::begin(process(2), protocol, near);
            while answering.wants() > 0 && !s.0.is_empty() {
                assert!(answering.wants() <= trust::MOST_PROOF);
                if answering.hear(s.some(answering.wants())).is_err() {
                    assert_eq!(answering.wants(), 0);
                }
            }
            assert!(answering.finish().is_none());
        }
    }
}

fn proofs() -> Vec<Vec<u8>> {
    let mut all = vec![vec![0], vec![1], vec![0, 0, 40, 1], vec![0, 1, 13, 1], vec![1, 1, 50, 9], vec![0, 2, 3, 4]];
    for (flags, protocol) in [(0, Protocol::Jobs), (2, Protocol::Naming)] {
        let (_, said) = Dialling::begin(process(1), protocol, false);
        let mut answering = Answering::begin(process(2), protocol, false);
        let (head, rest) = said.split_at(GREETING);
        let _ = answering.hear(head);
        let Ok(Progress::Say(answer)) = answering.hear(rest) else { panic!("a good greeting") };
        all.push([&[flags | 3 << 2], &said[..], &[0; 16]].concat());
        all.push([&[flags | 2 << 2], &answer[..]].concat());
    }
    // Another key, twice; another version.
    let (_, mut said) = Dialling::begin(process(1), Protocol::Jobs, false);
    said[20] ^= 1;
    all.push([&[3 << 2], &said[..], &said[..]].concat());
    said[8] ^= 1;
    all.push([&[3 << 2], &said[..]].concat());
    all
}

/// `trust::Dialling` and `trust::Answering`, with primitives that cost little.
pub const PROOF: Target = Target {
    run: |input| door::cheaply(|| proof(input)),
    seeds: || door::cheaply(proofs),
    longest: 512,
    memory: 64 << 10,
};

/// The same with the real primitives, on which it depends that no stranger comes in.
pub const PROOF_REAL: Target = Target { run: proof, seeds: proofs, longest: 512, memory: 64 << 10 };

/// Hands these bytes to an inbox, at most `most` at a time. What came out, and whether it is whole and good.
fn open(inbox: &mut Inbox, mut bytes: &[u8], most: usize, room: &mut [u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    loop {
        loop {
            match inbox.take(&mut [IoSliceMut::new(room)]) {
                Ok(0) => break,
                Ok(n) => content.extend_from_slice(&room[..n]),
                Err(_) => return (content, false),
            }
        }
        if bytes.is_empty() {
            return (content, true);
        }
        let Ok(space) = inbox.space() else { return (content, false) };
        let n = space.len().min(bytes.len()).min(most);
        assert!(n > 0, "neither content nor space");
        space[..n].copy_from_slice(&bytes[..n]);
        inbox.filled(n);
        bytes = &bytes[n..];
    }
}

/// What is sent, from its beginning on. Made once.
fn content() -> &'static [u8] {
    static ALL: OnceLock<Vec<u8>> = OnceLock::new();
    ALL.get_or_init(|| (0..MOST_SENT).map(|n| ((n * 7) >> 3) as u8).collect())
}

/// About so many pieces of a connection are read, and so many of its content taken, at most.
const MOST_PIECES: usize = 256;
/// As much as all records of an input have.
const MOST_SENT: usize = 2 * MOST_RECORD;

/// A number that no input can be made to have.
fn hash(input: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(input);
    hasher.finish()
}

/// How many bytes both begin with.
fn common(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 512;
    let blocks = one.chunks(BLOCK).zip(other.chunks(BLOCK)).take_while(|(a, b)| a == b).count();
    let at = (blocks * BLOCK).min(one.len()).min(other.len());
    at + one[at..].iter().zip(&other[at..]).take_while(|(a, b)| a == b).count()
}

fn records(input: &[u8]) {
    let mut s = Script(input);
    let (flags, most, room) = (s.byte(), 1 + usize::from(s.short()), 1 + usize::from(s.short()));
    // Of one key, the fuzzer knows records before long, and says them without anybody's having sent them.
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&hash(input).to_le_bytes());
    let (mut outbox, mut inbox) = door::records(flags & 1 != 0, &secret);
    if flags & 32 != 0 {
        inbox.read_ahead();
    }
    // Where each record ends, as bytes and as content.
    let (mut sent, mut ends) = (0, vec![(0, 0)]);
    for length in s.some(usize::from(flags >> 1 & 7)) {
        // One of the longest: what encrypts is not what is tried.
        let length = if *length == 255 && sent < MOST_RECORD { MOST_RECORD } else { 1 + usize::from(*length) };
        let (one, other) = content()[sent..sent + length].split_at(if flags & 16 != 0 { length / 3 } else { length });
        assert_eq!(outbox.add(&[IoSlice::new(one), IoSlice::new(other)]), length);
        sent += length;
        ends.push((outbox.waiting().len(), sent));
    }
    let good = outbox.waiting();
    let record = |n: usize| match ends.len() - 1 {
        0 => &[][..],
        all => &good[ends[n % all].0..ends[n % all + 1].0],
    };
    let mut bytes = Vec::new();
    let mut next = 0;
    while let Some(step) = s.step()
        && bytes.len() < 4 * MOST_RECORD
    {
        match step % 5 {
            0 => {
                bytes.extend_from_slice(record(next));
                next += 1;
            }
            1 => bytes.extend_from_slice(record(usize::from(s.byte()))),
            2 => {
                let (one, most) = (record(usize::from(s.byte())), usize::from(s.short()));
                bytes.extend_from_slice(&one[..most.min(one.len())]);
            }
            3 if !bytes.is_empty() => {
                let at = usize::from(s.short()) % bytes.len();
                bytes[at] ^= s.byte();
            }
            _ => bytes.extend_from_slice(s.bytes()),
        }
    }
    let same = common(&bytes, good);
    let (_, whole) = ends.iter().rev().find(|(end, _)| *end <= same).expect("the first is 0");
    // What is long comes, and goes, in pieces that are not too many.
    let [most, room] = [most, room].map(|n| n.max(bytes.len() / MOST_PIECES));
    let (came, is_good) = open(&mut inbox, &bytes, most, &mut vec![0; room]);
    assert!(came == content()[..*whole], "{} bytes came out of {whole} that were sent", came.len());
    assert!(is_good || same < bytes.len(), "a good record is refused");
}

/// `trust::Inbox`, behind a `trust::Outbox` with the same key.
pub const RECORDS: Target = Target {
    run: records,
    seeds: || {
        let one = |flags: u8, lengths: &[u8], steps: &[u8]| {
            let head = [flags | (lengths.len() as u8) << 1, 60, 0, 30, 0];
            [&head, lengths, steps].concat()
        };
        let mut strange = vec![4];
        put_bytes(&mut strange, &[17, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]);
        vec![
            one(0, &[3, 20, 100], &[0, 0, 0]),
            one(17, &[9, 255, 1], &[0, 0, 0]),
            one(1, &[5, 5], &[1, 1, 1, 0]),
            one(0, &[5, 5], &[0, 0, 1, 0]),
            one(1, &[5, 5], &[0, 3, 20, 0, 1, 0]),
            one(1, &[50, 5], &[0, 2, 1, 6, 0]),
            one(32, &[5, 255, 5], &[0, 0, 0]),
            one(0, &[], &strange),
        ]
    },
    longest: 512,
    memory: 8 << 20,
};

fn key_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match door::keys(text) {
        Ok(ring) => {
            let keys: Vec<&Key> = std::iter::once(ring.own()).chain(ring.others()).collect();
            assert!(keys.len() <= 16);
            let again: String = keys.iter().flat_map(|key| [key.text().to_string(), "\n".into()]).collect();
            assert!(door::keys(&again).as_ref() == Ok(&ring), "keys survive as text");
            assert!(keys.iter().all(|key| ring.find(key.id()).is_some_and(|found| found.id() == key.id())));
        }
        Err(0) => {}
        Err(line) => {
            let line = text.lines().nth(line - 1).expect("a line of the text").trim();
            assert!(Key::parse(line).is_err() && !line.is_empty() && !line.starts_with('#'));
        }
    }
}

/// The text of a key file.
pub const KEY_FILE: Target = Target {
    run: key_file,
    seeds: || {
        let key = |n: u8| Key::from_bytes([n; 32]).text().to_string();
        let all = [
            format!("# A key\n{}\n", key(0x5a)),
            format!("{}\r\n\n  {} \n# old\n{}", key(1), key(0xff).to_uppercase(), key(1)),
            format!("{}0\n", key(2)),
            format!("{}\n", key(3)).repeat(17),
        ];
        all.map(String::into_bytes).to_vec()
    },
    longest: 1200,
    memory: 64 << 10,
};
