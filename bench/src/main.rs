//! `make bench`: the library beside every MPI within one job, Open MPI over TCP, PVM, and what the machine gives, in
//! turns. Prints tables, writes `target/bench/` and, when asked to, docs/performance.md or docs/performance-busy.md.

mod calls;
mod choice;
mod claims;
mod contestant;
mod imb;
mod machine;
mod picture;
mod report;
mod results;
mod settings;
mod setup;
mod several;
mod sizes;
mod table;

use c_tests::{Scene, target};
use contestant::Contestant;
use results::Results;
use settings::Settings;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    match Settings::read().and_then(|settings| bench(&settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn bench(settings: &Settings) -> Result<(), String> {
    let started = Instant::now();
    let machine = machine::Machine::look(settings.busy);
    println!("{machine}");
    let _busy = settings.busy.then(machine::Busy::begin).transpose()?;
    let mut results = Results::default();
    let scene = Scene::new("bench");
    let pair = choice::pair(&scene, settings, &mut results)?;
    println!("the library joins {} with {}", pair[0].name, pair[1].name);
    let mut who = Contestants::of(settings, pair);
    who.build(&mut results);

    let transfers = settings.of(&["pingpong", "rate", "vector", "struct"]);
    let turns = |results: &mut Results, all: Vec<&Contestant>, rows: &[&str], rounds| {
        if !rows.is_empty() {
            take_turns(&scene, settings, results, &all, rows, rounds);
        }
    };
    turns(&mut results, who.beside_each_other(settings), &transfers, settings.rounds(settings::TRANSFERS, 2));
    if settings.has("pingpong") {
        turns(&mut results, who.without_mpi(), &["pingpong"], settings.rounds(settings::TRANSFERS, 2));
    }
    turns(&mut results, who.at_all_sizes(), &settings.of(&[sizes::ROW]), settings.rounds(sizes::ROUNDS, 1));
    turns(&mut results, who.with_mpi(true), &settings.of(&["overlap"]), settings.rounds(settings::OTHERS, 1));
    turns(&mut results, who.with_mpi(false), &settings.of(&["matching"]), settings.rounds(settings::OTHERS, 1));

    if settings.has("several") {
        several::run(&scene, settings, &mut results, &who.with_mpi(false));
    }
    if settings.has("setup") {
        setup::run(&scene, settings, &mut results, &who.joined());
    }
    if settings.has("imb") {
        imb::run(&scene, settings, &mut results);
    }
    let calls = if settings.has("calls") {
        calls::run(settings, pair).map_err(|e| results.fail("native calls", &e)).ok()
    } else {
        None
    };

    let report = report::Report { settings, machine: &machine, pair, who: &who.all, results: &results, calls, started };
    report.print();
    report.write(&target().join("bench"))
}

/// Everybody, in the order in which a round takes them: what is compared stands close together.
struct Contestants {
    all: Vec<Contestant>,
}

impl Contestants {
    fn of(settings: &Settings, pair: [&'static c_tests::Mpi; 2]) -> Contestants {
        let mut all = vec![Contestant::ours(contestant::SHM, pair, "shm")];
        let half = settings.mpis.len() / 2;
        all.extend(settings.mpis[..half].iter().map(|mpi| Contestant::native(mpi)));
        all.push(Contestant::ours(contestant::TCP, pair, "tcp"));
        all.extend(settings.mpis.iter().filter_map(|mpi| Contestant::native_tcp(mpi)));
        all.push(Contestant::ours(contestant::SHM_AGAIN, pair, "shm"));
        all.extend(settings.mpis[half..].iter().map(|mpi| Contestant::native(mpi)));
        all.push(Contestant::ours(contestant::TCP_AGAIN, pair, "tcp"));
        all.push(Contestant::encrypted(contestant::ENCRYPTED, pair));
        all.push(Contestant::tls());
        all.push(Contestant::encrypted(contestant::ENCRYPTED_AGAIN, pair));
        all.extend(Contestant::limits());
        all.push(Contestant::pvm());
        Contestants { all }
    }

    /// Who cannot be compiled takes no part, and it is said why.
    fn build(&mut self, results: &mut Results) {
        self.all.retain(|c| match c.build() {
            Ok(()) => true,
            Err(e) => {
                eprintln!("{}: {e}", c.name);
                results.fail(&c.name, e.lines().next_back().unwrap_or(&e));
                false
            }
        });
    }

    /// In the rounds of transfers: also rustls, if the one row that it knows is wanted.
    fn beside_each_other(&self, settings: &Settings) -> Vec<&Contestant> {
        self.all.iter().filter(|c| c.has_mpi() || c.is_tls() && settings.has("pingpong")).collect()
    }

    fn with_mpi(&self, tcp: bool) -> Vec<&Contestant> {
        self.all.iter().filter(|c| c.has_mpi() && (tcp || !c.name.contains("TCP"))).collect()
    }

    fn at_all_sizes(&self) -> Vec<&Contestant> {
        self.all.iter().filter(|c| sizes::is_in(c)).collect()
    }

    /// The library by each of its transports.
    fn joined(&self) -> Vec<&Contestant> {
        let transports = [contestant::SHM, contestant::TCP, contestant::ENCRYPTED];
        self.all.iter().filter(|c| transports.contains(&c.name.as_str())).collect()
    }

    fn without_mpi(&self) -> Vec<&Contestant> {
        self.all.iter().filter(|c| !c.has_mpi() && !c.is_tls()).collect()
    }
}

/// Rounds over all of them; each round begins with another one.
fn take_turns(
    scene: &Scene,
    settings: &Settings,
    results: &mut Results,
    all: &[&Contestant],
    rows: &[&str],
    rounds: usize,
) {
    let mut failed = vec![false; all.len()];
    for round in 0..rounds {
        for k in 0..all.len() {
            let at = (k + round * all.len() / rounds) % all.len();
            if failed[at] {
                continue;
            }
            let (contestant, began) = (all[at], Instant::now());
            let said = match contestant.run(scene, rows, settings.effort()) {
                Ok(lines) => {
                    let first = lines.iter().find(|l| l.size == 8).or(lines.first()).expect("not empty");
                    let said =
                        format!("{} {}: {:.3} {}", first.row, first.size, results::median(&first.samples), first.unit);
                    results.add(&contestant.name, lines);
                    said
                }
                Err(e) => {
                    // Not again: it may last as long as it is allowed to.
                    failed[at] = true;
                    results.fail(&format!("{} ({})", contestant.name, rows.join(", ")), &e);
                    format!("FAILED: {e}")
                }
            };
            println!(
                "{} {}/{rounds} {:<18} {:5.1} s  {said}",
                rows.join(","),
                round + 1,
                contestant.name,
                began.elapsed().as_secs_f64()
            );
        }
    }
}
