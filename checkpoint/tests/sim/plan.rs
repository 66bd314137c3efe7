//! What a seed stands for: the jobs, how they are joined, what each process does in each step, and what befalls them.

use crate::rng::{Rng, hash};
use engine::{Config, ContextId};

/// A message is received at the earliest so many steps after it was sent, so that no program waits in a circle.
pub const LAG: u32 = 2;
/// The bytes of a message before those that fill it.
pub const HEAD: usize = 32;

pub struct JobPlan {
    pub name: &'static str,
    pub size: u32,
    /// A checkpoint each so many steps.
    pub every: u32,
    /// The machine that its processes and its disk are on.
    pub host: usize,
}

/// An inter-communicator.
pub struct InterPlan {
    pub context: ContextId,
    pub jobs: [usize; 2],
    /// The ranks in both groups.
    pub groups: [Vec<u32>; 2],
    /// All is received from any source with any tag.
    pub any: bool,
}

/// What is killed, and how.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    Process(usize),
    Job(usize),
    All,
    /// A machine goes down with what is not on its disk.
    Machine(usize),
    /// All machines.
    Power,
}

/// When something is killed, counted from the begin of the lives.
#[derive(Clone, Copy, Debug)]
pub enum When {
    Acts(u64),
    /// Steps of writing and of naming lines.
    Disk(u64),
    /// Steps of the restart.
    Restart(u64),
}

pub struct Plan {
    pub seed: u64,
    pub jobs: Vec<JobPlan>,
    pub inters: Vec<InterPlan>,
    pub steps: u32,
    /// Receives that stay pending over the end of a step.
    pub ahead: usize,
    /// How often programs, the network and the disk have their turns.
    pub weights: [u64; 3],
    /// Channels, by number, that bring something once in so many times.
    pub slow: Vec<(usize, u64)>,
    /// The most messages that come at once.
    pub batch: usize,
    pub kills: Vec<(When, Scope, u64)>,
    /// Of so many images one cannot be written. 0: all can.
    pub full_disk: u64,
}

/// An inter-communicator as a process sees it.
#[derive(Clone)]
pub struct View {
    pub inter: usize,
    pub context: ContextId,
    pub job: usize,
    /// The remote group, by rank in the other job.
    pub members: Vec<u32>,
    /// The rank of this process in its group.
    pub rank: u32,
    pub any: bool,
    /// The place of its first link.
    pub first: usize,
}

/// How a receive is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Post,
    Recv,
    Probe,
    Iprobe,
    Mprobe,
    Improbe,
}

/// How pending receives are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Wait,
    Test,
    Testany,
    Testsome,
    Testall,
    Waitany,
    Waitsome,
    Status,
}

/// One call of a program.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// The message of this step, to a rank of a remote group.
    Send {
        view: usize,
        to: u32,
    },
    Receive {
        view: usize,
        source: Option<u32>,
        tag: Option<i64>,
        how: How,
    },
    Complete(Way),
    /// One look at the last send of this step.
    TestSend,
    /// One look for a message.
    Peek {
        view: usize,
    },
    /// The found of this process goes to another one of the own job, by the MPI below.
    Tell(u32),
    Hear(u32),
    /// Receives until so many are pending.
    Drain(usize),
}

/// What a message is.
pub struct Kind {
    /// Received from any source.
    pub wild: bool,
    pub tag: i64,
    pub len: usize,
    pub sync: bool,
}

impl Plan {
    pub fn new(seed: u64) -> Plan {
        let mut rng = Rng::new(seed);
        let count = 2 + usize::from(rng.one_in(2));
        let mut names = ["air", "ice", "ocean"];
        rng.shuffle(&mut names);
        let hosts = rng.pick(&[1, count]);
        let most = if count == 2 { 3 } else { 2 + u64::from(rng.one_in(4)) };
        let jobs: Vec<JobPlan> = (0..count)
            .map(|job| JobPlan {
                name: names[job],
                size: 1 + rng.below(most) as u32,
                every: rng.pick(&[1, 1, 2, 2, 3, 5]),
                host: job % hosts,
            })
            .collect();
        let mut joins = vec![[0, 1]];
        if count == 3 {
            joins.push([1, 2]);
            if rng.one_in(2) {
                joins.push([0, 2]);
            }
        }
        let mut inters = Vec::new();
        for joined in joins {
            let twice = rng.one_in(3);
            for copy in 0..=u64::from(twice) {
                let mut groups = joined.map(|job| (0..jobs[job].size).collect::<Vec<u32>>());
                if copy > 0 {
                    groups.iter_mut().for_each(|group| rng.shuffle(group));
                }
                // Between other jobs the same.
                let root = ContextId::root(1);
                let context = if copy > 0 { root.child(copy) } else { root };
                inters.push(InterPlan { context, jobs: joined, groups, any: rng.one_in(3) });
            }
        }
        let processes: usize = jobs.iter().map(|job| job.size as usize).sum();
        let steps = 5 + rng.below(8) as u32;
        let mut plan = Plan {
            seed,
            steps,
            ahead: rng.index(4),
            weights: [1 + rng.below(8), 1 + rng.below(16), 1 + rng.below(4)],
            slow: (0..rng.below(4)).map(|_| (rng.index(processes * processes), rng.pick(&[4, 30, 100]))).collect(),
            batch: rng.pick(&[1, 2, 4, 50]),
            kills: Vec::new(),
            full_disk: if rng.one_in(40) { 6 } else { 0 },
            jobs,
            inters,
        };
        let acts: usize = (0..plan.jobs.len())
            .flat_map(|job| (0..plan.jobs[job].size).map(move |rank| (job, rank)))
            .map(|(job, rank)| {
                let views = plan.views(job, rank);
                (0..plan.steps + LAG).map(|step| plan.script(job, rank, &views, step).len()).sum::<usize>()
            })
            .sum();
        for _ in 0..rng.pick(&[0, 1, 1, 2, 2, 3, 3, 4, 6]) {
            let when = match rng.below(5) {
                0 => When::Disk(rng.below(150)),
                1 => When::Restart(rng.below(20 * processes as u64)),
                _ => When::Acts(rng.below(2 * acts as u64)),
            };
            let scope = match rng.below(8) {
                0 | 1 => Scope::Process(rng.index(processes)),
                2 | 3 => Scope::Job(rng.index(count)),
                4 => Scope::Machine(rng.index(hosts)),
                5 => Scope::Power,
                _ => Scope::All,
            };
            // How long the others go on before they are killed too.
            plan.kills.push((when, scope, rng.pick(&[0, 0, 50, 500, 5000])));
        }
        plan
    }

