//! `foreign-peer JOB`: stands for jobs of one rank on machines that lay out data otherwise, one after another, and
//! exchanges values with `c-tests/c/foreign.c`. It encodes and reads them by itself, byte by byte: what it sends is what
//! such a machine would, and what it gets must be as the program has it.

use base::bytes::Take;
use c_tests::await_some;
use naming::{Claim, Naming, Record};
use node::leaders::{Agreement, Party, Turn, contacts};
use node::{
    Config, Contact, Contacts, ContextId, Fault, Group, InterId, Layout, Mode, Node, OpId, Outcome, ProcId,
    RemoteGroup, Source, Tag,
};
use std::time::{Duration, Instant};

/// Less than the harness waits.
const LIMIT: Duration = Duration::from_secs(50);

/// A `long double`.
#[derive(Clone, Copy, PartialEq)]
enum Wide {
    Double,
    X87,
    Quad,
    Pair,
}

#[derive(Clone, Copy)]
struct Machine {
    name: &'static str,
    /// As the protocol's description has it.
    representation: u32,
    big: bool,
    long: usize,
    address: usize,
    wchar: usize,
    fortran: usize,
    wide: Wide,
}

const MACHINES: [Machine; 4] = [
    // 32-bit, big-endian.
    Machine {
        name: "old",
        representation: 0x0441_4441,
        big: true,
        long: 4,
        address: 4,
        wchar: 4,
        fortran: 4,
        wide: Wide::Double,
    },
    Machine {
        name: "windows",
        representation: 0x0441_2842,
        big: false,
        long: 4,
        address: 8,
        wchar: 2,
        fortran: 4,
        wide: Wide::Double,
    },
    // 64-bit, big-endian, with Fortran's default types of 8 bytes.
    Machine {
        name: "cray",
        representation: 0x3881_4881,
        big: true,
        long: 8,
        address: 8,
        wchar: 4,
        fortran: 8,
        wide: Wide::Quad,
    },
    Machine {
        name: "power",
        representation: 0x4441_4880,
        big: false,
        long: 8,
        address: 8,
        wchar: 4,
        fortran: 4,
        wide: Wide::Pair,
    },
];

/// The one that the programs run on.
const HERE: Machine = Machine {
    name: "here",
    representation: 0x2441_4880,
    big: false,
    long: 8,
    address: 8,
    wchar: 4,
    fortran: 4,
    wide: Wide::X87,
};

// ----------------------------------------------------------------------------------------------------------- values

fn whole(i: i128) -> i128 {
    if i % 2 == 1 { -natural(i) } else { natural(i) }
}

fn natural(i: i128) -> i128 {
    37 * (i % 500) + 5
}

fn broken(i: i128) -> f64 {
    0.25 * whole(i) as f64
}

impl Machine {
    fn put(&self, size: usize, value: u128, out: &mut Vec<u8>) {
        let little = value.to_le_bytes();
        if self.big { out.extend(little[..size].iter().rev()) } else { out.extend(&little[..size]) }
    }

    fn int(&self, size: usize, value: i128, out: &mut Vec<u8>) {
        self.put(size, value as u128, out);
    }

    fn real(&self, size: usize, value: f64, out: &mut Vec<u8>) {
        let bits = if size == 4 { u128::from((value as f32).to_bits()) } else { u128::from(value.to_bits()) };
        self.put(size, bits, out);
    }

    fn long_double(&self, value: f64, out: &mut Vec<u8>) {
        let bits = value.to_bits();
        let (sign, exponent) = (u128::from(bits >> 63), u128::from(bits >> 52 & 0x7ff) + 16383 - 1023);
        let fraction = u128::from(bits & ((1 << 52) - 1));
        match self.wide {
            Wide::Double => self.real(8, value, out),
            Wide::X87 => self.put(16, sign << 79 | exponent << 64 | 1 << 63 | fraction << 11, out),
            Wide::Quad => self.put(16, sign << 127 | exponent << 112 | fraction << 60, out),
            Wide::Pair => {
                self.real(8, value, out);
                self.real(8, 0.0, out);
            }
        }
    }

    /// The i-th value, as this machine has it.
    fn value(&self, kind: &str, i: i128, out: &mut Vec<u8>) {
        match kind {
            "byte" => self.int(1, i % 256, out),
            "char" => self.int(1, i % 100, out),
            "short" => self.int(2, whole(i), out),
            "ushort" => self.int(2, natural(i) * 3, out),
            "int" => self.int(4, whole(i) * 100_003, out),
            "uint" => self.int(4, natural(i) * 200_003, out),
            "long" => self.int(self.long, whole(i) * 100_003, out),
            "ulong" => self.int(self.long, natural(i) * 200_003, out),
            "llong" => self.int(8, whole(i) * 1_000_000_007, out),
            "ullong" => self.int(8, natural(i) * 1_000_000_007, out),
            "float" => self.real(4, broken(i), out),
            "double" => self.real(8, broken(i), out),
            "ldouble" => self.long_double(broken(i), out),
            "wchar" => self.int(self.wchar, natural(i) * 3, out),
            "aint" => self.int(self.address, whole(i) * 100_003, out),
            "bool" => self.int(1, i % 2, out),
            "integer" => self.int(self.fortran, whole(i) * 100_003, out),
            "logical" => self.int(self.fortran, i % 2, out),
            "real" => self.real(self.fortran, broken(i), out),
            "complex" => {
                self.value("real", i, out);
                self.value("real", i + 3, out);
            }
            "dcomplex" => {
                self.value("double", i, out);
                self.value("double", i + 3, out);
            }
            "short-int" => {
                self.value("short", i, out);
                self.value("int", i + 3, out);
            }
            "two-int" => {
                self.value("int", i, out);
                self.value("int", i + 3, out);
            }
            "double-int" => {
                self.value("double", i, out);
                self.value("int", i + 3, out);
            }
            "long-int" => {
                self.value("long", i, out);
                self.value("int", i + 3, out);
            }
            _ => panic!("no kind {kind}"),
        }
    }

