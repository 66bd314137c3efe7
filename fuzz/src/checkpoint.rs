//! What `checkpoint` reads: the images of processes, and what processes tell each other of checkpoints.

use crate::Target;
use crate::input::{Script, put_bytes};
use base::ProcId;
use checkpoint::fuzzing;
use checkpoint::{
    Around, Besides, Call, Done, Head, Image, ImageError, Inter, Known, Leader, LineId, Message, OfPair, Old, Packing,
    Planned, Process, Recorder, Remote, Report, Row, Store, With,
};
use engine::{ContextId, CutOf, Kept, Limits, Resume, Wildcards};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// As docs/limits.md has them.
const MOST_WAITING: usize = 64;
const MOST_OPEN: usize = 16;

const LINE: LineId = LineId { by: 9, count: 2 };

fn image(input: &[u8]) {
    let mut script = Script(input);
    let how = script.byte();
    // As it is, or with good checksums around any bytes.
    let bytes = if how & 1 == 0 {
        script.0.to_vec()
    } else {
        let head = script.bytes();
        let mut chunks = Vec::new();
        while !script.0.is_empty() {
            let chunk = script.bytes();
            let more = if how & 2 == 0 { 0 } else { script.number() as u32 };
            chunks.push((chunk, (chunk.len() as u32).wrapping_add(more)));
        }
        if how & 4 == 0 {
            chunks.push((&[], 0));
        }
        fuzzing::image(head, u32::from(how >> 3 & 1), &chunks)
    };
    match Image::decode(&bytes) {
        Ok(image) => {
            for packing in [Packing::None, Packing::Lz4] {
                let mut again = Vec::new();
                image.write(packing, &mut again).expect("memory");
                assert_eq!(Image::decode(&again), Ok(image.clone()));
            }
        }
        Err(ImageError::Truncated(length)) => assert_eq!(length, bytes.len() as u64),
        Err(_) => {}
    }
}

fn sample() -> Image {
    let head = Head {
        job: "air".into(),
        rank: 3,
        size: 4,
        serial: 7,
        label: "step-1200".into(),
        line: LINE,
        jobs: ["air".to_owned(), "ocean".to_owned()].into(),
    };
    let kept = |number| Kept {
        number,
        context: ContextId::root(1),
        source: 0,
        tag: -1,
        note: vec![3; 4],
        data: vec![7; 20 * number as usize],
    };
    let mut of = OfPair { sent: (4, 5), arrived: (6, 6), leaving: vec![kept(5)], ..OfPair::default() };
    of.line.kept = vec![kept(1), kept(3)];
    of.line.wanted = [4].into();
    of.line.lacking = [8, 9].into();
    let remotes = vec![Remote { name: "ocean".into(), size: 2, contexts: 0, of: vec![(1, of)] }];
    let inter = Inter {
        remote: 0,
        context: ContextId::root(1),
        children: 2,
        rank: 1,
        members: vec![0, 1],
        name: b"sea".to_vec(),
    };
    let mut recorder = Recorder::default();
    [(Call::Test, None), (Call::Waitany, Some(&[1][..])), (Call::Testsome, Some(&[2, 5]))]
        .iter()
        .for_each(|(call, found)| recorder.note(*call, *found));
    recorder.mark();
    Image { head, remotes, inters: vec![inter], outcomes: recorder.outcomes(|_| Some(0)) }
}

/// Files, and parts of one with checksums to be made.
fn images() -> Vec<Vec<u8>> {
    let image = sample();
    let mut all = Vec::new();
    for packing in [Packing::None, Packing::Lz4] {
        let mut file = vec![0];
        image.write(packing, &mut file).expect("memory");
        all.push(file);
    }
    let head = postcard::to_stdvec(&image.head).expect("memory");
    let body = postcard::to_stdvec(&(&image.remotes, &image.inters, &image.outcomes)).expect("memory");
    for piece in [body.len(), 10] {
        let mut parts = vec![1];
        put_bytes(&mut parts, &head);
        body.chunks(piece).for_each(|chunk| put_bytes(&mut parts, chunk));
        all.push(parts);
    }
    // The one chunk of the packed file, between what is before it and the last chunk.
    let packed = &all[1][1 + 28 + head.len() + 16..all[1].len() - 16];
    let mut parts = vec![1 | 2 | 8];
    put_bytes(&mut parts, &head);
    put_bytes(&mut parts, packed);
    parts.push((body.len() - packed.len()) as u8);
    all.push(parts);
    all
}

/// `checkpoint::Image::decode`.
pub const IMAGE: Target = Target { run: image, seeds: images, longest: 4096, memory: 4 << 20 };

/// The job that is told, and that of who tells.
const OWN: ProcId = ProcId { incarnation: 1, rank: 0 };
const OTHER: ProcId = ProcId { incarnation: 2, rank: 0 };
/// How often one message is told, by the length of the input: each time as if it were another one where that can be. 80 times is more
/// often than any table has entries; most inputs are only read, since telling costs most of the time.
fn often(length: usize) -> u64 {
    match (length % 64, length % 8) {
        (63, _) => 80,
        (_, 2) => 1,
        (_, 5) => 2,
        _ => 0,
    }
}

