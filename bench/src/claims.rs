//! What the library means to reach, and whether it did in this run.

use crate::calls::Calls;
use crate::contestant::{Contestant, ENCRYPTED, ENCRYPTED_AGAIN, SHM, SHM_AGAIN, TCP, TCP_AGAIN, TLS};
use crate::results::{Distance, Figure, Results, is_rate};
use crate::table::{Table, bytes, or_not};
use crate::{imb, several, sizes};
use std::fmt;

pub struct Claim {
    pub what: String,
    /// Whom it is compared with.
    pub with: String,
    /// Ours against theirs, by medians; None: not measured.
    pub ratio: Option<f64>,
    /// The same of the best samples: what a machine that was not quiet may still tell.
    pub best: Option<f64>,
    /// Ours against the fastest that has no MPI, by the same transport.
    pub limit: Option<f64>,
    pub wanted: Wanted,
    /// The same ratio of the library against itself, measured again: what chance does.
    pub chance: Option<f64>,
}

#[derive(Clone, Copy)]
pub enum Wanted {
    AtMost(f64),
    AtLeast(f64),
}

impl Claim {
    pub fn holds(&self) -> Option<bool> {
        self.ratio.map(|ratio| match self.wanted {
            Wanted::AtMost(most) => ratio <= most,
            Wanted::AtLeast(least) => ratio >= least,
        })
    }

    /// Whether the library differs from itself by more than from the bound: another run may say the opposite.
    fn is_chance(&self) -> bool {
        let (Wanted::AtMost(bound) | Wanted::AtLeast(bound)) = self.wanted;
        let margin = self.ratio.map(|ratio| (ratio / bound).ln().abs());
        self.chance.zip(margin).is_some_and(|(chance, margin)| chance.ln().abs() > margin)
    }

    fn verdict(&self) -> &'static str {
        match (self.holds(), self.is_chance()) {
            (None, _) => "not measured",
            (Some(true), false) => "yes",
            (Some(true), true) => "yes, by chance",
            (Some(false), false) => "no",
            (Some(false), true) => "no, by chance",
        }
    }
}

/// Ours against the best of `others`, of one value. `speed` turns times into speeds.
fn against(
    results: &Results,
    (row, size): (&str, u64),
    speed: bool,
    (ours, again): (&str, &str),
    others: &[&Contestant],
    wanted: Wanted,
) -> Claim {
    let less_is_better = !is_rate(results.unit(row));
    let ratio = |a: f64, b: f64| if speed && less_is_better { b / a } else { a / b };
    let best_of = |pick: fn(&Figure) -> f64| {
        let theirs = others.iter().filter_map(|c| Some((pick(&results.get(row, size, &c.name)?), c.name.clone())));
        let (theirs, name) = theirs.reduce(|a, b| if (a.0 <= b.0) == less_is_better { a } else { b })?;
        Some((results.get(row, size, ours).map(|f| ratio(pick(&f), theirs)), name))
    };
    let medians = best_of(|f| f.median);
    let chance = results.get(row, size, again).zip(results.get(row, size, ours));
    Claim {
        what: String::new(),
        with: medians.as_ref().map_or("nobody".into(), |(_, name)| name.clone()),
        ratio: medians.and_then(|(ratio, _)| ratio),
        best: best_of(|f| f.best).and_then(|(ratio, _)| ratio),
        limit: None,
        wanted,
        chance: chance.map(|(again, ours)| ratio(again.median, ours.median)),
    }
}

/// Bytes of data of the row of structs.
const STRUCTS: u64 = (1 << 20) / 13 * 13;

