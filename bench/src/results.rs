//! What was measured: of each value and contestant, one figure a launch. Filled by main; read by all that shows it.
//!
//! A virtual machine's cores may be near each other at one moment and far apart at the next. Invariant: figures of one value are of samples
//! that were taken at the same distance, as far as it is known.

use crate::contestant::Line;
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Results {
    values: BTreeMap<(String, u64), Measured>,
    /// Who could not be measured, and why.
    pub failures: Vec<String>,
    /// Of what has been added so far, once somebody has asked.
    boundary: OnceCell<Boundary>,
}

#[derive(Default)]
struct Measured {
    unit: String,
    launches: BTreeMap<String, Vec<Launch>>,
}

/// What one launch gave of a value.
struct Launch {
    samples: Vec<f64>,
    /// See [`Line::apart`].
    apart: Vec<f64>,
}

/// Where the two cores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    Near,
    Far,
}

impl Distance {
    pub fn word(self) -> &'static str {
        match self {
            Distance::Near => "near",
            Distance::Far => "far",
        }
    }
}

/// Distances of a run that differ by less than this are one.
const TWO_DISTANCES: f64 = 2.0;
/// So much of a run must have been at the lesser distance, and at the larger: disturbances make some seem farther, and none nearer.
const LEAST_NEAR: f64 = 0.002;
const LEAST_FAR: f64 = 0.05;

/// Which distances of a run are near, and which far: those of less and more ns. `None`: they do not differ.
#[derive(Clone, Copy)]
struct Boundary(Option<f64>);

impl Boundary {
    /// In the widest gap: a machine whose cores have moved for a moment has few of the one distance and many of the other.
    fn of(mut all: Vec<f64>) -> Boundary {
        all.sort_by(f64::total_cmp);
        let part = |share: f64| ((share * all.len() as f64) as usize).max(1);
        let splits = part(LEAST_NEAR)..(all.len() + 1).saturating_sub(part(LEAST_FAR));
        let widest = splits.max_by(|a, b| (all[*a] / all[a - 1]).total_cmp(&(all[*b] / all[b - 1])));
        let is_two = |at: &usize| median(&all[*at..]) / median(&all[..*at]) > TWO_DISTANCES;
        Boundary(widest.filter(is_two).map(|at| (all[at - 1] * all[at]).sqrt()))
    }

    fn distance(self, apart: f64) -> Option<Distance> {
        self.0.map(|boundary| if apart < boundary { Distance::Near } else { Distance::Far })
    }
}

impl Launch {
    /// Each sample, and its distance if that is known. Samples in which it changed are left out.
    fn samples(&self, boundary: Boundary) -> impl Iterator<Item = (f64, Option<Distance>)> + '_ {
        let distance = move |i: usize| self.apart.get(i).and_then(|ns| boundary.distance(*ns));
        let each = self.samples.iter().enumerate().map(move |(i, sample)| (*sample, distance(i), distance(i + 1)));
        each.filter(|(_, before, after)| before == after).map(|(sample, before, _)| (sample, before))
    }

    /// Those whose distance counts.
    fn those(&self, boundary: Boundary, counts: impl Fn(Option<Distance>) -> bool) -> Vec<f64> {
        self.samples(boundary).filter(|(_, at)| counts(*at)).map(|(sample, _)| sample).collect()
    }
}

impl Measured {
    /// The distance at which most contestants were measured; of those that are level, the one with more samples.
    fn distance(&self, boundary: Boundary) -> Option<Distance> {
        let count = |wanted| {
            let samples = |launches: &Vec<Launch>| {
                launches.iter().flat_map(|l| l.samples(boundary)).filter(|(_, at)| *at == Some(wanted)).count()
            };
            let each: Vec<usize> = self.launches.values().map(samples).filter(|count| *count > 0).collect();
            (each.len(), each.iter().sum::<usize>())
        };
        let all = [Distance::Near, Distance::Far].map(|at| (count(at), at));
        all.into_iter()
            .filter(|((contestants, _), _)| *contestants > 0)
            .max_by_key(|(count, _)| *count)
            .map(|(_, at)| at)
    }

