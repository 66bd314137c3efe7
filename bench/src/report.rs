//! Shows the results: on the screen, as JSON, pictures and a page of the documentation.

use crate::claims::{self, Claim};
use crate::contestant::{Contestant, ENCRYPTED, SHM, TCP, TLS};
use crate::machine::Machine;
use crate::results::{Distance, Results};
use crate::settings::{OTHERS, Settings, TRANSFERS};
use crate::table::{Table, bytes, number, or_not};
use crate::{calls::Calls, choice, imb, picture, several, sizes};
use c_tests::{Mpi, root};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

pub struct Report<'a> {
    pub settings: &'a Settings,
    pub machine: &'a Machine,
    pub pair: [&'static Mpi; 2],
    pub who: &'a [Contestant],
    pub results: &'a Results,
    pub calls: Option<Calls>,
    pub started: Instant,
}

const SIZES: [u64; 10] = [0, 8, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20];

/// Shorter messages have no bandwidth to speak of.
const LEAST_SPEED: u64 = 1 << 10;

impl Report<'_> {
    fn names(&self, row: &str) -> Vec<&str> {
        self.who.iter().map(|c| c.name.as_str()).filter(|name| self.results.has(row, name)).collect()
    }

    fn value(&self, row: &str, size: u64, who: &str) -> Option<f64> {
        self.results.get(row, size, who).map(|f| f.median)
    }

    /// A table of the ping-pong by size, from a least one. The last column is how far launches lie apart, at the median of
    /// all sizes.
    fn by_size(&self, title: &str, least: u64, cell: impl Fn(u64, f64, &str) -> Option<String>) -> Table {
        let measured = self.results.sizes("pingpong");
        let sizes: Vec<u64> = SIZES.into_iter().filter(|s| *s >= least && measured.contains(s)).collect();
        let mut table = Table::new(title, &[""]);
        table.rows[0].extend(sizes.iter().map(|s| bytes(*s)));
        table.rows[0].push("spread".into());
        for name in self.names("pingpong") {
            let one = |size: &u64| {
                self.value("pingpong", *size, name).and_then(|v| cell(*size, v, name)).unwrap_or("-".into())
            };
            let spreads: Vec<f64> =
                measured.iter().filter_map(|s| self.results.get("pingpong", *s, name)).map(|f| f.spread()).collect();
            let mut row = vec![name.to_owned()];
            row.extend(sizes.iter().map(one));
            row.push(format!("{:.0} %", 100.0 * crate::results::median(&spreads)));
            table.rows.push(row);
        }
        if !self.results.lines().is_empty() {
            let at = |size: &u64| self.results.distance("pingpong", *size).map_or("-", Distance::word).to_owned();
            let cells = sizes.iter().map(at);
            table.rows.push([vec!["(the cores are)".into()], cells.collect(), vec![String::new()]].concat());
        }
        table
    }

    /// Rows of one size each, one column a contestant and its spread.
    fn by_row(&self, title: &str, rows: &[&str]) -> Table {
        let rows: Vec<&str> = rows.iter().copied().filter(|r| self.results.rows().contains(r)).collect();
        let mut table = Table::new(title, &[""]);
        for row in &rows {
            table.rows[0].extend([format!("{row}, {}", self.results.unit(row)), "spread".into(), "best".into()]);
        }
        for c in self.who {
            let mut cells = vec![c.name.clone()];
            for row in &rows {
                let figure = self.results.sizes(row).first().and_then(|size| self.results.get(row, *size, &c.name));
                match figure {
                    Some(f) => cells.extend([number(f.median), format!("{:.0} %", 100.0 * f.spread()), number(f.best)]),
                    None => cells.extend(["-", "-", "-"].map(String::from)),
                }
            }
            if cells[1..].iter().any(|cell| cell != "-") {
                table.rows.push(cells);
            }
        }
        table
    }

    /// All rows of this beginning, one column a contestant.
    fn by_contestant(&self, title: &str, beginning: &str) -> Table {
        let rows: Vec<&str> = self.results.rows().into_iter().filter(|r| r.starts_with(beginning)).collect();
        let names: Vec<&str> =
            self.who.iter().map(|c| c.name.as_str()).filter(|n| rows.iter().any(|r| self.results.has(r, n))).collect();
        let mut table = Table::new(title, &[""]);
        table.rows[0].extend(names.iter().map(|n| n.to_string()));
        for row in rows {
            let short = row.trim_start_matches(beginning).trim_start_matches([':', ' ']);
            for size in self.results.sizes(row) {
                let many = self.results.sizes(row).len() > 1;
                let mut cells = vec![if many { format!("{short}, {size}") } else { short.to_owned() }];
                let cell = |n: &&str| or_not(self.value(row, size, n));
                cells.extend(names.iter().map(cell));
                table.rows.push(cells);
            }
        }
        table
    }

    /// Theirs against ours, of the same kind of transport.
    fn ratios(&self) -> Table {
        let against = |size, theirs: f64, name: &str| {
            let encrypted = name.contains("encrypted") || name == TLS;
            let over_tcp = name.contains("TCP") || ["polling", "blocking", "pvm"].contains(&name);
            let ours = if encrypted {
                ENCRYPTED
            } else if over_tcp {
                TCP
            } else {
                SHM
            };
            self.value("pingpong", size, ours).map(|ours| number(theirs / ours))
        };
        self.by_size("Half round trips: theirs against ours (sockets, PVM and TCP against ours over TCP, rustls against ours encrypted)", 0, against)
    }

    fn tables(&self) -> Vec<Table> {
        let speed = |size, us: f64, _: &str| Some(number(size as f64 / us / 1000.0));
        let all = [
            claims::by_distance(self.results, self.who),
            self.by_size("Half round trip, µs", 0, |_, us, _| Some(number(us))),
            self.by_size("Bandwidth of that, GB/s", LEAST_SPEED, speed),
            self.ratios(),
            sizes::table(self.results, self.who),
            self.by_row(
                "Message rate (8 B, window of 64) and half round trips of 1 MiB of data with gaps",
                &["rate", "vector", "struct"],
            ),
            self.by_contestant("Matching: ns a message, by how many stand or wait", "matching"),
            self.by_contestant("Overlap: 8 MiB beside 50 ms of work, µs", "overlap"),
            self.by_contestant("Several at once, by ranks a side (all ranks of a side on one core): 8 B by windows of 64 (M/s), 64 KiB by windows of 4 (GB/s), two threads a rank (M/s); the slowest stream's part of a fair share", "several"),
            self.by_contestant("Joining two jobs, by ranks a side (32 and 32 on a few cores: far too many)", "setup"),
            self.imb(),
            self.choices(),
        ];
        all.into_iter().filter(|t| !t.is_empty()).collect()
    }

    fn choices(&self) -> Table {
        let mut table = Table::new(
            "Half round trip of 8 B by pair, µs (the best of a few, whether the cores were near or far)",
            &["", "µs"],
        );
        let rows = self.results.json();
        let row = rows.as_array().into_iter().flatten().find(|r| r["row"] == choice::ROW);
        let contestants = row.and_then(|r| r["contestants"].as_object());
        let mut all: Vec<_> =
            contestants.into_iter().flatten().filter_map(|(n, f)| Some((f["best"].as_f64()?, n))).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        table.rows.extend(all.into_iter().map(|(us, name)| vec![name.clone(), number(us)]));
        table
    }

    fn imb(&self) -> Table {
        let title =
            "IMB-MPI1 under Intel MPI, 2 ranks of one job: times against those without the library, mean of all sizes";
        let mut table = Table::new(title, &["", "with the library", "without it, again", "chance: up to"]);
        table.rows.extend(imb::comparisons(self.results).into_iter().map(|c| {
            let cells = [c.with, c.again, c.chance].map(|v| format!("{v:.3}"));
            [&[c.operation.to_owned()], &cells[..]].concat()
        }));
        table
    }

    fn claims(&self) -> Vec<Claim> {
        let mut all = claims::claims(self.results, self.who, self.calls.as_ref());
        // Of a run that was to measure some rows, the others are not missing.
        all.retain(|c| self.settings.is_whole() && !self.settings.quick || c.ratio.is_some());
        all
    }

    /// How far apart the cores were in this run, if that has changed.
    fn lines(&self) -> String {
        let said = self.results.lines().into_iter().map(|(at, ns)| format!("{ns:.0} ns while {}", at.word()));
        let said: Vec<_> = said.collect();
        if said.is_empty() { String::new() } else { format!("; a cache line from core to core: {}", said.join(", ")) }
    }

    fn failures(&self) -> Vec<String> {
        let elsewhere = self.results.elsewhere();
        self.results.failures.iter().cloned().chain(elsewhere).collect()
    }

    pub fn print(&self) {
        for table in self.tables() {
            println!("\n{}", table.screen());
        }
        if let Some(calls) = &self.calls {
            println!("\n{}\n{}", calls.text, calls.messages);
        }
        let claims = claims::table(&self.claims());
        if !claims.is_empty() {
            println!("\n{}", claims.screen());
        }
        println!("{}{}", self.machine, self.lines());
        for failure in self.failures() {
            println!("NOT MEASURED: {failure}");
        }
    }

    pub fn write(&self, folder: &Path) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let write = |path: &Path, text: &str| {
            println!("{}", path.display());
            std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
        };
        let text = serde_json::to_string_pretty(&self.json()).expect("plain values");
        write(&folder.join("results.json"), &(text + "\n"))?;
        if self.settings.has("pingpong") {
            let points = |name: &str, speed: bool| -> Vec<(f64, f64)> {
                let least = if speed { LEAST_SPEED } else { 1 };
                let sizes = self.results.sizes("pingpong").into_iter().filter(|s| *s >= least);
                let value = |size| Some((size as f64, self.value("pingpong", size, name)?));
                let turn = |(size, us): (f64, f64)| (size, if speed { size / us / 1000.0 } else { us });
                sizes.filter_map(value).map(turn).collect()
            };
            for (name, title, speed) in
                [("latency", "Half round trip, µs", false), ("bandwidth", "Bandwidth of a ping-pong, GB/s", true)]
            {
                let shown = |n: &&str| !n.contains("again") && (speed || *n != "memcpy");
                let names = self.names("pingpong").into_iter().filter(shown);
                let lines: Vec<_> = names.map(|n| (n.to_owned(), points(n, speed))).collect();
                let picture = picture::draw(title, &lines, bytes);
                write(&folder.join(format!("{name}.svg")), &picture)?;
                if self.settings.record && !self.settings.busy {
                    write(&root().join(format!("docs/{name}.svg")), &picture)?;
                }
            }
        }
        let page = self.page();
        write(&folder.join("performance.md"), &page)?;
        if self.settings.record {
            let name = if self.settings.busy { "performance-busy" } else { "performance" };
            write(&root().join(format!("docs/{name}.md")), &page)?;
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let claim = |c: &Claim| json!({"what": c.what, "against": c.with, "ratio": c.ratio, "reached": c.holds(), "again": c.chance});
        json!({
            "machine": {"processor": self.machine.processor, "cores": self.machine.cores,
                        "kernel": self.machine.kernel, "date": self.machine.date, "load": self.machine.load},
            "quick": self.settings.quick,
            "pair": self.pair.map(|mpi| mpi.name),
            "seconds": self.started.elapsed().as_secs(),
            "contestants": self.who.iter().map(|c| json!({"name": c.name, "what": c.what})).collect::<Vec<_>>(),
            "claims": self.claims().iter().map(claim).collect::<Vec<_>>(),
            "failures": self.failures(),
            "values": self.results.json(),
        })
    }

    /// What is committed as docs/performance.md or docs/performance-busy.md.
    fn page(&self) -> String {
        let launches = [
            (TRANSFERS, "of transfers"),
            (sizes::ROUNDS, "of all sizes"),
            (several::ROUNDS, "of several at once"),
            (OTHERS, "of the rest"),
        ];
        let launches = launches.map(|(rounds, of)| format!("{} {of}", self.settings.rounds(rounds, rounds)));
        let mut text =
            if self.settings.busy { BUSY_PREFACE } else { PREFACE }.replace("LAUNCHES", &launches.join(", "));
        text += &format!(
            "\nMeasured on: {}{}, in {} minutes. The library joins {} with {}.\n\n",
            self.machine,
            self.lines(),
            self.started.elapsed().as_secs().div_ceil(60),
            self.pair[0].name,
            self.pair[1].name
        );
        text += &format!("## {}", claims::table(&self.claims()).markdown());
        for table in self.tables() {
            text += &format!("\n## {}", table.markdown());
        }
        if let Some(calls) = &self.calls {
            text += &format!("\n## What the library adds to native calls\n\n```text\n{}```\n", calls.text);
            text += &format!("\n## What a message takes\n\n```text\n{}```\n", calls.messages);
        }
        text += "\n## Who is who\n\n| | |\n|---|---|\n";
        for c in self.who {
            text += &format!("| {} | {} |\n", c.name, c.what);
        }
        let failures = self.failures();
        if !failures.is_empty() {
            text += "\n## Not measured\n\n";
            text.extend(failures.iter().map(|f| format!("- {}\n", f.replace('\n', " "))));
        }
        text
    }
}

