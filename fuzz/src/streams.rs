//! What `transports` reads of byte streams: frames in arbitrary pieces, over one stream or several; greetings; the addresses
//! in an entry of a contact record.

use crate::Target;
use crate::input::Script;
use crate::trust::{begin_anew, process};
use crate::wire::{FROM, TO, answered, headers, record, said};
use base::bytes::Malformed;
use base::memory::VecMemory;
use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use transports::fuzzing::{Accepted, Dialled, address, addresses, entry, striped};
use transports::stream::{ByteStream, StreamLane};
use trust::fuzzing::cheaply;
use trust::{Answering, Dialling, Progress, Protocol};
use wire::frame::{HEADER, Header, Kind, MAX_PAYLOAD};
use wire::hello::{HELLO_ACK_LEN, HELLO_LEN};
use wire::lane::{Death, Event, Lane, Sink};
use wire::{Hello, HelloAck, Status, TransportId};

/// Bytes of a stream, and how many of them each read brings; then nothing more comes, or the end.
struct Coming<'a> {
    bytes: &'a [u8],
    /// The next reads bring so many bytes, over and over; 0: nothing is there yet.
    pieces: &'a [u8],
    turn: usize,
    /// So many reads are of these sizes; the others bring all that they can.
    turns: usize,
    ends: bool,
    read: usize,
}

impl<'a> Coming<'a> {
    fn new(bytes: &'a [u8], pieces: &'a [u8], ends: bool) -> Coming<'a> {
        Coming { bytes, pieces, turn: 0, turns: usize::MAX, ends, read: 0 }
    }
}

impl ByteStream for Coming<'_> {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut piece = usize::MAX;
        if !self.pieces.is_empty() && self.turn < self.turns {
            piece = usize::from(self.pieces[self.turn % self.pieces.len()]);
            self.turn += 1;
        }
        if piece == 0 && self.turn % 2 == 1 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut done = 0;
        for buf in bufs {
            let n = buf.len().min(self.bytes.len()).min(piece.max(1) - done);
            buf[..n].copy_from_slice(&self.bytes[..n]);
            self.bytes = &self.bytes[n..];
            done += n;
        }
        self.read += done;
        if done > 0 || self.ends { Ok(done) } else { Err(ErrorKind::WouldBlock.into()) }
    }

    fn cut(&mut self) {}
}

/// The receives that bulk may be for: an operation has this number and so many bytes. The second lies in small pieces, as a
/// datatype with gaps does.
const WANTED: [(u64, usize); 2] = [(9, 300), (10, 40_000)];

/// The buffers of [`WANTED`], all zero but for what was written. They are used again: to make them costs more than most inputs.
struct Buffers {
    bytes: [Vec<u8>; 2],
    written: [Range<usize>; 2],
}

thread_local! {
    static CLEAN: RefCell<Vec<[Vec<u8>; 2]>> = const { RefCell::new(Vec::new()) };
}

impl Buffers {
    fn new() -> Buffers {
        let clean = CLEAN.with_borrow_mut(Vec::pop);
        Buffers { bytes: clean.unwrap_or_else(|| WANTED.map(|(_, len)| vec![0; len])), written: [0..0, 0..0] }
    }

    fn wrote(&mut self, n: usize, at: Range<usize>) {
        let written = &mut self.written[n];
        if Range::is_empty(written) {
            *written = at;
        } else if !at.is_empty() {
            *written = written.start.min(at.start)..written.end.max(at.end);
        }
    }

    fn are_empty(&self) -> bool {
        self.written.iter().all(Range::is_empty)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.iter_mut().zip(&self.written).for_each(|(bytes, written)| bytes[written.clone()].fill(0));
        CLEAN.with_borrow_mut(|clean| clean.push(bytes));
    }
}

impl PartialEq for Buffers {
    fn eq(&self, other: &Buffers) -> bool {
        let alike = |n: usize| self.bytes[n][self.written[n].clone()] == other.bytes[n][self.written[n].clone()];
        self.written == other.written && alike(0) && alike(1)
    }
}

