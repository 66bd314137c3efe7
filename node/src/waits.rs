//! Notices of long waits on stderr, with what the process that is waited for says of itself.
//!
//! Part of the core. A thread that waits is entered here with what it waits for. Other processes ask for that, and the
//! library answers without the program's help. Invariant: for a wait of less than [`PUBLISH_AFTER`], nothing is done
//! here.

use crate::state::Core;
use crate::state::waits::{About, Entered, Waited, Whom};
use engine::{Awaited, MAX_TOLD, PeerId, Tag, user_tag};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A wait is entered when it has lasted this long.
pub(crate) const PUBLISH_AFTER: Duration = Duration::from_millis(50);
/// The longest time between two notices of one wait.
const MOST_APART: Duration = Duration::from_secs(3600);
/// How long before a notice the other processes are asked; less if notices come faster.
const TO_ANSWER: Duration = Duration::from_secs(2);
/// How many things that one call waits for a notice names, how many peers, and how many calls an answer names.
const MOST_THINGS: usize = 3;
const MOST_PEERS: usize = 3;
const MOST_CALLS: usize = 2;
/// The shortest time between two answers to one process.
const ANSWER_APART: Duration = Duration::from_millis(20);
/// Processes for which one wait is counted at a time.
const MOST_AT_ONCE: usize = 64;

/// The notices of one wait. The time between two of them doubles, up to [`MOST_APART`].
pub(crate) struct Notices {
    /// The number of the wait in the table, once it is entered.
    number: Option<u64>,
    start: Instant,
    /// When the other processes are asked for the next notice.
    ask: Instant,
    /// When the next notice comes.
    tell: Instant,
    /// The time from the last notice to the next one.
    apart: Duration,
    /// Whether the other processes were asked for the next notice.
    asked: bool,
}

impl Notices {
    pub(crate) fn new(start: Instant, notice: Duration) -> Notices {
        let tell = start + notice;
        Notices { number: None, start, ask: tell - to_answer(notice), tell, apart: notice, asked: false }
    }

    /// Enters the wait, asks the other processes, or returns the text of a notice, whatever is due at this time.
    pub(crate) fn step(
        &mut self,
        core: &mut Core,
        now: Instant,
        about: &dyn Fn(&mut Core) -> Option<About>,
    ) -> Option<String> {
        let Some(number) = self.number else {
            self.number = about(core).map(|about| core.enter_wait(about, self.start));
            return None;
        };
        if now >= self.ask && !self.asked {
            self.asked = true;
            core.ask_awaited(number);
        }
        if now < self.tell {
            return None;
        }
        let text = core.describe_wait(number, now, self.ask);
        self.apart = (2 * self.apart).min(MOST_APART);
        self.tell = now + self.apart;
        self.ask = self.tell - to_answer(self.apart);
        self.asked = false;
        text
    }

    /// The wait is counted up to this time, and is for these from then on.
    pub(crate) fn counted(&self, core: &mut Core, now: Instant, whom: Whom) {
        if let Some(wait) = self.number.and_then(|number| core.waits.entered.get_mut(&number)) {
            wait.counted = Some((now, whom));
        }
    }

    /// Removes the wait from the table.
    pub(crate) fn end(&mut self, core: &mut Core) {
        if let Some(number) = self.number.take() {
            core.waits.entered.remove(&number);
        }
    }
}

/// How long before a notice the other processes are asked, given the time between two notices.
fn to_answer(notice: Duration) -> Duration {
    TO_ANSWER.min(notice / 2)
}

impl Core {
    /// Enters a wait in the table, which is not counted yet, and returns its number there.
    pub(crate) fn enter_wait(&mut self, about: About, since: Instant) -> u64 {
        self.waits.next += 1;
        self.waits.entered.insert(self.waits.next, Entered { about, since, counted: None });
        self.waits.next
    }