const BUSY_PREFACE: &str = "# How fast it is beside another program

Written by `make bench BUSY=1 RECORD=1`: while all is measured, one more program computes on the core of the second rank, as an analysis or a
compiler would. The kernel gives it the core for some 4 ms at a time, so a sample lasts 15 ms and more: one of 5 ms meets such a slice or meets none, and
the median of three says which. Launches: LAUNCHES. Each MPI waits as it does by itself: one that yields the processor gives it to
that program. The rest is as in [performance.md](performance.md), where also each contestant is explained.
";

const PREFACE: &str = "# How fast it is

Written by the bench itself: `make bench RECORD=1` on a quiet machine writes this page; `make bench` writes its like, all
samples as JSON and pictures by size to `target/bench/`. `make bench QUICK=1` takes some 3 minutes; `ROWS=`, `MPIS=`,
`PAIR=` and `ROUNDS=` choose, and `BUSY=1` measures beside a busy core ([performance-busy.md](performance-busy.md)). `scripts/provision bench` installs what it needs.

![Half a round trip by size, all contestants, both scales logarithmic](latency.svg)

![Bandwidth of a ping-pong by size, all contestants, both scales logarithmic](bandwidth.svg)

How it is measured:

- Two processes, each with all its threads on a core of its own, run the same loops in all cases: two ranks of one job under each MPI, two
  jobs of one rank under the library, two bare processes. Memory is touched before, and used again and again, as in other benchmarks of this kind.
