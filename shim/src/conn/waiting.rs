//! Whoever waits for another job says so: what for, where it looks, and what stands in the way. On the leader alone.
//!
//! Invariant: nothing here decides how long somebody waits, and nothing is said before somebody has waited for seconds,
//! but for what both sides would want to know at once.

use super::registration::{Lead, Registration};
use base::ProcId;
use base::log::{Patience, list};
use base::protocol::port::CALL;
use base::spelling::nearest;
use naming::{Kind, Naming, Record, State};
use node::leaders::{Looking, looking, who_offers};
use node::{Node, Obstacle, PathRef};
use std::path::Path;
use std::time::{Duration, Instant};

/// Of more names than this only the first are shown.
const MOST_NAMES: usize = 8;
/// One who waits is told of so many jobs that wait for it, each by its name once: a stranger may come and go under any.
const MOST_STRANGERS: usize = 16;
/// A name that is not like the right one may be another job's, which is about to come: it is told of after this long.
const SETTLED: Duration = Duration::from_secs(1);

/// One call that waits for another job.
pub struct Waiting<'a> {
    node: &'a Node,
    own: &'a Registration,
    lead: &'a Lead,
    wanted: &'a str,
    patience: Patience,
    /// Who waits for this job meanwhile.
    others: Vec<Other>,
    told: Told,
    /// Since when no naming server answers, and what was said of it last.
    unreachable: Option<(Instant, String)>,
    /// Since when the job that we wait for looks for that other one; and whether it was told of.
    elsewhere: Option<(Instant, Looking, bool)>,
}

struct Other {
    path: PathRef,
    name: String,
    since: Instant,
    /// What it has been told: whether the name that we look for is there.
    knows: Option<bool>,
}

/// The names of those who were told of.
#[derive(Default)]
struct Told(Vec<String>);

impl Told {
    /// Whether this one is to be told of now.
    fn is_new(&mut self, name: &str) -> bool {
        let is_new = self.0.len() < MOST_STRANGERS && !self.0.iter().any(|told| told == name);
        if is_new {
            self.0.push(name.to_owned());
        }
        is_new
    }
}