    /// For whom a wait is.
    pub(crate) fn whom(&self, about: &About) -> Whom {
        let remote = |peer: PeerId| self.session.pair(peer.0 as usize).remote();
        let mut peers: BTreeSet<_> = self.awaited_by(about).into_iter().map(remote).collect();
        let jobs = peers.iter().map(|peer| peer.incarnation).collect();
        if peers.len() > MOST_AT_ONCE {
            peers.clear();
        }
        Whom { jobs, peers }
    }

    /// Counts a part of a wait.
    pub(crate) fn count_wait(&mut self, whom: &Whom, time: Duration) {
        if !self.waits.waited.has_room(whom) {
            // Waits for jobs that are not known any more are counted in the sum alone.
            let known: BTreeSet<_> = self.session.pairs().map(|(_, pair)| pair.remote().incarnation).collect();
            let Waited { jobs, peers, .. } = &mut self.waits.waited;
            jobs.retain(|job, _| known.contains(job));
            peers.retain(|peer, _| known.contains(&peer.incarnation));
        }
        self.waits.waited.add(whom, time);
    }

    /// Counts the wait of MPI_Finalize up to now, and enters it first, if it has no number yet. Returns its number.
    pub(crate) fn count_end(&mut self, number: Option<u64>, since: Instant) -> u64 {
        let number = number.unwrap_or_else(|| self.enter_wait(About::end(self.operations.forgotten.clone()), since));
        let Some(Entered { about, counted, .. }) = self.waits.entered.get_mut(&number) else { return number };
        let (about, before) = (about.clone(), counted.take());
        let now = Instant::now();
        let from = before.map_or(since, |(from, whom)| {
            self.count_wait(&whom, now.saturating_duration_since(from));
            now
        });
        let whom = self.whom(&about);
        if let Some(wait) = self.waits.entered.get_mut(&number) {
            wait.counted = Some((from, whom));
        }
        number
    }

    /// How long calls have waited, those that wait now with them.
    pub(crate) fn waited(&self, now: Instant) -> Waited {
        let mut all = self.waits.waited.clone();
        for (since, whom) in self.waits.entered.values().filter_map(|wait| wait.counted.as_ref()) {
            all.add(whom, now.saturating_duration_since(*since));
        }
        all
    }

    /// The peers that a wait is for.
    pub(crate) fn awaited_by(&self, about: &About) -> BTreeSet<PeerId> {
        let mut peers = BTreeSet::new();
        for op in &about.ops {
            match self.session.engine.awaited(*op) {
                Some(Awaited::Message(ctx, source, _)) => peers.extend(self.session.engine.sources(ctx, source)),
                Some(
                    Awaited::Room(peer, _) | Awaited::Matched(peer, _) | Awaited::Taken(peer) | Awaited::Data(peer, ..),
                ) => {
                    peers.insert(peer);
                }
                Some(Awaited::Partitions) | None => {}
            }
        }
        if let Some((inter, source, _)) = about.probe {
            peers.extend(self.session.sources(inter, source).into_iter().map(|i| PeerId(i as u32)));
        }
        if about.deliveries {
            peers.extend(self.session.owing().map(|i| PeerId(i as u32)));
        }
        peers
    }

    /// Asks the peers of a wait what they wait for themselves.
    fn ask_awaited(&mut self, number: u64) {
        let Some(wait) = self.waits.entered.get(&number) else { return };
        let peers: Vec<_> = self.awaited_by(&wait.about).into_iter().take(MOST_PEERS).collect();
        for peer in peers {
            // A peer without a connection is not asked: the notice says that it is not connected.
            if self.session.pair(peer.0 as usize).lane().is_some() {
                self.session.engine.ask(peer);
            }
        }
        self.settle();
    }

