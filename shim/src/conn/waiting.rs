//! Notices of a leader that waits for another job: what it waits for, where it looks, and what prevents the connection.
//!
//! Invariants: nothing here decides how long a call waits; no notice is printed before the call has waited for seconds,
//! except those that users of both jobs would want at once.

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

/// The most names that a notice shows.
const MOST_NAMES: usize = 8;
/// The most jobs that wait for this one of which notices are printed, one for each name: a stranger may come under any
/// name.
const MOST_STRANGERS: usize = 16;
/// If two names are unlike, no name was mistyped: the job that is looked for may be about to register, so the notice
/// comes only after this time.
const SETTLED: Duration = Duration::from_secs(1);

/// A call that waits for another job.
pub struct Waiting<'a> {
    node: &'a Node,
    own: &'a Registration,
    lead: &'a Lead,
    wanted: &'a str,
    patience: Patience,
    /// The jobs that wait for this one meanwhile.
    others: Vec<Other>,
    told: Told,
    /// Since when no naming server answers, and the last notice of that.
    unreachable: Option<(Instant, String)>,
    /// Since when the job that we wait for looks for another one, which one, and whether there was a notice of it.
    elsewhere: Option<(Instant, Looking, bool)>,
}

struct Other {
    path: PathRef,
    name: String,
    since: Instant,
    /// What this job was told: whether the name that we look for is registered.
    knows: Option<bool>,
}

/// The names of which there were notices.
#[derive(Default)]
struct Told(Vec<String>);

impl Told {
    /// Whether a notice of this name is due now.
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

    /// Says whether the naming service has answered, or why not.
    pub fn asked(&mut self, failure: Option<String>) {
        match failure {
            Some(why) => self.unreachable = Some((self.unreachable.take().map_or_else(Instant::now, |(t, _)| t), why)),
            None => self.unreachable = None,
        }
    }

    /// Prints the notices that are due while the name is not registered.
    pub fn for_a_name(&mut self) {
        self.answer_others(false, None);
        let Some(seconds) = self.patience.is_over(Instant::now()) else { return };
        let (own, wanted) = (&self.own.name, self.wanted);
        base::log!(Notice, "'{own}' waits for '{wanted}' for {seconds} s: {}", self.why_no_name());
    }

    /// Why the name is not found, and which names are registered.
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

    /// Prints the notices that are due while the name is registered and its job has not joined. `looks` is the job that
    /// it looks for, as it says.
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

    /// The job that the other one waits for, if it is not this one.
    pub fn whom_it_waits_for(&self) -> String {
        self.elsewhere.as_ref().map_or_else(String::new, |(_, looks, _)| format!("; it waits for '{}'", looks.wanted))
    }

    /// Prints, once, that the other side looks for a third job that is not registered.
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

    /// Answers the other jobs that wait for this one, which looks for another. If the name that we look for is not
    /// registered, a notice is printed here too. `but` is the path on which this job negotiates.
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

/// The obstacle in words, if waiting cannot help. `None`: waiting may help.
pub fn hopeless(obstacle: Obstacle, name: &str, record: &Record) -> Option<String> {
    // The process is alive on this host, so its death is not the reason why its shared memory cannot be used.
    let lives = || record.boot == naming::boot_id() && Path::new("/proc").join(record.pid.to_string()).exists();
    match obstacle {
        Obstacle::OffersNone { .. } if !lives() => None,
        obstacle => Some(format!("'{name}' can never be reached: {}", in_words(obstacle))),
    }
}

/// The obstacle in words, without the name of the other job.
pub fn in_words(obstacle: Obstacle) -> String {
    match obstacle {
        Obstacle::Version { theirs, ours } => format!(
            "it speaks version {theirs} of the protocol, and this job version {ours}: both need the same version of MPI_Connect"
        ),
        Obstacle::Untrusted { why } => why,
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
    /// The names of our run.
    ours: Vec<String>,
    /// The names of other runs, each with its run.
    of_others: Vec<(String, String)>,
}

impl Names {
    /// All live names of this kind except one.
    pub fn find(naming: &dyn Naming, kind: Kind, but: &str) -> Names {
        let mut found = Names { ours: Vec::new(), of_others: Vec::new() };
        for (record, state) in naming.list().unwrap_or_default() {
            // A name that begins so is a dial request of this library.
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

    /// A text that lists these names, and says which of them was probably meant.
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