/// Surroundings of a process that is joined with one other job, and has nothing to do.
struct Alone;

impl Around for Alone {
    type Inter = u32;

    fn tell(&mut self, _: ProcId, _: ProcId, bytes: &[u8]) {
        assert!(bytes.len() < 1 << 20, "it fits a frame");
    }
    fn processes_of(&self, _: ProcId, job: u64) -> Vec<ProcId> {
        vec![ProcId { incarnation: job, rank: 0 }]
    }
    fn joined(&self, _: ProcId) -> BTreeSet<u64> {
        [OTHER.incarnation].into()
    }
    fn size_of(&self, _: ProcId, _: u64) -> Option<u32> {
        None
    }
    fn cut(&mut self, _: ProcId) -> BTreeMap<ProcId, CutOf> {
        [(OTHER, CutOf { sent: 5, arrived: 3, ..CutOf::default() })].into()
    }
    fn wildcards(&self, _: ProcId) -> Vec<(u64, Wildcards)> {
        Vec::new()
    }
    fn watch(&mut self, _: bool, _: bool) {}
    fn resume(&mut self, _: ProcId, _: ProcId, _: Resume) {}
    fn send_again(&mut self, _: u32, _: u32, _: &Kept) {}
    fn limit(&mut self, _: u32, _: Limits) {}
    fn unlimit(&mut self) {}
    fn write(&mut self, _: ProcId, _: &Store, _: Image) {}
    fn commit(&mut self, _: ProcId, _: &Store, _: u64, _: LineId) {}
}

/// The same message of the next cut, line or jobs, so that what is kept of it is kept beside that of the one before.
fn moved(message: &Message, by: u64) -> Message {
    let next = |id: LineId| LineId { by: id.by, count: id.count.wrapping_add(by) };
    match message.clone() {
        Message::Rows(serial, rows, is_last) => Message::Rows(serial.wrapping_add(by), rows, is_last),
        Message::Lines(mut report) => {
            report.lines.iter_mut().for_each(|line| line.id = next(line.id));
            Message::Lines(report)
        }
        Message::Done(id, done) => Message::Done(next(id), done),
        Message::Again(one, other, _) => {
            let shift = |all: BTreeSet<u64>| all.into_iter().map(|n| n.wrapping_add(by << 32)).collect();
            Message::Again(shift(one), shift(other), false)
        }
        other => other,
    }
}

fn message(input: &[u8]) {
    let Some(message) = Message::decode(input) else { return };
    let again = message.encode();
    assert_eq!(Message::decode(&again).as_ref(), Some(&message));
    let often = often(input.len());
    if often == 0 {
        return;
    }
    // A process hears it over and over, from a member that it is joined with: it ends, and keeps no more than the bounds.
    let (mut process, mut around) = (Process::<u32>::default(), Alone);
    process.track(OWN, "air", 1);
    let besides = Besides { label: String::new(), jobs: Vec::new(), contexts: BTreeMap::new(), inters: Vec::new() };
    let store = Store::new(Path::new("/nowhere"), "air");
    if let Some((serial, ..)) = process.cut(&mut around, OWN, store, besides) {
        process.announce(&mut around, OWN, serial, [(OTHER.incarnation, With::default())].into(), BTreeMap::new());
    }
    for by in 0..often {
        process.told(&mut around, OWN, OTHER, &moved(&message, by).encode());
        process.told_by_stranger(&mut around, OWN, ProcId { incarnation: 100 + by, rank: 0 }, input);
    }
    let held = process.held(OWN);
    assert!(held.rows <= MOST_WAITING && held.lines <= MOST_OPEN && held.cuts <= 1, "{held:?}");
}

fn messages() -> Vec<Vec<u8>> {
    let row = Row { sent: 5, arrived: 6, leaving: [3, 5].into() };
    let planned = Planned { id: LINE, cuts: [(1, 4), (9, 7)].into(), names: ["air".to_owned()].into() };
    let report = Report { lines: vec![planned], heard: [LINE].into(), failed: [LINE].into(), seen: [(1, 3)].into() };
    let mut leader = Leader::new(1);
    leader.cut(3, "air", 2, [(2, 7)].into());
    let lines = vec![Old { id: LINE, jobs: ["air".to_owned(), "ocean".to_owned()].into(), complete: true }];
    leader.knows(Known { version: 1, name: "air".into(), size: 2, runs: false, lines });
    let all = [
        Message::Rows(7, [(0, row.clone()), (3, row)].into(), true),
        Message::Board(Box::new(leader.board().clone())),
        Message::Board(Box::default()),
        Message::Lines(Box::new(report)),
        Message::Done(LINE, Done::Written),
        Message::Replayed,
        Message::AllReplayed,
        Message::Again([1, 2].into(), [300].into(), false),
        Message::Resumed,
    ];
    all.iter().map(Message::encode).collect()
}

/// `checkpoint::Message::decode`.
pub const MESSAGE: Target = Target { run: message, seeds: messages, longest: 512, memory: 4 << 20 };
