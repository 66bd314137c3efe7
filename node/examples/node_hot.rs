//! Small messages between two nodes of one process, in one thread: for counting instructions.
//!
//! `cargo build --release -p mpi-connect-node --example node_hot`, then `valgrind --tool=callgrind target/release/examples/node_hot N`
//! for two numbers N of messages: the difference, divided by that of the numbers, is what one costs, sent and received.
//! `MPI_CONNECT_LANES` chooses how they go.

use node::{Config, ContextId, Group, InterId, Layout, Mode, Node, ProcId, RemoteGroup, Source, Tag};

const COOKIE: [u8; 16] = [7; 16];

fn main() {
    let rounds: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).expect("the number of messages");
    let [a, b] = [1, 2].map(start);
    let (to_b, to_a) = (open(1, &a, &b), open(2, &b, &a));
    let mut buffer = [0u8; 8];
    // SAFETY: the buffer outlives all operations: each is over when its round is.
    let data = unsafe { Layout::contiguous(buffer.as_mut_ptr(), buffer.len()) };
    for _ in 0..2000 + rounds {
        round((&a, to_b), (&b, to_a), &data);
    }
}

fn start(incarnation: u64) -> Node {
    let config = Config { background: false, ..Config::from_env().expect("settings") };
    let node = Node::start(config).expect("a node");
    node.add_group(Group { incarnation, cookie: COOKIE, rank: 0, size: 1 });
    node
}

fn open(incarnation: u64, node: &Node, other: &Node) -> InterId {
    let remote = RemoteGroup { incarnation: 3 - incarnation, cookie: COOKIE, contacts: vec![other.contact()].into() };
    node.open(ProcId { incarnation, rank: 0 }, &remote, ContextId::root(1))
}

fn round((a, to_b): (&Node, InterId), (b, to_a): (&Node, InterId), data: &Layout) {
    let receive = b.irecv(to_a, Source::Rank(0), Tag::Is(1), data.clone());
    let send = (!a.send_now(to_b, 0, 1, data)).then(|| a.isend(to_b, 0, 1, data.clone(), Mode::Standard));
    let idle = &mut || false;
    while b.look(idle, |core| core.test(receive)).is_none() {
        a.look(idle, |_| None::<()>);
    }
    while send.is_some_and(|send| a.look(idle, |core| core.test(send)).is_none()) {
        b.look(idle, |_| None::<()>);
    }
}