    /// A message that begins with value `first`.
    fn message(&self, (kinds, count): (&[&str], usize), first: i128) -> Vec<u8> {
        let mut out = Vec::new();
        for (kind, i) in (0..count).flat_map(|_| kinds).zip(first..) {
            self.value(kind, i, &mut out);
        }
        out
    }
}

/// In the order of the program.
const MESSAGES: [(&[&str], usize); 17] = [
    (&["int"], 1000),
    (&["long"], 1000),
    (&["ulong"], 700),
    (&["double"], 5000),
    (&["char", "char", "char", "double", "long", "long", "short"], 300),
    (&["double-int"], 50),
    (&["long-int"], 50),
    (&["ldouble"], 40),
    (&["wchar"], 30),
    (&["aint"], 20),
    (&["bool"], 9),
    (&["integer", "integer", "real", "double", "complex", "logical"], 60),
    (&["byte"], 64),
    (&["long"], 20_000),
    (&["llong", "ushort", "ushort", "uint", "float", "ullong"], 100),
    (&["long"], 0),
    (&["dcomplex", "short-int", "two-int", "two-int"], 20),
];

const WAYS: i64 = 11;
const PERSISTENT: i64 = 4;
const AGAIN: i64 = 5;
/// Room for the longest of them.
const ROOM: usize = 1 << 20;

const PARTIAL: i64 = 1000;
const LONGER: i64 = 1001;
const PROBED: i64 = 1002;
const FREED: i64 = 1003;
const BEYOND: i64 = 1004;
const LAST: i64 = 1005;
const GO: i64 = 1006;

// ---------------------------------------------------------------------------------------------------------- the job

struct Job {
    machine: Machine,
    node: Node,
    group: Group,
    inter: InterId,
    size: u32,
    checks: u64,
    failures: u64,
    _claim: Claim,
}

/// Registers and joins, as a leader of one rank does.
fn join(machine: Machine, other: &str) -> Job {
    let node = Node::start(Config::default()).expect("a node");
    let naming = naming::open(&naming::default_url().expect("a URL")).expect("a naming service");
    let cookie = base::ident::random();
    let group = Group { incarnation: node::incarnation(&node.contact().process, &cookie), cookie, rank: 0, size: 1 };
    node.add_group(group);
    let mut leader = Vec::new();
    node.contact().encode(&mut leader);
    let record = Record {
        incarnation: group.incarnation,
        cookie: group.cookie,
        leader,
        mpi: "none".into(),
        ..Record::new(machine.name)
    };
    let claim = naming.claim(&record).expect("a free name");
    let there = await_some(LIMIT, "the other job's name", || {
        naming.lookup(naming::Kind::Job, other).expect("a naming service that answers")
    });
    let party = Party {
        incarnation: group.incarnation,
        cookie: group.cookie,
        size: 1,
        tag_ub: i32::MAX as u32,
        representation: machine.representation,
        registered: None,
        name: machine.name.into(),
        wanted: other.into(),
        records: Contacts::from(vec![node.contact()]).bytes().to_vec(),
    };
    let agreed = agree(&node, naming.as_ref(), &group, &there, &party);
    let contacts = contacts(&agreed.remote.records, agreed.remote.size).expect("good records");
    assert_eq!(agreed.remote.representation, HERE.representation, "the program's machine as the protocol says it");
    let remote = RemoteGroup { incarnation: there.incarnation, cookie: there.cookie, contacts };
    let inter = node.open(ProcId { incarnation: group.incarnation, rank: 0 }, &remote, ContextId::root(agreed.context));
    Job { machine, node, group, inter, size: agreed.remote.size, checks: 0, failures: 0, _claim: claim }
}

fn agree(node: &Node, naming: &dyn Naming, group: &Group, there: &Record, party: &Party) -> Agreement {
    let contact = Contact::decode(&mut Take(&there.leader)).expect("a good record");
    let [me, leader] = [group.incarnation, there.incarnation].map(|incarnation| ProcId { incarnation, rank: 0 });
    let path = node.open_control(me, leader, there.cookie, &contact);
    node.with(|core| core.offer(path, group.incarnation < there.incarnation, party, None));
    await_some(LIMIT, "the other leader", || {
        assert!(naming.is_alive(there).unwrap_or(true) || node.path_gone(path).is_none(), "the other job went away");
        match node.with(|core| core.talk(path)) {
            Turn::Waiting => None,
            Turn::Agreed(agreement) => Some(agreement),
            other => panic!("the other leader does not agree: {other:?}"),
        }
    })
}

