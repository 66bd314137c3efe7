//! How long the tests of each file take, and over what: a table that is written anew after each scene.

use crate::Figure;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One scene that has ended.
pub(crate) struct Played {
    /// The MPIs of its jobs, in the order in which they were started.
    pub mpis: Vec<&'static str>,
    pub pairs: Vec<(&'static str, &'static str)>,
    pub took: Duration,
}

#[derive(Default)]
struct File {
    tests: BTreeSet<String>,
    scenes: usize,
    mpis: BTreeSet<&'static str>,
    pairs: BTreeSet<(&'static str, &'static str)>,
    took: Duration,
}

struct Times {
    since: Instant,
    files: BTreeMap<String, File>,
    /// What is run at full width only, by file.
    left: BTreeMap<String, BTreeSet<String>>,
}

static TIMES: Mutex<Option<Times>> = Mutex::new(None);

/// The file and the name of the test that runs here: its thread is called `file::test`.
fn here() -> (String, String) {
    let thread = std::thread::current();
    let (file, test) = thread.name().and_then(|name| name.split_once("::")).unwrap_or(("other", "other"));
    (file.into(), test.into())
}

fn with(change: impl FnOnce(&mut Times)) {
    let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    let new = || Times { since: Instant::now(), files: BTreeMap::new(), left: BTreeMap::new() };
    change(times.get_or_insert_with(new));
}

/// From now on the tests run.
pub(crate) fn begin() {
    with(|_| {});
}

pub(crate) fn add(played: Played) {
    let (name, test) = here();
    with(|times| {
        let file = times.files.entry(name).or_default();
        file.tests.insert(test);
        file.scenes += 1;
        file.mpis.extend(&played.mpis);
        file.pairs.extend(&played.pairs);
        file.took += played.took;
        times.show();
    });
}

/// Notes what the test that runs here leaves to `make test-all`.
pub(crate) fn leave(what: &str) {
    let (file, _) = here();
    with(|times| {
        times.left.entry(file).or_default().insert(what.into());
    });
}

impl Times {
    fn show(&self) {
        let mut figure =
            Figure::quiet("01-times", "system tests, file by file: s are those of the scenes, one after another");
        let heads = ["", "tests", "scenes", "MPIs", "pairs of MPIs", "s"];
        let mut rows = vec![heads.map(String::from).to_vec()];
        let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
        let sum = |of: fn(&File) -> usize| self.files.values().map(of).sum::<usize>().to_string();
        let time = |of: fn(&File) -> Duration| seconds(self.files.values().map(of).sum());
        for (name, file) in &self.files {
            let counts = [file.tests.len(), file.scenes, file.mpis.len(), file.pairs.len()].map(|n| n.to_string());
            rows.push([name.clone()].into_iter().chain(counts).chain([seconds(file.took)]).collect());
        }
        let together = ["together".into(), sum(|f| f.tests.len()), sum(|f| f.scenes), String::new(), String::new()];
        rows.push(together.into_iter().chain([time(|f| f.took)]).collect());
        figure.table(&rows);
        figure.line(format!("from first to last: {} s", seconds(self.since.elapsed())));
        for (file, what) in &self.left {
            figure.line(format!("in make test-all: {file}: {}", what.iter().cloned().collect::<Vec<_>>().join("; ")));
        }
    }
}
