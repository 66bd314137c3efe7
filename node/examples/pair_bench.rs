//! Two processes of one host: half round trips and bandwidth by message size, the best of several batches, and their median.
//!
//! `cargo run --release -p mpi-connect-node --example pair_bench`. `SECOND='ip netns exec b'` runs the second one in another network
//! namespace, and so on another host. With `ROUTERS=1` and `MPI_CONNECT_ROUTE=node` a third process, which does nothing else, has the
//! router of each host. `SIZES=8,4194304` chooses the sizes.

use node::{Config, Contact, Group, InterId, Layout, Mode, Node, Outcome, ProcId, RemoteGroup, Source, Tag};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const COOKIE: [u8; 16] = [7; 16];

/// This program, with one word.
fn started(under: &str, word: &str) -> Child {
    let program = std::env::current_exe().expect("own name");
    let mut words = under.split_whitespace().map(OsString::from).chain([program.into(), word.into()]);
    let mut command = Command::new(words.next().expect("a command"));
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("another process")
}

fn sizes() -> Vec<usize> {
    match std::env::var("SIZES") {
        Ok(sizes) => sizes.split(',').map(|size| size.parse().expect("a size")).collect(),
        Err(_) => vec![0, 8, 64, 1024, 8192, 16_384, 16_385, 65_536, 262_144, 1 << 20, 4 << 20, 16 << 20, 64 << 20],
    }
}

/// Is there until its input ends.
fn idle() {
    let _node = Node::start(Config::from_env().expect("settings")).expect("a node");
    println!("there");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("the end");
}

fn main() {
    let word = std::env::args().nth(1);
    if word.as_deref() == Some("idle") {
        return idle();
    }
    let second = word.is_some();
    let has_routers = std::env::var_os("ROUTERS").is_some();
    let mut idle = has_routers.then(|| started("", "idle"));
    if let Some(idle) = &mut idle {
        idle.stdout.as_mut().expect("piped").read_exact(&mut [0; 6]).expect("it is there");
    }
    let me = if second { 2 } else { 1 };
    let node = Node::start(Config::from_env().expect("settings")).expect("a node");
    node.add_group(Group { incarnation: me, cookie: COOKIE, rank: 0, size: 1 });
    let mut own = Vec::new();
    node.contact().encode(&mut own);
    own.resize(1000, 0);
    let mut theirs = vec![0; 1000];
    let child = (!second).then(|| {
        let under = std::env::var("SECOND").unwrap_or_default();
        let mut child = started(&under, "second");
        child.stdin.take().expect("piped").write_all(&own).expect("contact sent");
        child.stdout.take().expect("piped").read_exact(&mut theirs).expect("contact received");
        child
    });
    if second {
        std::io::stdin().read_exact(&mut theirs).expect("contact received");
        std::io::stdout().write_all(&own).expect("contact sent");
        std::io::stdout().flush().expect("contact sent");
    }
    let contact = Contact::decode(&mut base::bytes::Take(&theirs)).expect("a contact");
    let remote = RemoteGroup { incarnation: 3 - me, cookie: COOKIE, contacts: vec![contact].into() };
    let inter = node.open(ProcId { incarnation: me, rank: 0 }, &remote, node::ContextId::root(1));
    let mut buffer = vec![1u8; sizes().into_iter().max().unwrap_or(0)];
    for size in sizes() {
        let rounds = ((256 << 20) / (size + 16_384)).clamp(4, 5000);
        for _ in 0..rounds / 10 + 1 {
            turn(&node, inter, &mut buffer[..size], second);
        }
        let batch = |_| {
            let start = Instant::now();
            for _ in 0..rounds / 8 + 1 {
                turn(&node, inter, &mut buffer[..size], second);
            }
            start.elapsed().as_secs_f64() / (rounds / 8 + 1) as f64 / 2.0
        };
        let mut halves: Vec<_> = (0..8).map(batch).collect();
        halves.sort_by(f64::total_cmp);
        let (half, median) = (halves[0], halves[4]);
        if !second {
            let speed = size as f64 / half / 1e6;
            println!("{size:>10} bytes {:>10.2} us {speed:>10.1} MB/s, median {:.2} us", half * 1e6, median * 1e6);
        }
    }
    node.drain(std::time::Duration::from_secs(5));
    if let Some(mut child) = child {
        child.wait().expect("the other process ends");
    }
    if let Some(mut idle) = idle {
        drop(idle.stdin.take());
        idle.wait().expect("the idle process ends");
    }
}

fn turn(node: &Node, inter: InterId, buffer: &mut [u8], second: bool) {
    for receive in [second, !second] {
        // SAFETY: the buffer outlives the operation, which is waited for here.
        let layout = unsafe { Layout::contiguous(buffer.as_mut_ptr(), buffer.len()) };
        let op = if receive {
            node.irecv(inter, Source::Any, Tag::Any, layout)
        } else {
            node.isend(inter, 0, 1, layout, Mode::Standard)
        };
        let outcome = node.wait_until(&mut || false, |core| core.test(op), None);
        assert!(!matches!(outcome, Some(Outcome::Failed(_))));
    }
}
