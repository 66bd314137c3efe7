//! Small messages allocate no memory once the tables have reached their size.

use base::memory::OneBuffer;
use engine::{Config, ContextId, Ctx, EagerHead, Engine, Mode, OpId, PeerId, Source, Tag};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does all the work. The count is a plain number of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no count any more.
        let _ = TAKEN.try_with(|taken| taken.set(taken.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const SIZE: usize = 8;

struct Side {
    engine: Engine,
    peer: PeerId,
    ctx: Ctx,
}

fn side() -> Side {
    // Credit is never used up, so no CREDIT is sent.
    let mut engine = Engine::new(Config { envelopes: 1 << 40, eager_bytes: 1 << 50, ..Config::default() });
    let peer = engine.add_peer(1);
    let ctx = engine.open(ContextId::root(1), 0, vec![peer]);
    Side { engine, peer, ctx }
}

fn send(a: &mut Side, tag: i64) -> [u8; EagerHead::BYTES + SIZE] {
    let (_, head) = a.engine.start_eager(a.ctx, 0, tag, SIZE as u64, Mode::Standard).expect("there is room");
    let mut body = [0; EagerHead::BYTES + SIZE];
    body[..EagerHead::BYTES].copy_from_slice(&head.bytes());
    body[EagerHead::BYTES..].copy_from_slice(&tag.to_le_bytes());
    body
}

fn post(b: &mut Side, mem: &mut OneBuffer<SIZE>, source: Source, tag: Tag) -> OpId {
    let op = b.engine.next_op();
    b.engine.recv(mem, op, b.ctx, source, tag, SIZE as u64);
    op
}

/// `waiting` receives or messages wait at a time. Some of the receives have wildcards.
fn round(a: &mut Side, b: &mut Side, waiting: i64, posted: bool) {
    let mut mem = OneBuffer([0; SIZE]);
    let mut ops = [OpId(0); 1000];
    let ops = &mut ops[..waiting as usize];
    for post_now in [posted, !posted] {
        for (tag, op) in (0..waiting).zip(&mut *ops) {
            if !post_now {
                let body = send(a, tag);
                b.engine.on_message(&mut mem, b.peer, &body).expect("well formed");
                continue;
            }
            let source = if tag % 3 == 0 { Source::Any } else { Source::Rank(0) };
            *op = post(b, &mut mem, source, if tag % 5 == 0 { Tag::Any } else { Tag::Is(tag) });
        }
    }
    // Receives with wildcards may have matched messages that others wait for.
    for op in ops {
        b.engine.cancel_recv(*op);
        assert!(b.engine.finish(*op).is_some());
    }
    while let Some(claim) = b.engine.claim(b.ctx, Source::Any, Tag::Any) {
        let op = b.engine.next_op();
        b.engine.recv_claimed(&mut mem, op, claim, SIZE as u64);
        assert!(b.engine.finish(op).is_some());
    }
}

#[test]
fn small_messages_take_no_memory() {
    for waiting in [1, 8, 9, 1000] {
        for posted in [true, false] {
            let (mut a, mut b) = (side(), side());
            for _ in 0..3 {
                round(&mut a, &mut b, waiting, posted);
            }
            let before = TAKEN.get();
            assert!(before > 0);
            for _ in 0..10 {
                round(&mut a, &mut b, waiting, posted);
            }
            assert_eq!(TAKEN.get() - before, 0, "{waiting} wait, receives: {posted}");
        }
    }
}
