//! Half round trips of every power of two, and of an odd size between each and the next: whether the library is the fastest at each, and
//! whether some size takes far longer than the ones beside it. For main, claims and report.

use crate::claims::{Claim, Wanted};
use crate::contestant::{Contestant, SHM, TCP};
use crate::results::{Figure, Results};
use crate::table::{Table, bytes, number};

/// What bench/c/bench.h calls it.
pub const ROW: &str = "sizes";
/// The steepest step that is meant to be.
const STEEPEST: f64 = 1.3;

type Pick = fn(&Figure) -> f64;

const MEDIAN: Pick = |f| f.median;
const BEST: Pick = |f| f.best;

/// Who is measured: the library once by each transport, and whom it is compared with.
pub fn is_in(who: &Contestant) -> bool {
    [SHM, TCP].contains(&who.name.as_str()) || who.is_native()
}

/// The library over one transport, and those that use the same.
struct Field<'a> {
    results: &'a Results,
    what: &'a str,
    ours: &'a str,
    natives: Vec<&'a str>,
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
        [("", SHM, false), ("TCP: ", TCP, true)].map(|(what, ours, tcp)| Field {
            results,
            what,
            ours,
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

    /// Each size and how far it is above or below the one before it. Those that were measured while the cores were near and far have no step.
    fn steps(&self, times: &[Time]) -> Vec<(u64, f64)> {
        let at = |time: &Time| self.results.distance(ROW, time.size);
        let pairs = times.windows(2).filter(|pair| at(&pair[0]) == at(&pair[1]));
        pairs.map(|pair| (pair[1].size, step((pair[0].size, pair[0].ours), (pair[1].size, pair[1].ours)))).collect()
    }

    fn claims(&self) -> [Claim; 2] {
        let slowest = |pick: Pick| {
            let ratios =
                self.times(pick).into_iter().filter_map(|t| t.best.map(|(us, name)| (t.ours / us, t.size, name)));
            ratios.max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let steepest = |pick: Pick| self.steps(&self.times(pick)).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let claim = |what: &str, with: Option<String>, [ratio, best]: [Option<f64>; 2], most| Claim {
            what: format!("{}{what}", self.what),
            with: with.unwrap_or("nobody".into()),
            ratio,
            best,
            wanted: Wanted::AtMost(most),
            chance: None,
        };
        let (behind, step) = (slowest(MEDIAN), steepest(MEDIAN));
        [
            claim(
                "half round trip, the slowest of all sizes",
                behind.map(|(_, size, name)| format!("{name}, {}", bytes(size))),
                [behind.map(|b| b.0), slowest(BEST).map(|b| b.0)],
                1.0,
            ),
            claim(
                "half round trip, the steepest step between neighbouring sizes",
                step.map(|(size, _)| format!("(to {})", bytes(size))),
                [step.map(|s| s.1), steepest(BEST).map(|s| s.1)],
                STEEPEST,
            ),
        ]
    }
}

/// How much longer the larger of two sizes takes than the smaller one's law says. The law is that of a message whose bytes take all of the time, where that
/// says more than none: a copy takes time for each byte, and a look takes it for each message.
fn step((small, before): (u64, f64), (large, after): (u64, f64)) -> f64 {
    after / before / (large as f64 / small as f64)
}

pub fn claims(results: &Results, who: &[Contestant]) -> Vec<Claim> {
    Field::all(results, who).iter().flat_map(Field::claims).collect()
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
    let fields = Field::all(results, who);
    for size in results.sizes(ROW) {
        let mut row = vec![bytes(size)];
        for field in &fields {
            let times = field.times(MEDIAN);
            let steps = field.steps(&times);
            let time = times.iter().find(|t| t.size == size);
            let best = time.and_then(|t| t.best);
            let or_not = |value: Option<f64>| value.map_or("-".into(), number);
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
