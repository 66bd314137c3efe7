//! Many processes claim one name at two servers, while servers and holders are killed. The name never has two holders at a time.

use crate::kit::{LIMIT, Process, Remote, open, record, say, url_of, wait_until};
use base::ident::random;
use naming::ClaimError;
use nix::time::{ClockId, clock_gettime};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_secs(1);
/// After this time, a client that has found a server dead asks it again.
const AGAIN: Duration = Duration::from_millis(700);
const NAME: &str = "the one";

fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into()
}

fn random_below(micros: u64) -> Duration {
    Duration::from_micros(u64::from_le_bytes(random()) % micros)
}

/// Claims again and again, and writes when.
pub fn claimer(url: &str) {
    let store = open(url);
    loop {
        let begun = now();
        match store.claim(&record(NAME)) {
            Ok(claim) => {
                say(&format!("from {}", now().as_nanos()));
                sleep(random_below(20_000));
                say(&format!("to {}", now().as_nanos()));
                drop(claim);
            }
            Err(ClaimError::Held { .. }) => sleep(random_below(5_000)),
            Err(e) => say(&format!("error {e}")),
        }
        say(&format!("tried {}", begun.as_nanos()));
    }
}

/// A process that claims, and what it has written.
struct Claimer {
    process: Process,
    /// The times when it had the name. A process that was killed had it until then.
    held: Vec<(u128, u128)>,
    /// The begin of the last attempt that has ended.
    tried: u128,
}

impl Claimer {
    fn start(url: &str) -> Claimer {
        Claimer { process: Process::start("claimer", &[url]), held: Vec::new(), tried: 0 }
    }

    fn listen(&mut self) {
        let heard = self.process.heard();
        self.take(heard);
    }

    fn take(&mut self, lines: Vec<String>) {
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap();
            let time = || rest.parse().unwrap();
            match word {
                "from" => self.held.push((time(), u128::MAX)),
                "to" => self.held.last_mut().unwrap().1 = time(),
                "tried" => self.tried = time(),
                _ => panic!("{line}"),
            }
        }
    }

    fn kill(mut self) -> Vec<(u128, u128)> {
        let alive = now().as_nanos();
        let rest = self.process.last_words();
        self.take(rest);
        self.held.iter().map(|(from, to)| (*from, *to.min(&alive))).filter(|(from, to)| from < to).collect()
    }
}

/// Waits until every process has begun and ended an attempt after `since`.
fn all_have_tried(claimers: &mut [Claimer], since: Duration) {
    wait_until("everybody has tried", || {
        claimers.iter_mut().for_each(Claimer::listen);
        claimers.iter().all(|c| c.tried > since.as_nanos())
    });
}

#[test]
fn the_name_has_one_holder_at_a_time() {
    let mut servers = [Remote::start(LEASE), Remote::start(LEASE)];
    let url = url_of(&[&servers[0], &servers[1]]);
    let mut claimers: Vec<_> = (0..4).map(|_| Claimer::start(&url)).collect();
    let mut held = Vec::new();
    let begun = Instant::now();
    for round in 0..4 {
        all_have_tried(&mut claimers, now());
        servers[round % 2].kill();
        all_have_tried(&mut claimers, now());
        held.extend(claimers.remove(0).kill());
        claimers.push(Claimer::start(&url));
        all_have_tried(&mut claimers, now());
        servers[round % 2].restart();
        all_have_tried(&mut claimers, now() + AGAIN);
        assert!(begun.elapsed() < 4 * LIMIT);
    }
    held.extend(claimers.into_iter().flat_map(Claimer::kill));
    held.sort();
    for pair in held.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "two holders: {pair:?}");
    }
    println!("{} claims in {:?}", held.len(), begun.elapsed());
    assert!(held.len() > 100, "the test has to test something: {}", held.len());
    wait_until("the end of the last lease", || open(&url).list().unwrap().is_empty());
}