    /// The samples of each launch of one contestant at the distance that is chosen or at an unknown one, if there are some.
    fn of(&self, who: &str, boundary: Boundary) -> Vec<Vec<f64>> {
        let wanted = self.distance(boundary);
        let launches = self.launches.get(who).into_iter().flatten();
        let counts = |at: Option<Distance>| at.is_none() || at == wanted;
        launches.map(|launch| launch.those(boundary, counts)).filter(|samples| !samples.is_empty()).collect()
    }
}

/// Of all launches of one contestant: the median of their medians, the least and the largest of these, and the best
/// sample of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub median: f64,
    pub least: f64,
    pub largest: f64,
    pub best: f64,
}

impl Figure {
    /// How far medians of launches lie apart, against the median.
    pub fn spread(&self) -> f64 {
        (self.largest - self.least) / self.median
    }
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Whether more is better.
pub fn is_rate(unit: &str) -> bool {
    unit.ends_with("/s")
}

impl Results {
    pub fn add(&mut self, who: &str, lines: Vec<Line>) {
        self.boundary.take();
        for line in lines {
            if line.samples.is_empty() {
                let what = format!("{}, {}: {}", line.row, line.size, line.unit);
                self.fail(who, &what);
                continue;
            }
            let measured = self.values.entry((line.row, line.size)).or_default();
            measured.unit = line.unit;
            let launch = Launch { samples: line.samples, apart: line.apart };
            measured.launches.entry(who.to_owned()).or_default().push(launch);
        }
    }

    pub fn fail(&mut self, who: &str, what: &str) {
        let told: Vec<&str> = what.lines().take(4).map(str::trim).collect();
        let text = format!("{who}: {}", told.join(" / "));
        if !self.failures.contains(&text) {
            self.failures.push(text);
        }
    }

    pub fn get(&self, row: &str, size: u64, who: &str) -> Option<Figure> {
        let measured = self.values.get(&(row.to_owned(), size))?;
        let launches = measured.of(who, self.boundary());
        let medians: Vec<f64> = launches.iter().map(|samples| median(samples)).collect();
        if medians.is_empty() {
            return None;
        }
        let all = launches.iter().flatten().copied();
        let best = if is_rate(&measured.unit) { all.fold(f64::MIN, f64::max) } else { all.fold(f64::MAX, f64::min) };
        Some(Figure {
            median: median(&medians),
            least: medians.iter().copied().fold(f64::MAX, f64::min),
            largest: medians.iter().copied().fold(f64::MIN, f64::max),
            best,
        })
    }

    /// The median of each launch of one contestant, in their order, and its distance if that is known; `None`: the distance changed.
    pub fn launches(&self, row: &str, size: u64, who: &str) -> Vec<Option<(f64, Option<Distance>)>> {
        let boundary = self.boundary();
        let measured = self.values.get(&(row.to_owned(), size));
        let launches = measured.and_then(|m| m.launches.get(who)).into_iter().flatten();
        let told = |one: &Launch| one.samples(boundary).next().map(|(_, at)| (median(&one.samples), at));
        launches.map(told).collect()
    }

    /// All that is known of how far apart the cores were.
    fn apart(&self) -> Vec<f64> {
        let launches = self.values.values().flat_map(|measured| measured.launches.values().flatten());
        launches.flat_map(|launch| &launch.apart).copied().collect()
    }

    fn boundary(&self) -> Boundary {
        *self.boundary.get_or_init(|| Boundary::of(self.apart()))
    }

    /// At which distance this value's figures were measured. `None`: that is not known, or there was one only.
    pub fn distance(&self, row: &str, size: u64) -> Option<Distance> {
        self.values.get(&(row.to_owned(), size))?.distance(self.boundary())
    }