pub fn claims(results: &Results, who: &[Contestant], calls: Option<&Calls>) -> Vec<Claim> {
    let natives: Vec<_> = who.iter().filter(|c| c.is_native() && !c.name.contains("TCP")).collect();
    let natives_tcp: Vec<_> = who.iter().filter(|c| c.is_native() && c.name.contains("TCP")).collect();
    let named = |names: &[&str]| who.iter().filter(|c| names.contains(&c.name.as_str())).collect::<Vec<_>>();
    let (bare, memcpy) = (named(&["line", "ring", "readv"]), named(&["memcpy"]));
    let (ring, readv, polling, sockets) =
        (named(&["ring"]), named(&["readv"]), named(&["polling"]), named(&["polling", "blocking"]));
    let tls = named(&[TLS]);
    let (shm, tcp, encrypted) = ((SHM, SHM_AGAIN), (TCP, TCP_AGAIN), (ENCRYPTED, ENCRYPTED_AGAIN));
    use Wanted::{AtLeast, AtMost};

    let mut all = Vec::new();
    let mut add = |what: String, value: (&str, u64), speed, ours: (&str, &str), others: &[&Contestant], wanted| {
        let limits = match (value.0, ours.0) {
            ("vector" | "struct", SHM) => &memcpy,
            (_, SHM) => &bare,
            (_, TCP) => &sockets,
            _ => &tls,
        };
        let limit = against(results, value, speed, ours, limits, wanted).ratio;
        all.push(Claim { what, limit, ..against(results, value, speed, ours, others, wanted) });
    };
    let trip = |size| ("pingpong", size);
    for size in [8, 64, 1 << 10, 4 << 10, 16 << 10] {
        add(format!("half round trip, {}", bytes(size)), trip(size), false, shm, &natives, AtMost(1.0));
    }
    for size in [64 << 10, 1 << 20, 16 << 20] {
        add(format!("bandwidth of a ping-pong, {}", bytes(size)), trip(size), true, shm, &natives, AtLeast(1.0));
    }
    // What is behind an MPI and level with this is behind by what it does, and not by the library's own work.
    for size in [1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20, 16 << 20] {
        add(format!("half round trip, {}", bytes(size)), trip(size), false, shm, &ring, AtMost(1.1));
    }
    for size in [1 << 20, 4 << 20, 16 << 20, 64 << 20] {
        add(format!("bandwidth of a ping-pong, {}", bytes(size)), trip(size), true, shm, &readv, AtLeast(0.9));
    }
    add("message rate, 8 B, window of 64".into(), ("rate", 8), true, shm, &natives, AtLeast(1.0));
    let gaps = [
        ("vector of doubles, stride 2, 1 MiB", ("vector", 1 << 20)),
        ("structs of 13 bytes in 24, 1 MiB", ("struct", STRUCTS)),
    ];
    for (what, row) in gaps {
        add(what.into(), row, false, shm, &natives, AtMost(1.0));
    }
    let waiting = "matching unexpected, in order";
    add("unexpected, 10 waiting".into(), (waiting, 10), false, shm, &natives, AtMost(1.2));
    for what in several::ALL {
        add(several::row(what), (&several::row(what), 0), true, shm, &natives, AtLeast(1.0));
    }
    add("TCP: half round trip, 8 B".into(), trip(8), false, tcp, &polling, AtMost(1.1));
    add("TCP: half round trip, 64 KiB".into(), trip(64 << 10), false, tcp, &polling, AtMost(1.1));
    for size in [8, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20] {
        add(format!("TCP: half round trip, {}", bytes(size)), trip(size), false, tcp, &natives_tcp, AtMost(1.0));
    }
    for (what, row) in gaps {
        add(format!("TCP: {what}"), row, false, tcp, &natives_tcp, AtMost(1.0));
    }
    add("TCP: bandwidth of a ping-pong, 4 MiB".into(), trip(4 << 20), true, tcp, &sockets, AtLeast(0.95));
    for size in [64 << 10, 4 << 20] {
        add(
            format!("encrypted TCP: bandwidth of a ping-pong, {}", bytes(size)),
            trip(size),
            true,
            encrypted,
            &tls,
            AtLeast(0.9),
        );
    }
    all.extend(sizes::worst(results, who).into_iter().map(|worst| Claim {
        what: worst.what,
        with: worst.with.unwrap_or("nobody".into()),
        ratio: worst.ratio,
        best: worst.best,
        limit: None,
        wanted: AtMost(worst.most),
        chance: worst.chance,
    }));
    all.push(encryption_adds(results));
    all.extend(["register", "intercomm_create", "a first word between all pairs"].map(|step| secured(results, step)));
    all.extend(
        [("connect and disconnect at a port", 2, 1.5), ("intercomm_create", 8, 3.0), ("intercomm_create", 32, 20.0)]
            .map(|(step, ranks, most)| joining(results, step, ranks, most)),
    );
    all.extend(["receiver", "sender"].map(|who| beside_work(results, who)));
    all.extend(["posted", "unexpected"].map(|kind| deep(results, kind)));
    all.extend(several::ALL.map(|what| {
        let row = several::slowest(what);
        let share = within(row.clone(), "a fair share", AtLeast(0.5), |who, pick| results.get(&row, 0, who).map(pick));
        // The best sample of the slowest says nothing.
        Claim { best: None, ..share }
    }));
    let calls = [
        ("native call, instructions added", calls.and_then(|c| c.none), 5.0),
        ("native call, ten inter-communicators live", calls.and_then(|c| c.ten), 15.0),
        ("native Waitall of 64, ten inter-communicators live", calls.and_then(|c| c.requests), 32.0),
        ("the same where the MPI itself makes calls in it", calls.and_then(|c| c.requests_in_calls), 32.0),
    ];
    all.extend(calls.map(|(what, added, most)| Claim {
        what: what.into(),
        with: "(a count)".into(),
        ratio: added.map(|n| n as f64),
        best: None,
        limit: None,
        wanted: AtMost(most),
        chance: None,
    }));
    all.extend(imb::comparisons(results).into_iter().map(|c| Claim {
        what: format!("IMB {} with the library", c.operation),
        with: "without".into(),
        ratio: Some(c.with),
        best: None,
        limit: None,
        wanted: AtMost(1.05),
        // What chance may do, or has done where that is more.
        chance: Some(if c.again.ln().abs() > c.chance.ln() { c.again } else { c.chance }),
    }));
    all
}

