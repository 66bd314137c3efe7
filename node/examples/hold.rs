//! How long another thread waits for the node's lock while this one receives 64 MiB again and again: pulled from the memory of
//! the process beside it, or converted from another machine's numbers. Prints quantiles in microseconds.
//!
//!     cargo run --release -p mpi-connect-node --example hold -- pull
//!     cargo run --release -p mpi-connect-node --example hold -- convert

use base::ProcId;
use node::{
    Config, ContextId, Group, InterId, Kind, Layout, Mode, Node, RemoteGroup, Representation, Shape, Signature,
};
use node::{Contact, Source, Tag};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const BYTES: usize = 64 << 20;
const ROUNDS: usize = 40;
const RECORD: usize = 1000;

fn main() {
    let mut args = std::env::args().skip(1);
    let converts = args.next().is_some_and(|what| what == "convert");
    let is_sender = args.next().is_some();
    let me = if is_sender { 2 } else { 1 };
    let node = Node::start(Config::from_env().expect("settings")).expect("a node");
    node.add_group(Group { incarnation: me, cookie: [7; 16], rank: 0, size: 1 });
    let mut own = Vec::new();
    node.contact().encode(&mut own);
    own.resize(RECORD, 0);
    let mut theirs = vec![0; RECORD];
    let sender = if is_sender {
        std::io::stdin().read_exact(&mut theirs).expect("a contact comes");
        std::io::stdout().write_all(&own).expect("a contact goes");
        std::io::stdout().flush().expect("a contact goes");
        None
    } else {
        let mut child = Command::new(std::env::current_exe().expect("own name"));
        child.args([if converts { "convert" } else { "pull" }, "sender"]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a sender");
        child.stdin.take().expect("it is piped").write_all(&own).expect("a contact goes");
        child.stdout.take().expect("it is piped").read_exact(&mut theirs).expect("a contact comes");
        Some(child)
    };
    let contact = Contact::decode(&mut base::bytes::Take(&theirs)).expect("a contact");
    let remote = RemoteGroup { incarnation: 3 - me, cookie: [7; 16], contacts: vec![contact].into() };
    let inter = node.open(ProcId { incarnation: me, rank: 0 }, &remote, ContextId::root(1));
    let mut buffer = vec![1u8; BYTES];
    match sender {
        None => {
            for _ in 0..ROUNDS {
                // SAFETY: the buffer stands until the operation is over, in this very turn.
                let data = unsafe { Layout::contiguous(buffer.as_mut_ptr(), BYTES) };
                let op = node.isend(inter, 0, 1, data, Mode::Standard);
                node.wait_until(&mut || false, |core| core.test(op), None);
            }
            node.drain(Duration::from_secs(5));
        }
        Some(mut sender) => {
            let waited = receive_and_look(&node, inter, &mut buffer, converts);
            let at = |part: f64| waited[((waited.len() - 1) as f64 * part) as usize] as f64 / 1e3;
            let [p50, p90, p99, last] = [0.5, 0.9, 0.99, 1.0].map(at);
            println!("{} looks: p50 {p50:.1} p90 {p90:.1} p99 {p99:.1} max {last:.1} us", waited.len());
            node.drain(Duration::from_secs(5));
            sender.wait().expect("it ends");
        }
    }
}

/// How long each look at the node took, sorted.
fn receive_and_look(node: &Node, inter: InterId, buffer: &mut [u8], converts: bool) -> Vec<u64> {
    let is_over = AtomicBool::new(false);
    let big_endian = Representation::from_number(0x0441_4481).expect("a big-endian one");
    let here = Representation::from_number(0x2441_4880).expect("this one");
    let count = BYTES / 8;
    let mut waited = scope(|scope| {
        let looker = scope.spawn(|| {
            let mut all = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let before = Instant::now();
                node.with(|_| ());
                all.push(before.elapsed().as_nanos() as u64);
                // The pace of the looks; nothing is waited for.
                sleep(Duration::from_micros(50));
            }
            all
        });
        for _ in 0..ROUNDS {
            // SAFETY: the buffer stands until the operation is over, in this very turn.
            let data = unsafe {
                if converts {
                    Layout::shaped(buffer.as_mut_ptr(), Shape::run(8).repeat(count, 8).expect("64 MiB"))
                } else {
                    Layout::contiguous(buffer.as_mut_ptr(), BYTES)
                }
            };
            let numbers = || Signature::one(Kind::Long).repeat(count).expect("64 MiB");
            let data =
                if converts { data.receiving(numbers(), big_endian, here).expect("it is converted") } else { data };
            let op = node.irecv(inter, Source::Rank(0), Tag::Is(1), data);
            node.wait_until(&mut || false, |core| core.test(op), None);
        }
        is_over.store(true, Ordering::Relaxed);
        looker.join().expect("it looks")
    });
    waited.sort_unstable();
    waited
}