    /// Nanoseconds that a cache line took from core to core: in the median near and far, and whether both were met.
    pub fn lines(&self) -> Vec<(Distance, f64)> {
        let boundary = self.boundary();
        let all = self.apart();
        let at = |wanted| {
            let these: Vec<f64> = all.iter().copied().filter(|ns| boundary.distance(*ns) == Some(wanted)).collect();
            (!these.is_empty()).then(|| (wanted, median(&these)))
        };
        [Distance::Near, Distance::Far].into_iter().filter_map(at).collect()
    }

    /// Who was measured, but never at the distance at which a value is compared: a line for each row.
    pub fn elsewhere(&self) -> Vec<String> {
        let boundary = self.boundary();
        let mut all: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        for ((row, size), measured) in &self.values {
            for who in measured.launches.keys().filter(|who| measured.of(who, boundary).is_empty()) {
                all.entry((who, row)).or_default().push(size.to_string());
            }
        }
        let told = |((who, row), sizes): ((&str, &str), Vec<String>)| {
            format!(
                "{who}: {row} ({}): never while the cores were as far apart as in the others' figures",
                sizes.join(", ")
            )
        };
        all.into_iter().map(told).collect()
    }

    /// The same launches, with what was measured at this distance alone; one at another or at an unknown one has no samples.
    pub fn at(&self, wanted: Distance) -> Results {
        let boundary = self.boundary();
        let counts = |at: Option<Distance>| at == Some(wanted);
        let of = |launch: &Launch| Launch { samples: launch.those(boundary, counts), apart: Vec::new() };
        let each = |measured: &Measured| {
            let launches = measured.launches.iter().map(|(who, all)| (who.clone(), all.iter().map(of).collect()));
            Measured { unit: measured.unit.clone(), launches: launches.collect() }
        };
        let values = self.values.iter().map(|(value, measured)| (value.clone(), each(measured)));
        Results { values: values.collect(), ..Results::default() }
    }

    pub fn unit(&self, row: &str) -> &str {
        self.values.iter().find(|((r, _), _)| r == row).map_or("", |(_, m)| &m.unit)
    }

    pub fn sizes(&self, row: &str) -> Vec<u64> {
        self.values.keys().filter(|(r, _)| r == row).map(|(_, size)| *size).collect()
    }

    pub fn rows(&self) -> Vec<&str> {
        let mut rows: Vec<&str> = self.values.keys().map(|(row, _)| row.as_str()).collect();
        rows.dedup();
        rows
    }

    pub fn has(&self, row: &str, who: &str) -> bool {
        self.values.iter().any(|((r, _), m)| r == row && m.launches.contains_key(who))
    }