impl<'a> Waiting<'a> {
    pub fn new(node: &'a Node, own: &'a Registration, lead: &'a Lead, wanted: &'a str) -> Waiting<'a> {
        let patience = Patience::new(Instant::now());
        let (others, told) = (Vec::new(), Told::default());
        Waiting { node, own, lead, wanted, patience, others, told, unreachable: None, elsewhere: None }
    }

    /// The naming service has answered, or not.
    pub fn asked(&mut self, failure: Option<String>) {
        match failure {
            Some(why) => self.unreachable = Some((self.unreachable.take().map_or_else(Instant::now, |(t, _)| t), why)),
            None => self.unreachable = None,
        }
    }

    /// Nobody has registered the name yet.
    pub fn for_a_name(&mut self) {
        self.answer_others(false, None);
        let Some(seconds) = self.patience.is_over(Instant::now()) else { return };
        let (own, wanted) = (&self.own.name, self.wanted);
        base::log!(Notice, "'{own}' waits for '{wanted}' for {seconds} s: {}", self.why_no_name());
    }

    /// Why the name is not found, and which are there.
    pub fn why_no_name(&self) -> String {
        let place = self.lead.naming.describe();
        match &self.unreachable {
            Some((since, why)) => format!("since {} s {why}", since.elapsed().as_secs()),
            None => {
                let names = Names::find(&*self.lead.naming, Kind::Job, &self.own.name);
                let nothing = names.ours.is_empty() && names.of_others.iter().all(|(name, _)| name != self.wanted);
                let mend = if nothing { ": start that job, with the same MPI_CONNECT_NAMING" } else { "" };
                format!("nobody has registered that name in {place}; {}{mend}", names.in_words(self.wanted))
            }
        }
    }

    /// The name is there, and its job has not joined yet. `looks`: for whom it looks, as it says.
    pub fn for_a_job(&mut self, path: PathRef, looks: Option<&Looking>) {
        self.answer_others(true, Some(path));
        self.tell_elsewhere(looks);
        let Some(seconds) = self.patience.is_over(Instant::now()) else { return };
        let (own, wanted) = (&self.own.name, self.wanted);
        base::log!(Notice, "'{own}' waits for '{wanted}' for {seconds} s: {}", self.why_no_job(path));
    }

    /// Why a job that is registered has not joined.
    pub fn why_no_job(&self, path: PathRef) -> String {
        let why = match self.node.path_trouble(path) {
            None => format!("it is registered and can be reached, but did not join '{}'", self.own.name),
            Some((tried, own)) => {
                let tried = if tried.is_empty() { "it has not been tried yet".to_owned() } else { tried };
                let nor =
                    if own.is_empty() { String::new() } else { format!("; nor did it come to {}", list(&own, "")) };
                format!("it is registered, but cannot be reached: {tried}{nor}")
            }
        };
        why + &self.whom_it_waits_for()
    }

    /// That other job's own wish, if it is another.
    pub fn whom_it_waits_for(&self) -> String {
        self.elsewhere.as_ref().map_or_else(String::new, |(_, looks, _)| format!("; it waits for '{}'", looks.wanted))
    }

    /// Tells, once, that the other side looks for somebody else who is not there.
    fn tell_elsewhere(&mut self, looks: Option<&Looking>) {
        let Some(looks) = looks else {
            self.elsewhere = None;
            return;
        };
        if self.elsewhere.as_ref().is_none_or(|(_, before, _)| before != looks) {
            self.elsewhere = Some((Instant::now(), looks.clone(), false));
        }
        let (theirs, own) = (self.wanted, &self.own.name);
        let Some((since, looks, told)) = &mut self.elsewhere else { return };
        let other = &looks.wanted;
        let is_due = nearest(other, [own.as_str()]).is_some() || since.elapsed() >= SETTLED;
        if !looks.is_there && !*told && is_due {
            *told = true;
            base::log!(Notice, "'{theirs}' waits for '{other}'; this job is '{own}'");
        }
    }

    /// Others wait for this job, which looks for somebody else: they are told, and so is whoever reads our lines if the
    /// name that we look for is not there. `but`: the one with whom we talk.
    fn answer_others(&mut self, is_there: bool, but: Option<PathRef>) {
        let me: ProcId = self.own.me();
        let offers = self.node.with(|core| {
            let said = core.unheard(me).filter(|(path, _)| Some(*path) != but);
            said.filter_map(|(path, said)| Some((path, who_offers(said)?.name))).collect::<Vec<_>>()
        });
        self.others.retain(|other| offers.iter().any(|(path, _)| *path == other.path));
        for (path, name) in offers {
            if !self.others.iter().any(|other| other.path == path) {
                self.others.push(Other { path, name, since: Instant::now(), knows: None });
            }
        }
        let (own, wanted) = (&self.own.name, self.wanted);
        for other in &mut self.others {
            if other.knows != Some(is_there) {
                other.knows = Some(is_there);
                self.node.send_control(other.path, &looking(wanted, is_there));
            }
            let theirs = &other.name;
            let is_near = nearest(wanted, [theirs.as_str()]).is_some();
            let is_due = is_near || other.since.elapsed() >= SETTLED;
            if !is_there && is_due && self.told.is_new(theirs) {
                let meant = if is_near { format!("; did you mean '{theirs}'?") } else { String::new() };
                base::log!(Notice, "'{theirs}' waits for '{own}'; this job waits for '{wanted}'{meant}");
            }
        }
    }
}

/// What no waiting will mend, in words; `None`: it may be mended yet.
pub fn hopeless(obstacle: Obstacle, name: &str, record: &Record) -> Option<String> {
    // Its process is seen to live: so it is not its death that keeps us from its shared memory.
    let lives = || record.boot == naming::boot_id() && Path::new("/proc").join(record.pid.to_string()).exists();
    match obstacle {
        Obstacle::OffersNone { .. } if !lives() => None,
        obstacle => Some(format!("'{name}' can never be reached: {}", in_words(obstacle))),
    }
}

/// The same of whoever it is.
pub fn in_words(obstacle: Obstacle) -> String {
    match obstacle {
        Obstacle::Version { theirs, ours } => format!(
            "it speaks version {theirs} of the protocol, and this job version {ours}: both need the same version of MPI_Connect"
        ),
        Obstacle::NoneInCommon { theirs, ours } => {
            format!(
                "it has MPI_CONNECT_LANES={theirs}, and this job MPI_CONNECT_LANES={ours}: they have none in common"
            )
        }
        Obstacle::OffersNone { ours, title } => {
            format!("this job has MPI_CONNECT_LANES={ours}, and it offers no {title}: see its MPI_CONNECT_LANES")
        }
        Obstacle::OtherHost { ours } => format!("this job has MPI_CONNECT_LANES={ours}, and it is on another host"),
    }
}

