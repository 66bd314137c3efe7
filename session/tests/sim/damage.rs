//! Snapshots that are damaged, and such as no library has written.

use crate::world::{Fault, World};
use session::SnapshotError;
use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use transports::sim::Rng;

/// The version, and the checksum of what follows.
const HEAD: usize = 5;

#[test]
fn damage_is_found_before_anything_is_read() {
    for seed in 0..20 {
        let (at, bytes) = World::new(seed, Fault::None).frozen();
        let mut world = World::new(seed, Fault::None);
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let right = if bit < 8 { SnapshotError::Version(damaged[0]) } else { SnapshotError::Damaged };
            assert_eq!(world.go_on(at, &damaged), Err(right), "seed {seed}, bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(world.go_on(at, &bytes[..len]), Err(SnapshotError::Damaged), "seed {seed}, length {len}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(world.go_on(at, &longer), Err(SnapshotError::Damaged), "seed {seed}");
        assert_eq!(world.go_on(at, &bytes), Ok(()), "seed {seed}");
    }
}

/// Counts the bytes that a thread takes.
struct Counting;

thread_local! {
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does all the work. The count is a plain number of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no count any more.
        let _ = TAKEN.try_with(|taken| taken.set(taken.get() + layout.size()));
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

/// What reading may take beside what it reads: a table is made for as many entries as are said to follow, up to 1 MiB.
const ROOM: usize = 16 << 20;
/// The most memory for one byte: an empty entry of a table.
const SPREAD: usize = 400;

thread_local! {
    /// Set while panics are collected: where the last one was.
    static WHERE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs it, and says where it has panicked, if that was not in the simulator: its programs need not bear nonsense.
fn panics(run: impl FnOnce()) -> Option<String> {
    WHERE.set(Some(String::new()));
    let ended = catch_unwind(AssertUnwindSafe(run)).is_err();
    let place = WHERE.take().unwrap_or_default();
    (ended && !place.is_empty()).then_some(place)
}

fn collect_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if WHERE.with_borrow(Option::is_none) {
            return before(info);
        }
        let place = info.location().map_or("", |l| l.file());
        // It may open an inter-communicator that the nonsense calls closed.
        let reopens = info.to_string().contains("!shared.closed.contains(context)");
        // What the library of the language finds wrong may be the simulator's own memory.
        let simulator = reopens
            || place.contains("/tests/") && !place.ends_with("damage.rs")
            || place.ends_with("memory.rs")
            || place.starts_with("/rustc/") && Backtrace::force_capture().to_string().contains("VecMemory");
        WHERE.set(Some(if simulator { String::new() } else { info.to_string() }));
    }));
}

/// With the right checksum, nonsense is refused or is a session that goes on without a panic.
#[test]
fn nonsense_with_a_checksum_makes_no_panic() {
    collect_panics();
    let seeds = std::env::var("MPI_CONNECT_SIM_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1500);
    let (mut refused, mut read) = (0, 0);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed ^ 0xda3a);
        let (_, bytes) = World::new(seed, Fault::None).frozen();
        for _ in 0..20 {
            let mut bytes = bytes.clone();
            for _ in 0..1 + rng.below(2) {
                let i = HEAD + rng.below((bytes.len() - HEAD) as u64) as usize;
                bytes[i] = match rng.below(4) {
                    0 => rng.below(256) as u8,
                    1 => rng.below(2) as u8,
                    _ => bytes[i] ^ 1 << rng.below(8),
                };
            }
            if rng.percent(5) {
                // The greatest number there is, for a length perhaps.
                let i = HEAD + rng.below((bytes.len() - HEAD) as u64) as usize;
                bytes.splice(i..i + 1, [0xff, 0xff, 0xff, 0xff, 0x0f]);
            }
            let sum = crc32fast::hash(&bytes[HEAD..]);
            bytes[1..HEAD].copy_from_slice(&sum.to_le_bytes());
            let mut thawed = Ok(());
            let fault = panics(|| {
                let mut world = World::new(seed, Fault::None);
                let (at, _) = world.frozen();
                let before = TAKEN.get();
                thawed = world.go_on(at, &bytes);
                let taken = TAKEN.get() - before;
                assert!(taken < ROOM + SPREAD * bytes.len(), "{taken} bytes for {}, seed {seed}", bytes.len());
                if thawed.is_ok() {
                    world.steps(1500);
                }
            });
            assert_eq!(fault, None, "seed {seed}");
            if thawed.is_ok() { read += 1 } else { refused += 1 }
        }
    }
    println!("{refused} refused, {read} read");
    assert!(refused > seeds && read > seeds);
}