/// What a lane has delivered.
struct Delivered {
    frames: Vec<(Header, Vec<u8>)>,
    buffers: Buffers,
    /// Frames of this kind are objected to.
    objects_to: Option<Kind>,
    /// Bulk is wanted no more after so many bytes of it.
    wants: usize,
    /// What has come of a message by [`Sink::on_rest`], if such are brought where they belong.
    placed: Option<Vec<u8>>,
}

impl Delivered {
    fn new(objects: u8, wants: usize) -> Delivered {
        let objects_to = (objects == 1).then_some(Kind::Pong);
        Delivered { frames: Vec::new(), buffers: Buffers::new(), objects_to, wants, placed: None }
    }
}

impl Sink for Delivered {
    fn on_frame(&mut self, header: &Header, payload: &[u8]) -> Result<(), Malformed> {
        assert!(header.is_sound() && payload.len() == header.len as usize);
        assert!(!matches!(header.kind, Kind::Bulk | Kind::Lost), "a lane keeps these to itself");
        if self.objects_to == Some(header.kind) {
            return Err(Malformed);
        }
        self.frames.push((*header, payload.to_vec()));
        Ok(())
    }

    fn on_bulk(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        assert!(header.is_sound() && at < header.len as usize);
        let n = WANTED.iter().position(|(op, _)| *op == header.a)?;
        let (start, len) = (usize::try_from(header.b).ok()?.checked_add(at)?, header.len as usize - at);
        let to = self.buffers.bytes[n].get_mut(start..start.checked_add(len)?)?;
        if self.wants == 0 {
            return None;
        }
        let mut pieces: Vec<_> = to.chunks_mut(if n == 0 { 50 } else { 20_000 }).map(IoSliceMut::new).collect();
        let done = read(&mut pieces);
        if let Ok(done) = &done {
            assert!(*done <= len);
            self.wants = self.wants.saturating_sub(*done);
            self.buffers.wrote(n, start..start + done);
        }
        Some(done)
    }

    fn on_part(&mut self, header: &Header, sequence: u64, part: &[u8], total: u64) {
        assert!(header.kind == Kind::Msg && header.a == sequence && (part.len() as u64) < total);
        if let Some(placed) = &mut self.placed {
            *placed = part.to_vec();
        }
    }

    fn wants_rest(&mut self, _: &Header, _: usize) -> bool {
        self.placed.is_some()
    }

    fn on_rest(
        &mut self,
        header: &Header,
        at: usize,
        read: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        let placed = self.placed.as_mut().expect("a part was taken");
        assert!(placed.len() == at && at < header.len as usize);
        placed.resize(header.len as usize, 0);
        let done = read(&mut placed[at..].chunks_mut(20).take(16).map(IoSliceMut::new).collect::<Vec<_>>());
        placed.truncate(at + done.as_ref().copied().unwrap_or(0));
        Some(done)
    }

    fn on_placed(&mut self, header: &Header) -> Result<bool, Malformed> {
        let placed = self.placed.as_mut().map(std::mem::take).unwrap_or_default();
        self.on_frame(header, &placed).map(|()| true)
    }
}

/// Polls a lane until nothing more comes. Returns whether it died of nonsense.
fn drained(lane: &mut impl Lane<VecMemory>, sink: &mut Delivered, bytes: usize) -> bool {
    let mut idle = 0;
    // Every second look at a stream brings something, and a lane of several looks at each.
    while lane.death().is_none() && idle < 8 {
        idle = if lane.poll(sink, 1 << 16) == 0 { idle + 1 } else { 0 };
        assert!(sink.frames.len() <= bytes / HEADER + 1);
    }
    if lane.death().is_some() {
        assert_eq!(lane.poll(sink, 1 << 16), 0, "a dead lane brings nothing");
    }
    matches!(lane.death(), Some(Death::Malformed))
}

