//! What the command line of `make bench` asks for. Read once, by main.

use c_tests::{MPIS, Mpi};

/// All that may be asked for by ROWS=, in the order in which it is run.
pub const ROWS: [&str; 11] =
    ["pingpong", "rate", "vector", "struct", "sizes", "matching", "overlap", "several", "setup", "calls", "imb"];

pub struct Settings {
    pub quick: bool,
    /// Whether another program keeps a core busy all the time.
    pub busy: bool,
    /// Whether the page and its pictures are written to docs/ too.
    pub record: bool,
    rows: Vec<String>,
    pub mpis: Vec<&'static Mpi>,
    /// Whom the library joins; None: the pair that is fastest here.
    pub pair: Option<(&'static Mpi, &'static Mpi)>,
    rounds: Option<usize>,
}

/// What is not run by QUICK=1, unless it is asked for.
const LONG_ROW: &str = "sizes";

/// What is run beside a busy core, unless others are asked for.
const ROWS_BESIDE: [&str; 5] = ["pingpong", "rate", "vector", "struct", "several"];

/// Launches of each contestant in a whole run: of transfers, and of rows that have no number of their own.
pub const TRANSFERS: usize = 20;
pub const OTHERS: usize = 3;

/// How much of one launch: samples of each value, how long each lasts, the largest message.
#[derive(Clone, Copy)]
pub struct Effort {
    pub samples: usize,
    pub slice_ms: usize,
    pub most: usize,
}

impl Effort {
    /// As the programs take it.
    pub fn words(&self) -> [String; 3] {
        [self.samples, self.slice_ms, self.most].map(|n| n.to_string())
    }
}

fn word(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|v| v.trim().to_owned()).filter(|v| !v.is_empty())
}

fn words(name: &str) -> Vec<String> {
    word(name).map_or(Vec::new(), |v| v.split([',', ' ']).filter(|w| !w.is_empty()).map(str::to_owned).collect())
}

fn mpi(name: &str) -> Result<&'static Mpi, String> {
    Mpi::by_name(name).ok_or_else(|| format!("no MPI named {name}; there are {}", Mpi::names().join(", ")))
}

impl Settings {
    pub fn read() -> Result<Settings, String> {
        let yes = |name| word(name).is_some_and(|v| v != "0");
        let busy = yes("BUSY");
        let mut rows = words("ROWS");
        if busy && rows.is_empty() {
            rows = ROWS_BESIDE.map(str::to_owned).to_vec();
        }
        if let Some(wrong) = rows.iter().find(|r| !ROWS.contains(&r.as_str())) {
            return Err(format!("no row named {wrong}; there are {}", ROWS.join(", ")));
        }
        let named = words("MPIS").iter().map(|n| mpi(n)).collect::<Result<Vec<_>, _>>()?;
        let pair = match &words("PAIR")[..] {
            [] => None,
            [a, b] => Some((mpi(a)?, mpi(b)?)),
            _ => return Err("PAIR= takes two MPIs".into()),
        };
        let rounds = word("ROUNDS").map(|r| r.parse().ok().filter(|r| *r > 0).ok_or("ROUNDS= takes a number"));
        let settings = Settings {
            quick: yes("QUICK"),
            busy,
            record: yes("RECORD"),
            rows,
            mpis: if named.is_empty() { MPIS.to_vec() } else { named },
            pair,
            rounds: rounds.transpose()?,
        };
        let is_page = settings.is_whole() || busy && settings.rows == ROWS_BESIDE;
        if settings.record && (settings.quick || !is_page) {
            return Err("RECORD= is for a whole run, without QUICK=, ROWS= and MPIS=".into());
        }
        Ok(settings)
    }

    /// Whether nothing is left out.
    pub fn is_whole(&self) -> bool {
        self.rows.is_empty() && self.mpis.len() == MPIS.len()
    }

    pub fn has(&self, row: &str) -> bool {
        if self.rows.is_empty() { !(self.quick && row == LONG_ROW) } else { self.rows.iter().any(|r| r == row) }
    }

    /// Those of `rows` that are asked for.
    pub fn of<'a>(&self, rows: &[&'a str]) -> Vec<&'a str> {
        rows.iter().copied().filter(|r| self.has(r)).collect()
    }

    /// How often each contestant is launched.
    pub fn rounds(&self, whole: usize, quick: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { quick } else { whole })
    }

    pub fn effort(&self) -> Effort {
        if self.quick {
            Effort { samples: 3, slice_ms: 3, most: 16 << 20 }
        } else {
            // Another program has the core for some 4 ms at a time: a shorter sample meets one of these or none.
            Effort { samples: 3, slice_ms: if self.busy { 15 } else { 5 }, most: 64 << 20 }
        }
    }
}
