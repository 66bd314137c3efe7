//! What one number of ranks costs: joined, exchanged, killed, left.

use crate::world::{Begun, World, handshake_bytes};
use nix::time::{ClockId, clock_gettime};
use session::leaders::contacts;
use std::fs;
use std::time::{Duration, Instant};

/// Each rank exchanges with its partner and with so many others.
const OTHERS: u32 = 8;
/// So many ranks of each job begin at once.
const AT_ONCE: u32 = 4096;
/// One rank of so many is killed, and a leader.
const KILLED: u32 = 1000;

/// One part of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub ranks: u32,
    pub part: String,
    /// Seconds of processor time.
    pub cpu: f64,
    pub messages: u64,
    pub bytes: u64,
    /// Bytes of memory that all ranks take at its end.
    pub memory: u64,
    /// The most lanes of a rank at its end.
    pub lanes: u64,
}

impl Measured {
    pub fn line(&self) -> String {
        let Measured { ranks, part, cpu, messages, bytes, memory, lanes } = self;
        format!("{ranks} {part} {cpu} {messages} {bytes} {memory} {lanes}")
    }

    pub fn read(line: &str) -> Option<Measured> {
        let mut words = line.split_whitespace();
        Some(Measured {
            ranks: words.next()?.parse().ok()?,
            part: words.next()?.to_owned(),
            cpu: words.next()?.parse().ok()?,
            messages: words.next()?.parse().ok()?,
            bytes: words.next()?.parse().ok()?,
            memory: words.next()?.parse().ok()?,
            lanes: words.next()?.parse().ok()?,
        })
    }
}

/// Seconds of processor time of this process.
fn cpu() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(0.0, |time| Duration::from(time).as_secs_f64())
}

/// Bytes of memory that this process has.
fn memory() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// The counters at the beginning of a part.
struct Part {
    cpu: f64,
    messages: u64,
    bytes: u64,
}

struct Run {
    world: World,
    before: u64,
}

impl Run {
    fn counted(&self) -> (u64, u64) {
        let (post, handshakes) = (&self.world.post, self.world.handshakes);
        (post.frames.get() + handshakes, post.bytes.get() + handshake_bytes(handshakes))
    }

    fn begin(&self) -> Part {
        let (messages, bytes) = self.counted();
        Part { cpu: cpu(), messages, bytes }
    }

    fn end(&self, part: &str, before: Part) {
        let (messages, bytes) = self.counted();
        let measured = Measured {
            ranks: self.world.size(),
            part: part.into(),
            cpu: cpu() - before.cpu,
            messages: messages - before.messages,
            bytes: bytes - before.bytes,
            memory: memory().saturating_sub(self.before),
            lanes: (0..self.world.size()).map(|rank| self.world.lanes(rank) as u64).max().unwrap_or(0),
        };
        // At once, since the next part may take more than there is.
        println!("{}", measured.line());
    }

    /// The leaders agree, and all ranks open the inter-communicator.
    fn join(&mut self) -> Result<(), String> {
        let world = &mut self.world;
        let half = world.half;
        (0..2 * half).for_each(|rank| world.register(rank));
        let context = world.agree()?;
        (0..2 * half).for_each(|rank| world.open(rank, context));
        world.settle();
        Ok(())
    }

    /// What the leader tells each rank of its job, by the MPI below, and what a rank does with it.
    fn records(&self) -> Result<(), String> {
        let (ranks, records) = (self.world.size(), self.world.offered(0).bytes());
        let before = cpu();
        contacts(records, ranks / 2).map_err(|_| "damaged records")?;
        let (cpu, bytes) = (cpu() - before, records.len() as u64);
        println!("{}", Measured { ranks, part: "records".into(), cpu, messages: 0, bytes, memory: 0, lanes: 0 }.line());
        Ok(())
    }

    /// All ranks exchange with their partner and others. `meanwhile` happens in the middle of it.
    fn exchange(&mut self, mut meanwhile: impl FnMut(&mut World)) -> Result<u64, String> {
        let world = &mut self.world;
        let half = world.half;
        let mut lost = 0;
        for turn in 0..=OTHERS {
            // An odd factor permutes the ranks; the first is the partner.
            let (factor, shift) =
                if turn == 0 { (1, 0) } else { (0x9e37_79b1u32.wrapping_mul(2 * turn + 1), 7919 * turn) };
            for first in (0..half).step_by(AT_ONCE as usize) {
                let mut begun: Vec<Begun> = Vec::new();
                for rank in first..half.min(first + AT_ONCE) {
                    let other = half + (rank.wrapping_mul(factor).wrapping_add(shift) & (half - 1));
                    world.exchange(rank, other, &mut begun);
                    world.exchange(other, rank, &mut begun);
                }
                if turn == OTHERS / 2 && first == 0 {
                    meanwhile(world);
                }
                world.settle();
                for begun in begun {
                    lost += u64::from(!world.end(&begun)?);
                }
            }
        }
        Ok(lost)
    }
}

/// Runs two jobs of so many ranks together, and prints what each part has cost. `is_short`: they only join.
pub fn measure(ranks: u32, is_short: bool) -> Result<(), String> {
    if !ranks.is_power_of_two() || ranks < 4 {
        return Err("the number of ranks is a power of two, from 4 on".into());
    }
    let before = memory();
    let started = Instant::now();
    let mut run = Run { world: World::new(ranks / 2), before };
    let tell = |what: &str| eprintln!("{ranks} ranks: {what} after {:.1} s", started.elapsed().as_secs_f64());
    let part = run.begin();
    run.join()?;
    run.end("join", part);
    run.records()?;
    tell("joined");
    if is_short {
        return Ok(());
    }
    let part = run.begin();
    if run.exchange(|_| ())? > 0 {
        return Err("an operation has failed, though all live".into());
    }
    run.end("exchange", part);
    tell("exchanged");
    let part = run.begin();
    let mut killed = 0;
    run.exchange(|world| {
        let half = world.half;
        // The leader of the second job, and others of both.
        let victims = std::iter::once(half).chain((1..ranks / KILLED).map(|n| n * KILLED + 7));
        for rank in victims.collect::<Vec<_>>() {
            world.kill(rank);
            killed += 1;
        }
    })?;
    run.end("deaths", part);
    tell(&format!("{killed} killed"));
    let part = run.begin();
    (0..ranks).for_each(|rank| run.world.leave(rank));
    run.world.settle();
    (0..ranks).for_each(|rank| run.world.finish(rank));
    run.world.settle();
    run.end("leave", part);
    tell("left");
    match (0..ranks).map(|rank| run.world.pairs(rank)).sum() {
        0 => Ok(()),
        left => Err(format!("{left} pairs are left, at {:?}", run.world.now())),
    }
}