fn one_stream(input: &[u8]) {
    let mut s = Script(input);
    let flags = s.byte();
    let pieces = s.bytes();
    let bytes = s.0;
    // However the bytes are cut, the same comes out.
    let cut = |pieces, wants, places: bool| {
        let mut sink = Delivered { placed: places.then(Vec::new), ..Delivered::new(flags & 3, wants) };
        let mut lane = StreamLane::new(Coming { turns: MOST_TURNS, ..Coming::new(bytes, pieces, flags & 4 != 0) });
        if places {
            lane.set_long(40);
        }
        if flags & 8 != 0 {
            Lane::<VecMemory>::limit_frames(&mut lane, 100_000);
        }
        let nonsense = drained(&mut lane, &mut sink, bytes.len());
        if StreamLane::death(&lane).is_some() {
            let mut event = || Lane::<VecMemory>::event(&mut lane);
            assert_eq!((event(), event()), (Some(Event::Dead), None), "it says so once");
        }
        (sink.frames, sink.buffers, nonsense)
    };
    let (frames, buffers, nonsense) = cut(&[], usize::MAX, false);
    let again = cut(pieces, usize::MAX, false);
    assert_eq!((&again.0, again.2), (&frames, nonsense));
    assert!(again.1 == buffers, "the data depend on how the bytes were cut");
    // An operation may end in the middle of its data.
    if !buffers.are_empty() {
        let (again, _, also) = cut(pieces, usize::from(flags), false);
        assert_eq!((&again, also), (&frames, nonsense));
    }
    // Messages may go where they belong before they are whole.
    let (again, _, also) = cut(pieces, usize::MAX, true);
    assert_eq!((again, also), (frames, nonsense));
}

/// So many reads are cut as the input says.
const MOST_TURNS: usize = 96;

/// The frames of all kinds behind each other, with payloads.
fn frames() -> Vec<u8> {
    let mut out = Vec::new();
    for mut header in headers() {
        if header.kind == Kind::Bulk {
            (header.a, header.b) = (9, 200);
        }
        out.extend_from_slice(&header.encode());
        out.extend((0..header.len).map(|n| n as u8));
    }
    out
}

/// `transports::stream::StreamLane`, as it reads.
pub const STREAM: Target = Target {
    run: one_stream,
    seeds: || {
        let long = Header { len: 20_000, a: 10, b: 5000, ..headers()[2] };
        let bulk = [&long.encode()[..], &[3; 1500]].concat();
        let large = [&Header { len: MAX_PAYLOAD as u32, ..headers()[0] }.encode()[..], &[4; 100]].concat();
        let mut all = Vec::new();
        for (flags, pieces) in [(0, &[][..]), (4, &[1][..]), (9, &[47, 0, 200, 3])] {
            for bytes in [frames(), bulk.clone(), large.clone()] {
                let mut one = vec![flags];
                crate::input::put_bytes(&mut one, pieces);
                one.extend(bytes);
                all.push(one);
            }
        }
        all
    },
    longest: 1800,
    memory: 4 << 20,
};

/// A stream that is known elsewhere, to see what is written on it.
#[derive(Clone)]
struct Shared<'a>(Rc<RefCell<(Coming<'a>, Vec<u8>)>>);

impl ByteStream for Shared<'_> {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let written = &mut self.0.borrow_mut().1;
        bufs.iter().for_each(|buf| written.extend_from_slice(buf));
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.borrow_mut().0.read_vectored(bufs)
    }

    fn cut(&mut self) {}
}

