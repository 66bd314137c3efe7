//! Half round trips of every power of two, and of an odd size between each and the next: whether the library is the fastest at each, and
//! whether some size takes far longer than the ones beside it. For main, claims and report.

use crate::contestant::{Contestant, SHM, SHM_AGAIN, TCP, TCP_AGAIN};
use crate::results::{Figure, Results};
use crate::table::{Table, bytes, or_not};

/// What bench/c/bench.h calls it.
pub const ROW: &str = "sizes";
/// Launches of each contestant.
pub const ROUNDS: usize = 7;
/// The steepest step that is meant to be.
const STEEPEST: f64 = 1.3;

type Pick = fn(&Figure) -> f64;

const MEDIAN: Pick = |f| f.median;
const BEST: Pick = |f| f.best;

/// Up to this size a message takes about as long whatever its length.
const SHORT: u64 = 1024;

/// Who is measured: the library by each transport, and whom it is compared with.
pub fn is_in(who: &Contestant) -> bool {
    [SHM, SHM_AGAIN, TCP, TCP_AGAIN].contains(&who.name.as_str()) || who.is_native()
}

/// The library over one transport, and those that use the same.
struct Field<'a> {
    results: &'a Results,
    what: &'a str,
    ours: &'a str,
    again: &'a str,
    natives: Vec<&'a str>,
}

/// Of all sizes that which is the worst in some way: how bad, and how bad it may be.
pub struct Worst {
    pub what: String,
    /// Against whom, or where.
    pub with: Option<String>,
    pub ratio: Option<f64>,
    /// The same of the best samples, at the same size.
    pub best: Option<f64>,
    pub most: f64,
    /// The library against itself, measured again, at the same size.
    pub chance: Option<f64>,
}

/// One size: our time in microseconds, and the shortest of the others.
struct Time<'a> {
    size: u64,
    ours: f64,
    best: Option<(f64, &'a str)>,
}

impl<'a> Field<'a> {
    fn all(results: &'a Results, who: &'a [Contestant]) -> [Field<'a>; 2] {
        let natives = |tcp| who.iter().filter(move |c| c.is_native() && c.name.contains("TCP") == tcp);
        [("", SHM, SHM_AGAIN, false), ("TCP: ", TCP, TCP_AGAIN, true)].map(|(what, ours, again, tcp)| Field {
            results,
            what,
            ours,
            again,
            natives: natives(tcp).map(|c| c.name.as_str()).collect(),
        })
    }

    fn times(&self, pick: Pick) -> Vec<Time<'a>> {
        let time = |size, who| self.results.get(ROW, size, who).map(|f| pick(&f));
        let one = |size| {
            let others = self.natives.iter().filter_map(|name| Some((time(size, name)?, *name)));
            Some(Time { size, ours: time(size, self.ours)?, best: others.min_by(|a, b| a.0.total_cmp(&b.0)) })
        };
        self.results.sizes(ROW).into_iter().filter_map(one).collect()
    }

    /// Each size and the step to it; none between sizes of which one was measured while the cores were near and the other while they were far.
    fn steps(&self, times: &[Time]) -> Vec<(u64, f64)> {
        let at = |time: &Time| self.results.distance(ROW, time.size);
        let pairs = times.windows(2).filter(|pair| at(&pair[0]) == at(&pair[1]));
        pairs.map(|pair| (pair[1].size, step((pair[0].size, pair[0].ours), (pair[1].size, pair[1].ours)))).collect()
    }

    fn worst(&self) -> [Worst; 2] {
        let [times, best] = [MEDIAN, BEST].map(|pick| self.times(pick));
        let name = |size| times.iter().find(|t| t.size == size).and_then(|t| t.best).map_or("nobody", |(_, name)| name);
        [
            self.worst_of("the worst of all sizes", 1.0, [ratios(&times), ratios(&best)], |size| {
                format!("{}, {}", name(size), bytes(size))
            }),
            self.worst_of(
                "the steepest step between sizes",
                STEEPEST,
                [self.steps(&times), self.steps(&best)],
                |size| format!("(to {})", bytes(size)),
            ),
        ]
    }

    /// `all` and `best` are the values by size, of the medians and of the best samples.
    fn worst_of(
        &self,
        what: &str,
        most: f64,
        [all, best]: [Vec<(u64, f64)>; 2],
        with: impl Fn(u64) -> String,
    ) -> Worst {
        let worst = all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let size = worst.map(|(size, _)| size);
        Worst {
            what: format!("{}half round trip, {what}", self.what),
            with: size.map(with),
            ratio: worst.map(|(_, value)| value),
            best: best.into_iter().find(|(at, _)| Some(*at) == size).map(|(_, value)| value),
            most,
            chance: size.and_then(|size| self.chance(size)),
        }
    }

    fn chance(&self, size: u64) -> Option<f64> {
        let [ours, again] = [self.ours, self.again].map(|who| self.results.get(ROW, size, who).map(|f| f.median));
        Some(again? / ours?)
    }
}

