//! Jobs with a leader, and operators that give commands to it.

use super::{LONG, config, member};
use node::figures::{Addressee, Answer, Command, MAX_ANSWER, Request};
use node::{Contact, Group, Node};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use transports::control::{ControlStream, sleep};
use transports::registry::{Heard, Unheard, command, host};

const SLICE: Duration = Duration::from_millis(100);

/// A job of several nodes, of which the first leads.
pub struct Team {
    pub nodes: Vec<Arc<Node>>,
    pub incarnation: u64,
}

/// What the leaders of these jobs tell their members.
pub const SECRET: [u8; 16] = [7; 16];

static NEXT: AtomicU64 = AtomicU64::new(0x7ea_0001);

impl Team {
    /// `still`: ranks whose processes do nothing, as if they were stopped.
    pub fn new(size: u32, name: &str, still: &[u32]) -> Team {
        let incarnation = NEXT.fetch_add(1, Ordering::Relaxed);
        let nodes: Vec<_> = (0..size)
            .map(|rank| {
                let config = node::Config { background: !still.contains(&rank), ..config() };
                let node = Arc::new(Node::start(config).unwrap());
                node.add_group(Group { incarnation, cookie: [9; 16], rank, size });
                node
            })
            .collect();
        base::ident::name_job(incarnation, name);
        nodes[0].lead(incarnation, name, nodes.iter().map(|node| node.contact()).collect(), SECRET);
        nodes[1..].iter().for_each(|node| node.follow(incarnation, SECRET));
        Team { nodes, incarnation }
    }

    pub fn leader(&self) -> Contact {
        self.nodes[0].contact()
    }
}

pub fn request(name: &str, id: u8, command: Command) -> Request {
    let to = Addressee::Named(name.into());
    Request { id: [id; 16], serial: 0, limit: 4000, to, command, members: Vec::new() }
}

/// A connection of an operator.
pub fn connect(at: &Contact) -> Result<ControlStream, Unheard> {
    connect_as(at, 200)
}

/// The same, of the operator of this number.
pub fn connect_as(at: &Contact, operator: u8) -> Result<ControlStream, Unheard> {
    let mut dial = command(at, host(), &member(operator));
    let end = Instant::now() + LONG;
    loop {
        match dial.step() {
            Heard::Proved(stream) => return Ok(stream),
            Heard::Unheard(why) => return Err(why),
            Heard::NotYet => assert!(Instant::now() < end, "the handshake ends"),
        }
        dial.awaited().into_iter().for_each(|dialled| sleep(&mut [dialled], SLICE));
    }
}

/// Gives a command, and waits for the answer.
pub fn give(at: &Contact, request: &Request) -> Answer {
    give_as(200, at, request)
}

/// The same, of the operator of this number.
pub fn give_as(operator: u8, at: &Contact, request: &Request) -> Answer {
    let mut stream = connect_as(at, operator).unwrap();
    stream.say(&request.encode());
    hear(&mut stream)
}

pub fn hear(stream: &mut ControlStream) -> Answer {
    hear_within(stream, LONG).expect("an answer comes")
}

/// The answer, if one comes in this time, and the connection is not closed instead.
pub fn hear_within(stream: &mut ControlStream, limit: Duration) -> Option<Answer> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if stream.flush().ok()?
            && let Some(body) = stream.hear(MAX_ANSWER).ok()?
        {
            return Answer::decode(&body).ok();
        }
        sleep(&mut [stream.awaited()], SLICE);
    }
    None
}