impl Job {
    fn wait(&self, op: OpId, what: &str) -> Outcome {
        let end = Some(Instant::now() + LIMIT);
        let outcome = self.node.wait_until(&mut || false, |core| core.test(op), end);
        outcome.unwrap_or_else(|| panic!("{}: waited in vain for {what}", self.machine.name))
    }

    fn check(&mut self, good: bool, what: impl FnOnce() -> String) {
        self.checks += 1;
        if !good {
            self.failures += 1;
            println!("FAIL {} {}", self.machine.name, what());
        }
    }

    /// Sends, and gives what comes back under the same tag.
    fn swap(&self, rank: u32, tag: i64, out: &[u8]) -> Vec<u8> {
        let send = self.send(rank, tag, out);
        let got = self.recv(rank, tag);
        assert_eq!(self.wait(send, "a send"), Outcome::Sent);
        got
    }

    fn send(&self, rank: u32, tag: i64, out: &[u8]) -> OpId {
        // SAFETY: only read, and every caller waits for the send while it has the bytes.
        let data = unsafe { Layout::contiguous(out.as_ptr().cast_mut(), out.len()) };
        self.node.isend(self.inter, rank, tag, data, Mode::Standard)
    }

    fn say(&self, rank: u32, tag: i64, out: &[u8]) {
        let send = self.send(rank, tag, out);
        assert_eq!(self.wait(send, "a send"), Outcome::Sent);
    }

    fn recv(&self, rank: u32, tag: i64) -> Vec<u8> {
        let mut bytes = vec![0; ROOM];
        // SAFETY: the bytes stay until the receive is over, below.
        let data = unsafe { Layout::contiguous(bytes.as_mut_ptr(), bytes.len()) };
        let op = self.node.irecv(self.inter, Source::Rank(rank), Tag::Is(tag), data);
        let Outcome::Received(e) = self.wait(op, "a message") else { panic!("message {tag} did not come well") };
        bytes.truncate(e.size as usize);
        bytes
    }

    fn talk_to(&mut self, rank: u32) {
        let machine = self.machine;
        for (m, message) in (0i64..).zip(MESSAGES) {
            for way in 0..WAYS {
                let tag = 16 * m + if way == AGAIN { PERSISTENT } else { way };
                let got = self.swap(rank, tag, &machine.message(message, 0));
                // What the program sends comes as it has it: the receiver converts. Nothing: its MPI lacks the type.
                let wanted = HERE.message(message, 1);
                let good = got == wanted || got.is_empty();
                self.check(good, || format!("message {m}, way {way}: {} bytes, not as sent", got.len()));
                if wanted.len() > 8 && got.is_empty() && way == 0 {
                    println!("LEFT-OUT {} {}", machine.name, message.0[0]);
                }
            }
        }
        let longs = |n| machine.message((&["long"], n), 0);
        self.say(rank, PARTIAL, &longs(11)[..10 * machine.long + 3]);
        self.say(rank, LONGER, &longs(20));
        self.say(rank, PROBED, &longs(12));
        self.recv(rank, GO);
        self.say(rank, FREED, &longs(5));
        if machine.fortran == 8 {
            let mut beyond = Vec::new();
            for value in [1, 1 << 40, -(1 << 40), 7] {
                machine.int(8, value, &mut beyond);
            }
            self.say(rank, BEYOND, &beyond);
            self.say(rank, BEYOND, &beyond);
        }
        self.recv(rank, LAST);
    }
}

fn main() {
    let other = std::env::args().nth(1).expect("the name of a job");
    let (mut checks, mut failures) = (0, 0);
    for machine in MACHINES {
        let mut job = join(machine, &other);
        for rank in 0..job.size {
            job.talk_to(rank);
        }
        job.node.remove_group(job.group.incarnation);
        job.node.drain(LIMIT);
        (checks, failures) = (checks + job.checks, failures + job.failures);
    }
    // One that the program cannot know: its job is told no, ours that the inter-communicator does not exist.
    let job = join(Machine { name: "martian", representation: u32::MAX, ..HERE }, &other);
    let send = job.send(0, GO, &[0; 300_000]);
    assert_eq!(job.wait(send, "a refusal"), Outcome::Failed(Fault::Revoked));
    let folder = std::path::PathBuf::from(std::env::var_os("MPI_CONNECT_TEST_DIR").expect("the folder of the scene"));
    std::fs::write(folder.join("revoked"), "").expect("a sign in it");
    job.node.remove_group(job.group.incarnation);
    job.node.drain(LIMIT);
    println!("DONE foreign-peer checks {checks} failures {failures}");
    std::process::exit(i32::from(failures > 0));
}