    /// Answers a peer that has asked what this process waits for.
    pub(crate) fn tell_waits(&mut self, peer: PeerId) {
        let now = Instant::now();
        let time = self.time(now);
        let pair = self.session.pair_mut(peer.0 as usize);
        if pair.asks.answered_at.is_some_and(|at| time - at < ANSWER_APART) {
            return;
        }
        // A stranger gets no answer. A peer that has not acknowledged the last answer gets no further one, since all of
        // them would have to be retained.
        let (sent, acknowledged) = pair.path().sent_and_acknowledged();
        if pair.is_stranger() || acknowledged < pair.asks.answer_needs {
            return;
        }
        pair.asks.answered_at = Some(time);
        pair.asks.answer_needs = sent + 1;
        let calls: Vec<_> = self.waits.entered.values().collect();
        let mut said: Vec<_> =
            calls.iter().take(MOST_CALLS).map(|wait| self.say_wait(&wait.about, wait.since, now)).collect();
        match calls.len().saturating_sub(MOST_CALLS) {
            0 => (),
            1 => said.push("1 other call waits too".into()),
            more => said.push(format!("{more} other calls wait too")),
        }
        let text = if said.is_empty() {
            "is in no call that waits for another job".into()
        } else {
            format!("waits itself: {}", said.join("; "))
        };
        self.session.engine.tell(peer, beginning(&text).as_bytes());
    }

    /// Keeps the answer of a peer for the next notice.
    pub(crate) fn told(&mut self, peer: PeerId, bytes: &[u8]) {
        // The text is printed on a terminal.
        let text: String =
            String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let now = self.now();
        self.session.pair_mut(peer.0 as usize).asks.told = Some((text, now));
    }

    /// Describes a wait: `MPI_Recv has waited 60 s for ...`
    fn say_wait(&self, about: &About, since: Instant, now: Instant) -> String {
        format!("{} has waited {} s {}", about.call, (now - since).as_secs(), self.say_things(about))
    }

    /// Describes what a call waits for: `for ...`
    pub(crate) fn say_things(&self, about: &About) -> String {
        let mut things: Vec<_> =
            about.ops.iter().filter_map(|op| self.say_awaited(self.session.engine.awaited(*op)?)).collect();
        if let Some((inter, source, tag)) = about.probe {
            let from = self.say_sources(&self.session.sources(inter, source));
            things.push(format!("for a message from {from}{}", with_any_tag(tag)));
        }
        things.extend(about.else_for.clone());
        let more = things.len().saturating_sub(MOST_THINGS);
        things.truncate(MOST_THINGS);
        if more > 0 {
            things.push(format!("and for {more} more"));
        }
        if things.is_empty() { "for its own MPI".into() } else { things.join(", ") }
    }

    /// Describes what an operation waits for: `for a message from ...`
    fn say_awaited(&self, awaited: Awaited) -> Option<String> {
        let who = |peer: PeerId| self.session.pair(peer.0 as usize).remote();
        Some(match awaited {
            Awaited::Room(peer, tag) => {
                format!("to send to {}{}, which takes no more before it has received", who(peer), with_tag(tag))
            }
            Awaited::Matched(peer, tag) => {
                format!("for {} to receive what was sent{}", who(peer), with_tag(tag))
            }
            Awaited::Taken(peer) => format!("for {} to take the data of a message", who(peer)),
            Awaited::Message(ctx, source, tag) => {
                let peers = self.session.engine.sources(ctx, source).map(|peer| peer.0 as usize).collect::<Vec<_>>();
                format!("for a message from {}{}", self.say_sources(&peers), with_any_tag(tag))
            }
            Awaited::Data(peer, got, all) => format!("for the data of {}, {got} of {all} bytes are here", who(peer)),
            Awaited::Partitions => "for this program to mark all partitions".into(),
        })
    }

    /// Names the sources of a receive.
    fn say_sources(&self, pairs: &[usize]) -> String {
        match pairs {
            [] => "nobody".into(),
            [one] => self.session.pair(*one).remote().to_string(),
            [one, _] => format!("any source ({} or 1 other)", self.session.pair(*one).remote()),
            [one, more @ ..] => format!("any source ({} or {} others)", self.session.pair(*one).remote(), more.len()),
        }
    }

