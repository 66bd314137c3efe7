//! What was measured: of each value and contestant, one figure a launch. Filled by main; read by all that shows it.

use crate::contestant::Line;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Results {
    values: BTreeMap<(String, u64), Measured>,
    /// Who could not be measured, and why.
    pub failures: Vec<String>,
}

#[derive(Default)]
struct Measured {
    unit: String,
    launches: BTreeMap<String, Vec<Vec<f64>>>,
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
        for line in lines {
            if line.samples.is_empty() {
                let what = format!("{}, {}: {}", line.row, line.size, line.unit);
                self.fail(who, &what);
                continue;
            }
            let measured = self.values.entry((line.row, line.size)).or_default();
            measured.unit = line.unit;
            measured.launches.entry(who.to_owned()).or_default().push(line.samples);
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
        let launches = measured.launches.get(who)?;
        let medians: Vec<f64> = launches.iter().map(|samples| median(samples)).collect();
        let all = launches.iter().flatten().copied();
        let best = if is_rate(&measured.unit) { all.fold(f64::MIN, f64::max) } else { all.fold(f64::MAX, f64::min) };
        Some(Figure {
            median: median(&medians),
            least: medians.iter().copied().fold(f64::MAX, f64::min),
            largest: medians.iter().copied().fold(f64::MIN, f64::max),
            best,
        })
    }

    /// The medians of one contestant's launches, in their order.
    pub fn launches(&self, row: &str, size: u64, who: &str) -> Vec<f64> {
        let measured = self.values.get(&(row.to_owned(), size));
        let launches = measured.and_then(|m| m.launches.get(who));
        launches.map_or(Vec::new(), |all| all.iter().map(|samples| median(samples)).collect())
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
                .filter_map(|(who, samples)| {
                    let f = self.get(row, *size, who)?;
                    let figure = json!({"median": f.median, "least": f.least, "largest": f.largest, "best": f.best,
                                        "launches": samples});
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
        vec![Line { row: "r".into(), size: 8, unit: unit.into(), samples: samples.to_vec() }]
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
        assert_eq!(results.launches("r", 8, "a"), [2.0, 4.0, 3.0]);
    }

    #[test]
    fn the_best_rate_is_the_largest() {
        let mut results = Results::default();
        results.add("a", line("M/s", &[1.0, 9.0, 2.0]));
        assert_eq!(results.get("r", 8, "a").unwrap().best, 9.0);
    }
}