fn several_streams(input: &[u8]) {
    let mut s = Script(input);
    let (flags, pieces) = (s.byte(), s.bytes());
    let coming = [s.bytes(), s.bytes(), s.0];
    let streams = [0, 1, 2]
        .map(|n| Shared(Rc::new(RefCell::new((Coming::new(coming[2 - n], pieces, flags & 1 << n != 0), Vec::new())))));
    let Some(mut lane) = striped(streams.clone(), FROM, TO) else { return };
    let mut sink = Delivered::new(flags >> 4, usize::MAX);
    let mut lost = false;
    for _ in 0..4 {
        drained(&mut lane, &mut sink, input.len());
        let alive = lane.death().is_none();
        while let Some(event) = lane.event() {
            lost |= event == Event::BulkLost;
            assert_eq!(alive, event != Event::Dead);
        }
        lane.flush(&VecMemory::default());
    }
    assert!(lane.descriptors() <= 3 && (lost || lane.death().is_some() || lane.descriptors() == 3));
    // What it writes unasked is LOST, and that is well formed.
    for stream in &streams {
        let written = &stream.0.borrow().1;
        for frame in written.chunks(HEADER) {
            let header = Header::decode(frame.first_chunk().expect("a whole header")).expect("a good one");
            assert_eq!((header.kind, header.source, header.dest), (Kind::Lost, FROM, TO));
        }
    }
}

/// A lane of several streams, as it reads.
pub const STRIPED: Target = Target {
    run: several_streams,
    seeds: || {
        let bulk = [&Header { a: 9, b: 0, ..headers()[2] }.encode()[..], &[3; 100]].concat();
        let mut all = Vec::new();
        for (flags, second) in [(0, &bulk[..]), (2, &bulk[..20]), (4, &frames()[..]), (1, &[])] {
            let mut one = vec![flags];
            crate::input::put_bytes(&mut one, &[60, 0]);
            crate::input::put_bytes(&mut one, second);
            crate::input::put_bytes(&mut one, &bulk);
            one.extend(frames());
            all.push(one);
        }
        all
    },
    longest: 2048,
    memory: 4 << 20,
};

/// The stream to a process that proves itself as it should, and says then what the input has.
struct Proving<'a> {
    /// Says what `other` has answered; then the input.
    coming: Coming<'a>,
    waiting: Vec<u8>,
    other: Option<Other>,
    heard: Vec<u8>,
    is_proved: bool,
}

/// The other side, until it has proved itself.
enum Other {
    Dials(Box<Dialling>),
    Answers(Answering),
}

impl Proving<'_> {
    /// Lets the other side hear what was written, as far as it wants it.
    fn hear(&mut self) {
        while let Some(other) = &mut self.other {
            let wants = match other {
                Other::Dials(dialling) => dialling.wants(),
                Other::Answers(answering) => answering.wants(),
            };
            if self.heard.len() < wants {
                return;
            }
            let bytes: Vec<u8> = self.heard.drain(..wants).collect();
            let progress = match other {
                Other::Dials(dialling) => dialling.hear(&bytes).expect("a good answer"),
                Other::Answers(answering) => answering.hear(&bytes).expect("a good greeting"),
            };
            match progress {
                Progress::More => {}
                Progress::Say(bytes) => self.waiting.extend(bytes),
                Progress::Done(bytes) => {
                    self.waiting.extend(bytes);
                    self.other = None;
                }
            }
        }
    }
}

/// The stream, and its end that the target keeps.
#[derive(Clone)]
struct Kept<'a>(Rc<RefCell<Proving<'a>>>);

impl ByteStream for Kept<'_> {
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut proving = self.0.borrow_mut();
        let before = proving.heard.len();
        bufs.iter().for_each(|buf| proving.heard.extend_from_slice(buf));
        let n = proving.heard.len() - before;
        proving.hear();
        Ok(n)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut proving = self.0.borrow_mut();
        if proving.waiting.is_empty() {
            if proving.other.is_some() {
                return Err(ErrorKind::WouldBlock.into());
            }
            if !std::mem::replace(&mut proving.is_proved, true) {
                // The handshake is over, which is the same each time.
                crate::forget_branches();
            }
            return proving.coming.read_vectored(bufs);
        }
        let n = bufs[0].len().min(proving.waiting.len());
        bufs[0][..n].copy_from_slice(&proving.waiting[..n]);
        proving.waiting.drain(..n);
        Ok(n)
    }

    fn cut(&mut self) {}
}