    /// The text of a notice, which says of each peer whether it has answered since `asked`. `None`: the wait is over.
    fn describe_wait(&self, number: u64, now: Instant, asked: Instant) -> Option<String> {
        let Entered { about, since, .. } = self.waits.entered.get(&number)?;
        let mut out = self.say_wait(about, *since, now);
        let peers = self.awaited_by(about);
        for peer in peers.iter().take(MOST_PEERS) {
            let i = peer.0 as usize;
            out += &format!("; {} {}", self.session.pair(i).remote(), self.say_state(i, now, asked));
        }
        match peers.len().saturating_sub(MOST_PEERS) {
            0 => (),
            1 => out += "; 1 more is waited for",
            more => out += &format!("; {more} more are waited for"),
        }
        Some(out)
    }

    /// Describes a peer: `is alive, and ...`
    fn say_state(&self, i: usize, now: Instant, asked: Instant) -> String {
        match (&self.session.pair(i).asks.told, self.describe_trouble(i)) {
            (_, Some(why)) if why.is_empty() => "is not connected".into(),
            (_, Some(why)) => format!("is not connected: {why}"),
            (Some((text, at)), None) if *at >= self.time(asked) => format!("is alive, and {text}"),
            _ => format!(
                "is connected, but has not answered for {} s: it may be stopped, or its host not reachable",
                (now - asked).as_secs_f64().ceil()
            ),
        }
    }
}