    pub fn config(&self, life: u64) -> Config {
        let mut rng = Rng::new(hash(&[self.seed, 77, life]));
        // With the feature `plant` there is one more field.
        #[allow(clippy::needless_update)]
        let config = Config {
            eager_max: rng.pick(&[16, 40, 64, 200]),
            envelopes: rng.pick(&[2, 4, 9, 50]),
            eager_bytes: rng.pick(&[200, 300, 2000]),
            extra_envelopes: 2,
            chunk: rng.pick(&[16, 64, 1000]),
            ..Config::default()
        };
        config
    }

    pub fn views(&self, job: usize, rank: u32) -> Vec<View> {
        let mut all: Vec<View> = Vec::new();
        for (inter, of) in self.inters.iter().enumerate() {
            let Some(side) = of.jobs.iter().position(|known| *known == job) else { continue };
            let own = of.groups[side].iter().position(|known| *known == rank).expect("all ranks are in it");
            let first = all.last().map_or(0, |last| last.first + last.members.len());
            let members = of.groups[1 - side].clone();
            let (job, any) = (of.jobs[1 - side], of.any);
            all.push(View { inter, context: of.context, job, members, rank: own as u32, any, first });
        }
        all
    }

    /// The message of a step, from and to these ranks of the groups of an inter-communicator.
    pub fn kind(&self, inter: usize, from_job: usize, from: u32, to: u32, step: u32) -> Kind {
        let of = [self.seed, inter as u64, from_job as u64, u64::from(from), u64::from(to), u64::from(step)];
        let mut rng = Rng::new(hash(&of));
        let any = self.inters[inter].any;
        let wild = any || rng.one_in(2);
        let tag = match wild {
            true if any => rng.below(4) as i64,
            // All of one step have the same, so that as many receives fit.
            true => 10 + i64::from(step % 2),
            false => 1 + rng.below(3) as i64,
        };
        let len = HEAD + rng.pick(&[0, 1, 8, 30, 100, 300]);
        Kind { wild, tag, len, sync: rng.one_in(3) }
    }

    /// What a process does in a step. It is the same in each life.
    pub fn script(&self, job: usize, rank: u32, views: &[View], step: u32) -> Vec<Act> {
        let mut rng = Rng::new(hash(&[self.seed, 5, job as u64, u64::from(rank), u64::from(step)]));
        let mut acts = Vec::new();
        for (at, view) in views.iter().enumerate() {
            for to in 0..view.members.len() as u32 {
                if step < self.steps {
                    acts.push(Act::Send { view: at, to });
                    if rng.one_in(4) {
                        acts.push(Act::TestSend);
                    }
                }
                let Some(n) = step.checked_sub(LAG) else { continue };
                let kind = self.kind(view.inter, view.job, to, view.rank, n);
                let (source, tag) = match kind.wild {
                    true => (None, (!view.any).then_some(kind.tag)),
                    false => (Some(to), Some(kind.tag)),
                };
                let hows: &[How] = match kind.wild {
                    true => &[How::Post, How::Post, How::Recv, How::Probe, How::Iprobe, How::Mprobe, How::Improbe],
                    false => &[How::Post, How::Recv],
                };
                acts.push(Act::Receive { view: at, source, tag, how: rng.pick(hows) });
            }
            if rng.one_in(6) {
                acts.push(Act::Peek { view: at });
            }
        }
        for _ in 0..rng.below(4) {
            let ways = [
                Way::Wait,
                Way::Test,
                Way::Test,
                Way::Testany,
                Way::Testany,
                Way::Testsome,
                Way::Testall,
                Way::Waitany,
                Way::Waitsome,
                Way::Status,
            ];
            acts.push(Act::Complete(rng.pick(&ways)));
        }
        rng.shuffle(&mut acts);
        // The job's ranks agree on who tells whom. Each tells before it hears, so none waits in a circle.
        let size = self.jobs[job].size;
        let mut told = Rng::new(hash(&[self.seed, 6, job as u64, u64::from(step)]));
        let mut from = 0;
        for _ in 0..told.below(3) {
            if size > 1 {
                let shift = 1 + told.below(u64::from(size) - 1) as u32;
                let tell = from + rng.index(acts.len() + 1 - from);
                acts.insert(tell, Act::Tell((rank + shift) % size));
                let hear = tell + 1 + rng.index(acts.len() - tell);
                acts.insert(hear, Act::Hear((rank + size - shift) % size));
                from = hear + 1;
            }
        }
        let is_last = step + 1 == self.steps + LAG;
        acts.push(Act::Drain(if is_last { 0 } else { self.ahead }));
        acts
    }
}