/// Microseconds that encryption adds to a half round trip of 8 B.
fn encryption_adds(results: &Results) -> Claim {
    let added = |pick: fn(Figure) -> f64| {
        let [plain, encrypted] = [TCP, ENCRYPTED].map(|who| results.get("pingpong", 8, who).map(pick));
        Some(encrypted? - plain?)
    };
    Claim {
        what: "encrypted TCP: half round trip, 8 B, µs more".into(),
        with: TCP.into(),
        ratio: added(|f| f.median),
        best: added(|f| f.best),
        limit: None,
        wanted: Wanted::AtMost(2.0),
        chance: None,
    }
}

/// A step of joining 32 and 32 ranks, encrypted against not.
fn secured(results: &Results, step: &str) -> Claim {
    let row = format!("setup: {step}, ms");
    let ratio = |pick: fn(Figure) -> f64| {
        let [plain, encrypted] = [TCP, ENCRYPTED].map(|who| results.get(&row, 32, who).map(pick));
        Some(encrypted? / plain?)
    };
    Claim {
        what: format!("encrypted TCP: 32 and 32 ranks: {step}"),
        with: TCP.into(),
        ratio: ratio(|f| f.median),
        best: ratio(|f| f.best),
        limit: None,
        wanted: Wanted::AtMost(1.5),
        chance: None,
    }
}

/// Milliseconds of a step of joining, of as many ranks on either side.
fn joining(results: &Results, step: &str, ranks: u64, most: f64) -> Claim {
    let (row, what) = (format!("setup: {step}, ms"), format!("{step}, {ranks} and {ranks} ranks, ms"));
    within(what, "(a time)", Wanted::AtMost(most), |who, pick| results.get(&row, ranks, who).map(pick))
}

