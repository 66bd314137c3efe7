//! Small messages between two engines, one by one, each into a posted receive. It is for counting instructions, for
//! example with `valgrind --tool=callgrind`. Each step is a function.

use base::memory::OneBuffer;
use engine::{Config, ContextId, Ctx, EagerHead, Engine, Mode, OpId, Output, PeerId, Source, Tag};

const SIZE: usize = 8;
const BODY: usize = EagerHead::BYTES + SIZE;

struct Side {
    engine: Engine,
    mem: OneBuffer<SIZE>,
    peer: PeerId,
    ctx: Ctx,
}

impl Side {
    fn new() -> Side {
        let mut engine = Engine::new(Config::default());
        let peer = engine.add_peer(1);
        let ctx = engine.open(ContextId::root(1), 0, vec![peer]);
        Side { engine, mem: OneBuffer([7; SIZE]), peer, ctx }
    }
}

#[inline(never)]
fn step_send_directly(side: &mut Side, tag: i64) -> [u8; BODY] {
    let head = side.engine.start_eager(side.ctx, 0, tag, SIZE as u64, Mode::Standard);
    let (_, head) = head.expect("there is room");
    let mut body = [0; BODY];
    body[..EagerHead::BYTES].copy_from_slice(&head.bytes());
    body[EagerHead::BYTES..].copy_from_slice(&side.mem.0);
    body
}

#[inline(never)]
fn step_send(side: &mut Side, tag: i64) -> Vec<u8> {
    let op = side.engine.next_op();
    side.engine.send(&side.mem, op, side.ctx, 0, tag, SIZE as u64, Mode::Standard);
    let Some(Output::Message { bytes, .. }) = side.engine.next_output() else { panic!("it leaves at once") };
    assert!(side.engine.finish(op).is_some());
    bytes
}

#[inline(never)]
fn step_post(side: &mut Side, tag: i64) -> OpId {
    let op = side.engine.next_op();
    side.engine.recv(&mut side.mem, op, side.ctx, Source::Rank(0), Tag::Is(tag), SIZE as u64);
    op
}

#[inline(never)]
fn step_message(side: &mut Side, body: &[u8]) {
    side.engine.on_message(&mut side.mem, side.peer, body).expect("well formed");
}

#[inline(never)]
fn step_finish(side: &mut Side, op: OpId) {
    assert!(side.engine.finish(op).is_some());
}

/// Messages of the receiver, which give credit back.
#[inline(never)]
fn step_answer(a: &mut Side, b: &mut Side) {
    while let Some(Output::Message { bytes, .. } | Output::Credit { bytes, .. }) = b.engine.next_output() {
        a.engine.on_message(&mut a.mem, a.peer, &bytes).expect("well formed");
    }
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let (mut a, mut b) = (Side::new(), Side::new());
    for i in 0..rounds {
        let op = step_post(&mut b, i % 3);
        if i % 2 == 0 {
            let body = step_send_directly(&mut a, i % 3);
            step_message(&mut b, &body);
        } else {
            let body = step_send(&mut a, i % 3);
            step_message(&mut b, &body);
        }
        step_finish(&mut b, op);
        step_answer(&mut a, &mut b);
    }
    println!("{rounds} messages of {SIZE} bytes, every other one sent directly");
}
