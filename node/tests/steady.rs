//! Small messages over TCP take no memory, once what they use is there. Alone in its process: it counts.

mod common;
use common::*;
use node::{InterId, Layout};
use std::alloc::{GlobalAlloc, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static TAKEN: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's own, and a number beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: std::alloc::Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

fn send(job: &Job, inter: InterId, data: &Layout) {
    // Until there is credit for it.
    while !job.node.send_now(inter, 0, 1, data) {
        job.node.look(&mut || false, |_| None::<()>);
    }
}

#[test]
fn small_messages_take_no_memory() {
    over(TCP);
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    for size in [8, 1000, 16 << 10] {
        let data = pattern(size, 1);
        let mut space = vec![0; size];
        let mut back_and_forth = |rounds: u32| {
            let before = TAKEN.load(Ordering::Relaxed);
            for _ in 0..rounds {
                let recv = b.recv(to_a, 1, &mut space);
                send(&a, to_b, &view(&data));
                assert_eq!(b.wait(recv), got(size, 1));
                let recv = a.recv(to_b, 1, &mut space);
                send(&b, to_a, &view(&data));
                assert_eq!(a.wait(recv), got(size, 1));
            }
            TAKEN.load(Ordering::Relaxed) - before
        };
        back_and_forth(2000);
        let taken = back_and_forth(2000);
        println!("{size} bytes: {taken} allocations for 4000 messages");
        // Credit now and then, not something for each.
        assert!(taken < 1000, "{size} bytes: {taken}");
        // One way, so that acknowledgements come by themselves.
        let mut one_way = |rounds: u32| {
            let before = TAKEN.load(Ordering::Relaxed);
            for _ in 0..rounds {
                let recv = b.recv(to_a, 1, &mut space);
                send(&a, to_b, &view(&data));
                assert_eq!(b.wait(recv), got(size, 1));
                a.node.look(&mut || false, |_| None::<()>);
            }
            TAKEN.load(Ordering::Relaxed) - before
        };
        one_way(2000);
        let taken = one_way(2000);
        println!("{size} bytes one way: {taken} allocations for 2000 messages");
        assert!(taken < 500, "{size} bytes one way: {taken}");
        assert!(space == data);
    }
}