/// The live names of one kind.
pub struct Names {
    /// Those of our run.
    ours: Vec<String>,
    /// Those of others, each with its run.
    of_others: Vec<(String, String)>,
}

impl Names {
    /// All but this one.
    pub fn find(naming: &dyn Naming, kind: Kind, but: &str) -> Names {
        let mut found = Names { ours: Vec::new(), of_others: Vec::new() };
        for (record, state) in naming.list().unwrap_or_default() {
            // What begins so is a note of this library's at a port.
            if state != State::Live || record.kind() != kind || record.name.starts_with(CALL) {
                continue;
            }
            if record.run != naming.run() {
                found.of_others.push((record.name, record.run));
            } else if record.name != but {
                found.ours.push(record.name);
            }
        }
        found
    }

    /// Which are there, and which of them was probably meant.
    pub fn in_words(&self, wanted: &str) -> String {
        let shown = list(self.ours.iter().take(MOST_NAMES).map(|name| format!("'{name}'")), "");
        if let Some((_, run)) = self.of_others.iter().find(|(name, _)| name == wanted) {
            return match run.as_str() {
                "" => format!("'{wanted}' is there without a run: give both jobs the same MPI_CONNECT_RUN"),
                run => format!("'{wanted}' is there in run '{run}': give both jobs the same MPI_CONNECT_RUN"),
            };
        }
        let mut said = match self.ours.len() {
            0 => "no other name is there".to_owned(),
            n if n > MOST_NAMES => format!("names there: {shown} and {} more", n - MOST_NAMES),
            _ => format!("names there: {shown}"),
        };
        if let Some(meant) = nearest(wanted, self.ours.iter().map(String::as_str)) {
            said += &format!("; did you mean '{meant}'?");
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_words() {
        let of_others = vec![("sea".to_owned(), "case7".to_owned())];
        let names =
            |all: &[&str]| Names { ours: all.iter().map(|n| n.to_string()).collect(), of_others: of_others.clone() };
        assert_eq!(names(&[]).in_words("ocaen"), "no other name is there");
        assert_eq!(names(&["ice", "ocean"]).in_words("ocaen"), "names there: 'ice', 'ocean'; did you mean 'ocean'?");
        assert_eq!(
            names(&["ice"]).in_words("sea"),
            "'sea' is there in run 'case7': give both jobs the same MPI_CONNECT_RUN"
        );
        let many: Vec<_> = (0..11).map(|i| format!("member-{i:02}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let said = names(&many).in_words("air");
        assert!(said.ends_with("'member-07' and 3 more"), "{said}");
    }

    #[test]
    fn strangers_are_told_of_once_for_a_name_and_not_for_ever() {
        let mut told = Told::default();
        let lines = (0..300).filter(|_| told.is_new("ocaen")).count();
        assert_eq!((lines, told.is_new("ocaen2")), (1, true));
        let lines = (0..300).filter(|n| told.is_new(&format!("stranger-{n}"))).count();
        assert_eq!(lines, MOST_STRANGERS - 2);
        assert!(!told.is_new("another") && told.0.len() == MOST_STRANGERS);
    }

    #[test]
    fn obstacles_in_words() {
        let dead = Record { pid: u32::MAX, ..Record::new("ocean") };
        let alive = Record::new("ocean");
        let (near, far) = (|| "shm".to_owned(), || "tcp".to_owned());
        let nothing = || Obstacle::OffersNone { ours: near(), title: "shared memory" };
        assert_eq!(hopeless(nothing(), "ocean", &dead), None);
        let said = |obstacle| hopeless(obstacle, "ocean", &alive).unwrap();
        assert!(said(nothing()).contains("this job has MPI_CONNECT_LANES=shm, and it offers no"));
        assert!(
            said(Obstacle::NoneInCommon { theirs: near(), ours: far() })
                .starts_with("'ocean' can never be reached: it has MPI_CONNECT_LANES=shm")
        );
        assert!(said(Obstacle::OtherHost { ours: near() }).ends_with("it is on another host"));
        let said = said(Obstacle::Version { theirs: 7, ours: 2 });
        assert!(said.contains("it speaks version 7 of the protocol, and this job version 2"), "{said}");
    }
}