- A sample is the mean of as many rounds as fill some milliseconds; a launch gives the median of its samples; launches of all contestants
  take turns. The tables show the median over the launches: LAUNCHES.
- The library joins the two MPIs that PAIR= says, or of those of today (all but LAM) the pair with which 8 bytes take the least time beyond a cache line's, in
  a short trial, and of pairs that are alike one whose launchers start all ranks in one session: where the kernel shares a processor out among sessions, a rank
  of MPICH that yields it to the others often keeps it.
- A host may move the cores of a virtual machine while it runs. What a cache line takes from one to the other is measured beside each sample of
  transfers, of several at once and of IMB, and only samples at the same distance are compared, near or far, whichever more contestants met (at the same
  distance, the one with more samples); what was met at both stands in a table by itself.

The columns of the aims:

- `ratio`: the library's median against the best other's, of times or of speeds, as the aim has it. Where the unit is ms or a count, it is that.
- `of the best`: the same of the best single samples, whoever has the best.
- `limit`: against the fastest program without any MPI over the same transport (line, ring, readv; memcpy for data with gaps; sockets; rustls), which does less: it
  knows what comes next, and has one message at a time. No more than this can be gained.
- `again`: the library a second time, as if it were another contestant. What lies within its difference from the first is chance, and an aim that is
  missed or reached by less is marked so.

`spread` is how far the launches lie apart, from the least to the largest, against the median. In the table of all sizes a step says how much more time a byte takes than
in the size before (up to 1 KiB: the whole message), or how much longer the smaller message takes, whichever is more.
";