/// The beginning of a text, as much of it as an answer may contain.
fn beginning(text: &str) -> &str {
    let end = (0..=MAX_TOLD.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// ` with tag 5`, to be appended to a message. It is empty for the library's own tags, which belong to calls without a
/// tag.
pub fn with_tag(tag: i64) -> String {
    match user_tag(tag) {
        tag if tag < 0 => String::new(),
        tag => format!(" with tag {tag}"),
    }
}

/// As [`with_tag`], for a tag that may be `MPI_ANY_TAG`.
fn with_any_tag(tag: Tag) -> String {
    match tag {
        Tag::Any => " with any tag".into(),
        Tag::Is(tag) => with_tag(tag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, ContextId, Group, InterId, Layout, Node, ProcId, RemoteGroup, Source, Waits};
    use engine::{Mode, partitioned_tag};

    const LIMIT: Duration = Duration::from_secs(30);
    const MINUTE: Duration = Duration::from_secs(60);

    struct Job {
        node: Node,
        group: Group,
        room: [u8; 8],
    }

    fn job(incarnation: u64, name: &str) -> Job {
        let node = Node::start(Config::default()).unwrap();
        let group = Group { incarnation, cookie: [7; 16], rank: 0, size: 1 };
        node.add_group(group);
        base::ident::name_job(incarnation, name);
        Job { node, group, room: [0; 8] }
    }

    impl Job {
        fn open(&self, other: &Job) -> InterId {
            let Group { incarnation, cookie, .. } = other.group;
            let remote = RemoteGroup { incarnation, cookie, contacts: vec![other.node.contact()].into() };
            self.node.open(ProcId { incarnation: self.group.incarnation, rank: 0 }, &remote, ContextId::root(1))
        }

        fn room(&mut self) -> Layout {
            // SAFETY: the job outlives its operations.
            unsafe { Layout::contiguous(self.room.as_mut_ptr(), self.room.len()) }
        }

        fn until(&self, what: &str, mut done: impl FnMut(&mut Core) -> bool) {
            let end = Some(Instant::now() + LIMIT);
            assert!(self.node.wait_until(&mut || false, |core| done(core).then_some(()), end).is_some(), "{what}");
        }
    }

    fn step(job: &Job, notices: &mut Notices, about: &About, now: Instant) -> Option<String> {
        job.node.with(|core| notices.step(core, now, &|_| Some(about.clone())))
    }

    #[test]
    fn two_that_wait_for_each_other_are_told_of_both() {
        let (mut air, mut ocean) = (job(0xa1_0001, "air"), job(0x0c_0001, "ocean"));
        let (to_ocean, to_air) = (air.open(&ocean), ocean.open(&air));
        let room = air.room();
        let receive = air.node.irecv(to_ocean, Source::Any, Tag::Is(5), room);
        let room = ocean.room();
        let send = ocean.node.isend(to_air, 0, 6, room, Mode::Synchronous);
        let lane = |core: &mut Core| core.session.pair(0).lane().is_some();
        air.until("they are connected", lane);
        ocean.until("they are connected", lane);
        // As if both had begun a minute ago.
        let start = Instant::now().checked_sub(MINUTE).expect("the host is up for longer");
        let now = || Instant::now();
        let (mut of_air, mut of_ocean) = (Notices::new(start, MINUTE), Notices::new(start, MINUTE));
        let (waits, sends) = (About::op("MPI_Recv", receive), About::op("MPI_Ssend", send));
        assert_eq!(step(&ocean, &mut of_ocean, &sends, now()), None);
        assert_eq!(step(&air, &mut of_air, &waits, now()), None);
        // Asked, and answered though the other's program does nothing.
        assert_eq!(step(&air, &mut of_air, &waits, start + MINUTE - TO_ANSWER), None);
        air.until("an answer", |core| core.session.pair(0).asks.told.is_some());
        let said = step(&air, &mut of_air, &waits, now()).expect("a minute has passed");
        let right = "MPI_Recv has waited 60 s for a message from rank 0 of 'ocean' with tag 5; rank 0 of 'ocean' is alive, \
                     and waits itself: MPI_Ssend has waited 60 s for rank 0 of 'air' to receive what was sent with tag 6";
        assert_eq!(said, right);
        // The next one comes after two minutes more, and asks again.
        assert_eq!(step(&air, &mut of_air, &waits, now() + MINUTE), None);
        let later = now() + 2 * MINUTE;
        let said = step(&air, &mut of_air, &waits, later).expect("two minutes more");
        assert!(said.starts_with("MPI_Recv has waited 180 s") && said.contains("has not answered for"), "{said}");
        // One that computes.
        ocean.node.with(|core| of_ocean.end(core));
        air.node.with(|core| of_air.end(core));
        of_air = Notices::new(start, MINUTE);
        air.node.with(|core| core.session.pair_mut(0).asks.told = None);
        ocean.node.with(|core| core.session.pair_mut(0).asks.answered_at = None);
        step(&air, &mut of_air, &waits, now());
        step(&air, &mut of_air, &waits, start + MINUTE - TO_ANSWER);
        air.until("an answer", |core| core.session.pair(0).asks.told.is_some());
        let said = step(&air, &mut of_air, &waits, now()).expect("a minute has passed");
        assert!(said.ends_with("rank 0 of 'ocean' is alive, and is in no call that waits for another job"), "{said}");
        // One that waits for a third job.
        ocean.node.with(|core| core.session.pair_mut(0).asks.answered_at = None);
        air.node.with(|core| core.session.pair_mut(0).asks.told = None);
        let _joins = Waits::begin(&ocean.node, "MPI_Conn_intercomm_create", "for job 'ice'".into());
        air.node.with(|core| core.session.engine.ask(PeerId(0)));
        air.until("an answer", |core| core.session.pair(0).asks.told.is_some());
        let told = air.node.with(|core| core.session.pair(0).asks.told.clone()).unwrap().0;
        assert_eq!(told, "waits itself: MPI_Conn_intercomm_create has waited 0 s for job 'ice'");
        air.node.with(|core| of_air.end(core));
        assert!(air.node.with(|core| core.waits.entered.is_empty()));
        assert!(air.node.cancel(receive));
        ocean.node.close(to_air);
    }

    #[test]
    fn the_tags_of_the_library_are_not_told() {
        let (mut air, ocean) = (job(0xa1_0003, "air"), job(0x0c_0003, "ocean"));
        let to_ocean = air.open(&ocean);
        let room = air.room();
        let receive = air.node.irecv(to_ocean, Source::Rank(0), Tag::Is(-3), room);
        let room = air.room();
        let send = air.node.isend(to_ocean, 0, -2, room, Mode::Synchronous);
        let say = |about: &About| air.node.with(|core| core.say_wait(about, Instant::now(), Instant::now()));
        assert_eq!(
            say(&About::op("MPI_Barrier", receive)),
            "MPI_Barrier has waited 0 s for a message from rank 0 of 'ocean'"
        );
        assert_eq!(
            say(&About::op("MPI_Bcast", send)),
            "MPI_Bcast has waited 0 s for rank 0 of 'ocean' to receive what was sent"
        );
        assert_eq!(
            say(&About::probe("MPI_Probe", to_ocean, Source::Any, Tag::Is(partitioned_tag(7, 0)))),
            "MPI_Probe has waited 0 s for a message from rank 0 of 'ocean' with tag 7"
        );
        air.node.cancel(receive);
        air.node.kill();
    }

    #[test]
    fn sources_are_told_with_how_many_others() {
        let (air, ocean, ice) = (job(0xa1_0004, "air"), job(0x0c_0004, "ocean"), job(0x1c_0004, "ice"));
        for other in [&ocean, &ice] {
            air.open(other);
        }
        let said = |pairs: &[usize]| air.node.with(|core| core.say_sources(pairs));
        assert_eq!(said(&[0]), "rank 0 of 'ocean'");
        assert_eq!(said(&[0, 1]), "any source (rank 0 of 'ocean' or 1 other)");
        assert_eq!(said(&[0, 1, 1]), "any source (rank 0 of 'ocean' or 2 others)");
        air.node.kill();
    }

    #[test]
    fn whoever_is_not_there_is_told_as_that_and_text_of_others_is_plain() {
        let (mut air, ocean) = (job(0xa1_0002, "air"), job(0x0c_0002, "ocean"));
        let to_ocean = air.open(&ocean);
        ocean.node.kill();
        let room = air.room();
        let receive = air.node.irecv(to_ocean, Source::Rank(0), Tag::Any, room);
        let start = Instant::now().checked_sub(MINUTE).expect("the host is up for longer");
        let (mut notices, waits) = (Notices::new(start, MINUTE), About::op("MPI_Wait", receive));
        step(&air, &mut notices, &waits, start);
        let said = step(&air, &mut notices, &waits, start + MINUTE).expect("a minute has passed");
        let begin = "MPI_Wait has waited 60 s for a message from rank 0 of 'ocean' with any tag; rank 0 of 'ocean' is not connected";
        assert!(said.starts_with(begin), "{said}");
        air.node.with(|core| core.told(PeerId(0), b"a\x1b[2Jb\n\xff"));
        let told = air.node.with(|core| core.session.pair(0).asks.told.clone()).unwrap().0;
        assert_eq!(told, "a?[2Jb?\u{fffd}");
        assert_eq!(beginning(&"ä".repeat(MAX_TOLD)).len(), MAX_TOLD);
        // However often a process asks, at most two answers are retained for it if it takes none.
        let kept = air.node.with(|core| {
            let before = core.session.pair(0).path().unacknowledged();
            for _ in 0..10 {
                core.session.pair_mut(0).asks.answered_at = None;
                core.tell_waits(PeerId(0));
                core.settle();
            }
            core.session.pair(0).path().unacknowledged() - before
        });
        assert!((1..=2).contains(&kept), "{kept} answers are kept");
        air.node.cancel(receive);
    }
}