/// Each size with our time against the shortest of the others.
fn ratios(times: &[Time]) -> Vec<(u64, f64)> {
    times.iter().filter_map(|t| t.best.map(|(us, _)| (t.size, t.ours / us))).collect()
}

/// How much steeper than it should be the way from a size to the next is: how much more time the larger message takes for each byte, or as a whole if it is
/// short; or how much longer the smaller one takes. Whichever is more.
fn step((small, before): (u64, f64), (large, after): (u64, f64)) -> f64 {
    let longer = if large <= SHORT { 1.0 } else { large as f64 / small as f64 };
    (after / before / longer).max(before / after)
}

pub fn worst(results: &Results, who: &[Contestant]) -> Vec<Worst> {
    Field::all(results, who).iter().flat_map(Field::worst).collect()
}

pub fn table(results: &Results, who: &[Contestant]) -> Table {
    let head = [
        "",
        "ours, µs",
        "the fastest other",
        "µs",
        "ratio",
        "step",
        "ours, TCP, µs",
        "the fastest other",
        "µs",
        "ratio",
        "step",
    ];
    let mut table = Table::new("Half round trips of every power of two and of an odd size between", &head);
    let fields = Field::all(results, who).map(|field| {
        let times = field.times(MEDIAN);
        (field.steps(&times), times)
    });
    for size in results.sizes(ROW) {
        let mut row = vec![bytes(size)];
        for (steps, times) in &fields {
            let time = times.iter().find(|t| t.size == size);
            let best = time.and_then(|t| t.best);
            row.extend([
                or_not(time.map(|t| t.ours)),
                best.map_or("-".into(), |(_, name)| name.to_owned()),
                or_not(best.map(|b| b.0)),
                or_not(time.zip(best).map(|(t, b)| t.ours / b.0)),
                or_not(steps.iter().find(|(to, _)| *to == size).map(|s| s.1)),
            ]);
        }
        table.rows.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::Line;

    #[test]
    fn a_cliff_shows_whichever_side_is_higher() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
        near(step((1024, 1.0), (2048, 2.0)), 1.0);
        near(step((1024, 1.0), (2048, 3.0)), 1.5);
        near(step((8, 0.2), (13, 0.2)), 1.0);
        near(step((64, 0.2), (97, 0.3)), 1.5);
        near(step((65536, 7.0), (98305, 5.0)), 1.4);
    }

    #[test]
    fn the_worst_of_all_sizes_counts() {
        let mpi = c_tests::Mpi::by_name("openmpi4").expect("it is one of them");
        let who = [Contestant::ours(SHM, [mpi; 2], "shm"), Contestant::native(mpi)];
        let mut results = Results::default();
        for (name, times) in [(&who[0].name, [1.0, 1.5, 4.5]), (&who[1].name, [1.2, 1.2, 9.0])] {
            let line = |(n, us): (usize, f64)| Line {
                row: ROW.into(),
                size: 1024 << n,
                unit: "us".into(),
                samples: vec![us],
                apart: Vec::new(),
            };
            results.add(name, times.into_iter().enumerate().map(line).collect());
        }
        let [behind, step, ..] = &worst(&results, &who)[..] else { panic!("two for each transport") };
        assert_eq!((behind.ratio, behind.with.as_deref()), (Some(1.25), Some("openmpi4, 2 KiB")));
        assert_eq!((step.ratio, step.with.as_deref()), (Some(1.5), Some("(to 4 KiB)")));
        assert_eq!(table(&results, &who).rows.len(), 4);
    }
}
