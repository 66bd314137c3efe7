//! One table of all pairs of MPIs, in a single scene: a job of each on the left, one on the right, and each of the left
//! meets each of the right.

use crate::{Figure, Launch, MPIS, Scene};
use std::time::Duration;

/// Ranks of each job on the left, and on the right.
pub const SHAPE: [usize; 2] = [2, 1];
const SIDES: [&str; 2] = ["left", "right"];
const LIMIT: Duration = Duration::from_secs(120);

/// `how` they meet: by `names`, or at `ports` of those on the left.
pub fn everyone(how: &str, figure: &mut Figure) {
    let scene = Scene::new(format!("every MPI with every MPI, by {how}"));
    let prefix = scene.path("port").display().to_string();
    let name = |side: usize, mpi: &str| format!("{}-{mpi}", SIDES[side]);
    let start = |side: usize| {
        let others: Vec<_> = MPIS.iter().map(|other| name(1 - side, other.name)).collect();
        let launch = |mpi: &'static crate::Mpi| {
            let me = name(side, mpi.name);
            let mut words = vec![how, SIDES[side], &prefix, &me];
            words.extend(others.iter().map(String::as_str));
            scene.start(Launch::new(mpi, SHAPE[side], "everyone", &words))
        };
        MPIS.iter().copied().map(launch).collect::<Vec<_>>()
    };
    let jobs = [start(0), start(1)];
    let done = jobs.map(|jobs| jobs.into_iter().map(|job| scene.pass([job], LIMIT)).collect::<Vec<_>>());
    // What one says that it checked with the other; each has met each once.
    let checks = |side: usize, of: usize, other: usize| {
        let with = name(1 - side, MPIS[other].name);
        let [job] = &done[side][of];
        let mut met =
            job.lines("PAIR").filter_map(|line| line.strip_prefix(&with)?.strip_prefix(' ')?.parse::<u64>().ok());
        let (first, second) = (met.next(), met.next());
        let once = first.is_some_and(|checks| checks > 0) && second.is_none();
        scene.require(once, &format!("{} has met {with} once: {first:?}, {second:?}", name(side, MPIS[of].name)));
        first.unwrap_or(0)
    };
    let mut rows =
        vec![std::iter::once(String::new()).chain(MPIS.iter().map(|m| m.sign.to_owned())).collect::<Vec<_>>()];
    for (l, left) in MPIS.iter().enumerate() {
        MPIS.iter().for_each(|right| scene.meet(left, right));
        let cells = (0..MPIS.len()).map(|r| (checks(0, l, r) + checks(1, r, l)).to_string());
        rows.push(std::iter::once(format!("{} {}", left.sign, left.name)).chain(cells).collect());
    }
    figure.table(&rows);
}