    pub fn json(&self) -> Value {
        let value = |((row, size), m): (&(String, u64), &Measured)| {
            let figures: serde_json::Map<_, _> = m
                .launches
                .iter()
                .filter_map(|(who, launches)| {
                    let f = self.get(row, *size, who)?;
                    let launches: Vec<_> =
                        launches.iter().map(|l| json!({"samples": l.samples, "apart": l.apart})).collect();
                    let figure = json!({"median": f.median, "least": f.least, "largest": f.largest, "best": f.best,
                                        "launches": launches});
                    Some((who.clone(), figure))
                })
                .collect();
            json!({"row": row, "size": size, "unit": m.unit, "contestants": figures})
        };
        Value::Array(self.values.iter().map(value).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(unit: &str, samples: &[f64]) -> Vec<Line> {
        vec![Line { row: "r".into(), size: 8, unit: unit.into(), samples: samples.to_vec(), apart: Vec::new() }]
    }

    fn apart(samples: &[f64], apart: &[f64]) -> Vec<Line> {
        vec![Line { apart: apart.to_vec(), ..line("us", samples).remove(0) }]
    }

    #[test]
    fn what_is_compared_was_measured_at_the_same_distance() {
        let mut results = Results::default();
        results.add("a", apart(&[1.0, 5.0, 9.0], &[60.0, 60.0, 300.0, 300.0]));
        results.add("a", apart(&[8.0], &[280.0, 290.0]));
        results.add("b", apart(&[7.0, 7.5], &[290.0, 290.0, 300.0]));
        results.add("c", apart(&[1.5], &[60.0, 61.0]));
        results.add("d", line("us", &[3.0]));
        assert_eq!(results.distance("r", 8), Some(Distance::Far));
        let medians = ["a", "b", "c", "d"].map(|who| results.get("r", 8, who).map(|f| f.median));
        assert_eq!(medians, [Some(8.5), Some(7.25), None, Some(3.0)], "5.0 was taken while the distance changed");
        assert_eq!(results.elsewhere().len(), 1);
        let far = Some(Distance::Far);
        assert_eq!(results.launches("r", 8, "a"), [Some((5.0, Some(Distance::Near))), Some((8.0, far))]);
        assert_eq!(results.lines(), [(Distance::Near, 60.0), (Distance::Far, 290.0)]);
        let near = results.at(Distance::Near);
        let medians = ["a", "b", "c", "d"].map(|who| near.get("r", 8, who).map(|f| f.median));
        assert_eq!(medians, [Some(1.0), None, Some(1.5), None], "nobody knows where d was measured");
        let rounds = results.at(Distance::Far).launches("r", 8, "a");
        assert_eq!(rounds, [Some((9.0, None)), Some((8.0, None))], "the rounds stay those that others had too");
        assert_eq!(near.launches("r", 8, "a"), [Some((1.0, None)), None]);
        results.add("e", apart(&[6.0], &[60.0, 300.0]));
        assert_eq!(results.launches("r", 8, "e"), [None]);
    }

    #[test]
    fn one_distance_is_no_choice() {
        let mut results = Results::default();
        results.add("a", apart(&[1.0, 5.0], &[60.0, 61.0, 70.0]));
        assert_eq!(results.distance("r", 8), None);
        assert_eq!(results.get("r", 8, "a").map(|f| f.median), Some(3.0));
        assert!(results.lines().is_empty());
    }

    #[test]
    fn cores_that_have_moved_for_a_moment_are_told_apart() {
        let run = |near: usize, disturbed: usize| {
            let far = (0..1000).map(|n| 100.0 + n as f64 * 0.04);
            Boundary::of([vec![24.0; near], far.collect(), vec![900.0; disturbed]].concat())
        };
        assert_eq!(run(5, 0).distance(24.0), Some(Distance::Near));
        assert_eq!(run(5, 0).distance(101.0), Some(Distance::Far));
        assert_eq!(run(1, 0).distance(24.0), None, "one of a thousand");
        assert_eq!(run(0, 20).distance(101.0), None, "what was disturbed is no distance");
        assert_eq!(run(5, 20).distance(101.0), Some(Distance::Far));
    }

    #[test]
    fn a_figure_is_the_median_of_medians() {
        let mut results = Results::default();
        results.add("a", line("us", &[1.0, 9.0, 2.0]));
        results.add("a", line("us", &[4.0, 4.0]));
        results.add("a", line("us", &[3.0]));
        let figure = results.get("r", 8, "a").unwrap();
        assert_eq!(figure, Figure { median: 3.0, least: 2.0, largest: 4.0, best: 1.0 });
        assert_eq!(results.get("r", 9, "a"), None);
        assert_eq!(results.launches("r", 8, "a"), [2.0, 4.0, 3.0].map(|us| Some((us, None))));
    }

    #[test]
    fn the_best_rate_is_the_largest() {
        let mut results = Results::default();
        results.add("a", line("M/s", &[1.0, 9.0, 2.0]));
        assert_eq!(results.get("r", 8, "a").unwrap().best, 9.0);
    }
}