/// A transfer beside work against the longer of the two, the work.
fn beside_work(results: &Results, worker: &str) -> Claim {
    const WORK: f64 = 50_000.0;
    let row = format!("overlap: added to a busy {worker}");
    let what = format!("8 MiB beside 50 ms of the {worker}'s work");
    within(what, "the work", Wanted::AtMost(1.1), |who, pick| {
        results.get(&row, 8 << 20, who).map(|f| (WORK + pick(f)) / WORK)
    })
}

/// A message among 100,000 against one among 10.
fn deep(results: &Results, kind: &str) -> Claim {
    let row = format!("matching {kind}, in order");
    within(format!("{row}: 100,000"), "10", Wanted::AtMost(2.0), |who, pick| {
        let [few, many] = [10, 100_000].map(|depth| results.get(&row, depth, who).map(pick));
        few.zip(many).map(|(few, many)| many / few)
    })
}

/// Of figures of the library alone: `ratio` gives that of a contestant, by its medians or its best.
fn within(what: String, with: &str, wanted: Wanted, ratio: impl Fn(&str, fn(Figure) -> f64) -> Option<f64>) -> Claim {
    let [ours, again] = [SHM, SHM_AGAIN].map(|who| ratio(who, |f| f.median));
    Claim {
        what,
        with: with.into(),
        ratio: ours,
        best: ratio(SHM, |f| f.best),
        limit: None,
        wanted,
        chance: again.zip(ours).map(|(again, once)| again / once),
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bound) = match self {
            Wanted::AtMost(most) => ("<=", most),
            Wanted::AtLeast(least) => (">=", least),
        };
        write!(f, "{sign} {}", format!("{bound:.3}").trim_end_matches('0').trim_end_matches('.'))
    }
}

pub fn table(claims: &[Claim]) -> Table {
    let mut table = Table::new(
        "Aims, and what was reached",
        &["", "against", "ratio", "of the best", "limit", "wanted", "again", "reached"],
    );
    for claim in claims {
        table.rows.push(vec![
            claim.what.clone(),
            claim.with.clone(),
            or_not(claim.ratio),
            or_not(claim.best),
            or_not(claim.limit),
            claim.wanted.to_string(),
            or_not(claim.chance),
            claim.verdict().into(),
        ]);
    }
    table
}

/// The aims by where the cores were, of what was measured in both places. Empty, if there was one place only.
pub fn by_distance(results: &Results, who: &[Contestant]) -> Table {
    let head = ["", "wanted", "near: against", "ratio", "reached", "far: against", "ratio", "reached"];
    let mut table = Table::new("Aims by where the cores were", &head);
    let [near, far] = [Distance::Near, Distance::Far].map(|at| claims(&results.at(at), who, None));
    let both = near.iter().zip(&far).filter(|(near, far)| near.what == far.what);
    for (near, far) in both.filter(|(near, far)| near.ratio.is_some() && far.ratio.is_some()) {
        let cells = [near, far].map(|c| [c.with.clone(), or_not(c.ratio), c.verdict().into()]);
        table.rows.push([vec![near.what.clone(), near.wanted.to_string()], cells.concat()].concat());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ratio: f64, wanted: Wanted, chance: f64) -> &'static str {
        let claim = Claim {
            what: String::new(),
            with: String::new(),
            ratio: Some(ratio),
            best: None,
            limit: None,
            wanted,
            chance: Some(chance),
        };
        claim.verdict()
    }

    #[test]
    fn what_chance_may_turn_is_said_so() {
        assert_eq!(verdict(0.8, Wanted::AtMost(1.0), 1.05), "yes");
        assert_eq!(verdict(0.98, Wanted::AtMost(1.0), 0.9), "yes, by chance");
        assert_eq!(verdict(1.3, Wanted::AtMost(1.0), 1.1), "no");
        assert_eq!(verdict(0.88, Wanted::AtLeast(0.9), 1.1), "no, by chance");
    }
}