fn greeting(input: &[u8]) {
    let mut s = Script(input);
    let (flags, pieces) = (s.byte(), s.bytes());
    let bytes = s.0;
    begin_anew();
    let (us, them) = (process(1), process(2));
    let (dials, (other, waiting)) = match flags & 2 {
        0 => {
            let (dialling, greeting) = Dialling::begin(them, Protocol::Jobs, true);
            (false, (Other::Dials(Box::new(dialling)), greeting))
        }
        _ => (true, (Other::Answers(Answering::begin(them, Protocol::Jobs, true)), Vec::new())),
    };
    let coming = Coming::new(bytes, pieces, flags & 1 != 0);
    let proving = Proving { coming, waiting, other: Some(other), heard: Vec::new(), is_proved: false };
    let stream = Kept(Rc::new(RefCell::new(proving)));
    let most = 2 * bytes.len() + 8;
    let its_number = them.identity().process();
    if dials {
        let mut dialled = Dialled::begin(stream.clone(), us, said(us.identity().process())).expect("it is written");
        let said = (0..most).find_map(|_| match dialled.talk() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => None,
            said => Some(said),
        });
        let read = stream.0.borrow().coming.read;
        assert!(read <= HELLO_ACK_LEN && stream.0.borrow().other.is_none());
        if let Some(Ok(ack)) = said {
            assert!(ack.process == its_number || ack.status == Status::OtherVersion);
            assert_eq!(HelloAck::decode(&bytes[..read]), Ok(ack), "no byte behind it is read");
        }
    } else {
        let mut accepted = Accepted::begin(stream.clone(), us);
        let said = (0..most).find_map(|_| accepted.step().transpose());
        let read = stream.0.borrow().coming.read;
        assert!(read <= HELLO_LEN && stream.0.borrow().other.is_none());
        if let Some(Ok(hello)) = said {
            assert_eq!(hello.process, its_number, "nobody comes as somebody else");
            assert_eq!(Hello::decode(&bytes[..read]), Ok(hello), "no byte behind it is read");
        }
    }
}

/// HELLO and HELLO-ACK of a process that has proved itself, in pieces.
pub const GREETING: Target = Target {
    run: |input| cheaply(|| greeting(input)),
    seeds: || {
        let one = |flags, pieces: &[u8], bytes: Vec<u8>| {
            let mut out = vec![flags];
            crate::input::put_bytes(&mut out, pieces);
            [out, bytes, b"behind".to_vec()].concat()
        };
        let number = cheaply(|| process(2).identity().process());
        vec![
            one(0, &[], said(number).encode()),
            one(1, &[7, 0, 90], said([9; 16]).encode()),
            one(2, &[], HelloAck { process: number, ..answered(Status::Good) }.encode()),
            one(2, &[5], answered(Status::Good).encode()),
            one(3, &[1, 200], HelloAck::other_version().encode()),
        ]
    },
    longest: 512,
    memory: 64 << 10,
};

fn places(input: &[u8]) {
    let (all, places) = addresses(input);
    assert!(all.len() <= base::protocol::address::MAX_ADDRESSES);
    let again = entry(&all);
    assert!(again.len() <= wire::contact::MAX_ENTRY);
    assert_eq!(again, input[..again.len()], "an address has one form");
    for (address_, place) in all.iter().zip(&places) {
        assert!(place.is_sound() && !place.host().is_empty());
        assert_eq!(address(place), Some(*address_));
    }
    // The other way in: a record that another process has made, and the places of a snapshot.
    let contact = transports::registry::at_addresses([1; 16], [2; 16], &all);
    assert_eq!(transports::registry::ip_addresses(&contact), all);
    let place =
        wire::Place { transport: TransportId::registered(1), address: input.into(), host_part: 0, text: "".into() };
    let _ = address(&place);
}

/// The addresses in an entry of a contact record.
pub const ADDRESSES: Target = Target {
    run: places,
    seeds: || {
        let all: Vec<SocketAddr> = transports::registry::ip_addresses(&record());
        vec![entry(&all), entry(&vec![all[1]; 8])]
    },
    longest: 512,
    memory: 16 << 10,
};
