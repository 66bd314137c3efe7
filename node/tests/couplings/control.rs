//! Operators: commands reach each process of a job, whatever the others do, and have one outcome.

use crate::common::operators::{SECRET, Team, connect, give, give_as, hear, request};
use crate::common::{Job, LONG, addresses, got, member, over, proved};
use base::ProcId;
use node::Hold;
use node::figures::{Addressee, Answer, Command, Outcome, Report, Request, What};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn outcomes(answer: Answer) -> (bool, Vec<Outcome>) {
    match answer {
        Answer::Outcomes { repeated, outcomes } => (repeated, outcomes),
        other => panic!("{other:?}"),
    }
}

fn reports(answer: Answer) -> Vec<(u32, Report)> {
    let report = |outcome: Outcome| match outcome.what {
        What::Report(report) => (outcome.rank, *report),
        other => panic!("{other:?}"),
    };
    outcomes(answer).1.into_iter().map(report).collect()
}

/// All processes of a job answer, through each other, though no program makes any call.
#[test]
fn every_process_reports() {
    let team = Team::new(20, "tree", &[]);
    let answer = give(&team.leader(), &request("tree", 1, Command::Lanes));
    let ranks: Vec<u32> = reports(answer).iter().map(|(rank, _)| *rank).collect();
    assert_eq!(ranks, (0..20).collect::<Vec<_>>());
    assert_eq!(give(&team.leader(), &request("trees", 1, Command::Lanes)), Answer::NoSuchJob);
    let elsewhere = Request { to: Addressee::Passed(team.incarnation, 3, SECRET), ..request("", 1, Command::Lanes) };
    assert_eq!(give(&team.leader(), &elsewhere), Answer::NoSuchJob, "it is rank 0");
}

#[test]
fn figures_are_those_of_the_messages() {
    over(crate::common::TCP);
    let (a, b) = (Job::new(), Job::new());
    base::ident::name_job(a.group.incarnation, "air");
    base::ident::name_job(b.group.incarnation, "ocean");
    a.node.lead(a.group.incarnation, "air", vec![a.node.contact()], SECRET);
    let (to_b, to_a) = crate::common::couple(&a, &b);
    let large = vec![1; 1 << 20];
    let mut room = vec![0; 1 << 20];
    let mut small = [0; 8];
    let ops = [a.send(to_b, 1, &large), a.send(to_b, 2, &[2; 8])];
    let receives = [b.recv(to_a, 1, &mut room), b.recv(to_a, 2, &mut small)];
    assert_eq!(receives.map(|op| b.wait(op)), [got(1 << 20, 1), got(8, 2)]);
    ops.into_iter().for_each(|op| assert_eq!(a.wait(op), node::Outcome::Sent));
    let mut never = [0; 8];
    let waits = a.recv(to_b, 9, &mut never);
    let all = reports(give(&a.node.contact(), &request("air", 1, Command::Lanes)));
    let [(0, report)] = &all[..] else { panic!("{all:?}") };
    let [pair] = &report.pairs[..] else { panic!("{report:?}") };
    assert_eq!((pair.incarnation, pair.rank, &*pair.transport), (b.group.incarnation, 0, "tcp"));
    assert_eq!((pair.sent.messages, pair.sent.bytes, pair.received.messages), (2, (1 << 20) + 8, 0));
    assert_eq!((pair.posted, pair.unexpected), (1, 0));
    assert!(pair.round_trip.is_some(), "the kernel has measured it");
    let [job] = &report.jobs[..] else { panic!("{report:?}") };
    assert_eq!((&*job.name, job.carried.len()), ("ocean", 1));
    assert_eq!((job.carried[0].pairs, job.carried[0].sent), (1, pair.sent));
    assert!(a.node.cancel(waits));
}

/// What was carried before a lane was lost is counted once, and a transport keeps what it has carried.
#[test]
fn sums_outlive_lanes() {
    over(crate::common::TCP);
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = crate::common::couple(&a, &b);
    let mut room = [0; 8];
    for round in 1..=3 {
        let op = b.recv(to_a, 1, &mut room);
        a.send(to_b, 1, &[1; 8]);
        assert_eq!(b.wait(op), got(8, 1));
        let report = a.node.report(a.group.incarnation);
        let carried = &report.jobs[0].carried;
        assert_eq!((carried.len(), carried[0].sent.messages, carried[0].sent.bytes), (1, round, 8 * round));
        assert!(a.node.inspect(|core| core.cut(a.id(), b.id())));
    }
}

#[test]
fn a_wait_is_told_while_it_lasts_and_counted_for_whom_it_was() {
    let (a, b) = (Job::new(), Job::new());
    a.node.lead(a.group.incarnation, "waits", vec![a.node.contact()], SECRET);
    let (to_b, to_a) = crate::common::couple(&a, &b);
    let leader = a.node.contact();
    let waiting = std::thread::spawn(move || {
        let mut room = [0; 8];
        let op = a.recv(to_b, 1, &mut room);
        let about = move |_: &mut node::Core| Some(node::About::op("MPI_Recv", op));
        a.node.wait_about(&mut || false, &about, |core| core.test(op));
        a
    });
    let end = Instant::now() + LONG;
    let wait = loop {
        let all = reports(give(&leader, &request("waits", 1, Command::Lanes)));
        if let [wait] = &all[0].1.waits[..] {
            break wait.clone();
        }
        assert!(Instant::now() < end, "the wait is told");
    };
    assert_eq!((&*wait.call, &wait.peers[..]), ("MPI_Recv", &[(b.group.incarnation, 0)][..]));
    b.send(to_a, 1, &[1; 8]);
    let a = waiting.join().unwrap();
    let report = a.node.report(a.group.incarnation);
    assert!(
        report.waits.is_empty() && report.waited >= wait.since && report.pairs[0].waited >= wait.since,
        "{report:?} {wait:?}"
    );
    assert_eq!(report.pairs[0].waited, report.jobs[0].waited);
}

/// A wait for several counts for each of them, until it has done its part.
#[test]
fn a_wait_for_several_is_counted_for_each_that_is_still_awaited() {
    let (a, b, c) = (Job::new(), Job::new(), Job::new());
    a.node.lead(a.group.incarnation, "several", vec![a.node.contact()], SECRET);
    let ((to_b, b_to_a), (to_c, c_to_a)) = (crate::common::couple(&a, &b), crate::common::couple(&a, &c));
    let leader = a.node.contact();
    let waiting = std::thread::spawn(move || {
        let mut rooms = [[0; 8]; 2];
        let [one, other] = &mut rooms;
        let ops = vec![a.recv(to_b, 1, one), a.recv(to_c, 1, other)];
        let (mut left, all) = (ops.clone(), ops);
        let about = move |_: &mut node::Core| Some(node::About::ops("MPI_Waitall", all.clone()));
        a.node.wait_about(&mut || false, &about, |core| {
            left.retain(|op| core.test(*op).is_none());
            left.is_empty().then_some(())
        });
        a
    });
    let end = Instant::now() + LONG;
    let until = |what: &str, is: &dyn Fn(u64, u64) -> bool| loop {
        let all = reports(give(&leader, &request("several", 1, Command::Lanes)));
        let waited = |of: &Job| {
            all[0].1.pairs.iter().find(|pair| pair.incarnation == of.group.incarnation).map_or(0, |pair| pair.waited)
        };
        if is(waited(&b), waited(&c)) {
            break (waited(&b), waited(&c));
        }
        assert!(Instant::now() < end, "{what}: {all:?}");
    };
    until("both are awaited", &|b, c| b > 100_000 && c > 100_000);
    b.send(b_to_a, 1, &[1; 8]);
    let (of_b, of_c) = until("one is awaited longer", &|b, c| c > b + 200_000);
    c.send(c_to_a, 1, &[1; 8]);
    let a = waiting.join().unwrap();
    let report = a.node.report(a.group.incarnation);
    let waited = |of: &Job| report.pairs.iter().find(|pair| pair.incarnation == of.group.incarnation).unwrap().waited;
    assert!(waited(&b) == of_b && waited(&c) >= of_c && report.waited >= waited(&c), "{of_b} {of_c} {report:?}");
    assert!(report.waited < waited(&b) + waited(&c), "{report:?}");
}

/// A process that does not answer is told as that, those behind it answer all the same, and it obeys when it goes on: the
/// commands in their order.
#[test]
fn a_stopped_process_is_told_and_obeys_later() {
    let team = Team::new(20, "stopped", &[1, 5]);
    let (repeated, all) = outcomes(give(&team.leader(), &request("stopped", 1, Command::Hold)));
    let silent: Vec<u32> = all.iter().filter(|o| o.what == What::NotAnswering).map(|o| o.rank).collect();
    assert_eq!((repeated, all.len(), &silent[..]), (false, 20, &[1, 5][..]));
    let begun = Instant::now();
    // A resume would replace the hold.
    let (_, all) = outcomes(give(&team.leader(), &request("stopped", 2, Command::Use("tcp".into()))));
    assert_eq!(all.iter().filter(|o| o.what == What::NotAnswering).count(), 2);
    assert!(begun.elapsed() < Duration::from_secs(3), "it is known that they do not answer");
    // They go on. What has become of both commands there, is told to who repeats them.
    let end = Instant::now() + LONG;
    for rank in [1, 5] {
        let node = &team.nodes[rank as usize];
        let (contact, done) = (node.contact(), Arc::new(AtomicU64::new(0)));
        let (told, incarnation) = (done.clone(), team.incarnation);
        let asks = std::thread::spawn(move || {
            for id in [1, 2] {
                loop {
                    let to = Addressee::Passed(incarnation, rank, SECRET);
                    // Not the next one: only what was done before is told.
                    let again = Request { to, serial: 1, ..request("", id, Command::Resume) };
                    let again = Request { serial: if id == 1 { 0 } else { 1 }, ..again };
                    let (repeated, all) = outcomes(give(&contact, &again));
                    if repeated && all[0].what != What::Overtaken {
                        break;
                    }
                    assert!(Instant::now() < end, "it obeys");
                }
            }
            told.store(1, Ordering::Relaxed);
        });
        while done.load(Ordering::Relaxed) == 0 {
            assert!(Instant::now() < end, "it obeys");
            node.look(&mut || false, |_| None::<()>);
            std::thread::yield_now();
        }
        asks.join().unwrap();
    }
}

/// However many commands are given to a process that is stopped, it is as the last one wants when it goes on.
#[test]
fn the_last_of_many_commands_for_a_stopped_process_counts() {
    let team = Team::new(3, "many", &[1]);
    for id in 0..=40 {
        let command = if id % 2 == 0 { Command::Hold } else { Command::Resume };
        let (_, all) = outcomes(give(&team.leader(), &request("many", id, command)));
        assert_eq!(all[1].what, What::NotAnswering, "it is kept for it");
    }
    // What is not kept is told: orders for single ranks do not replace each other.
    let refused = (100..120).any(|id| {
        let switch = Command::Switch { transport: "tcp".into(), peer: None, rank: Some(id.into()), peer_rank: None };
        let (_, all) = outcomes(give(&team.leader(), &request("many", id, switch)));
        matches!(&all[1].what, What::Refused(why) if why.contains("16 commands wait for it already"))
    });
    assert!(refused);
    let (goes_on, end) = (&team.nodes[1], Instant::now() + LONG);
    while goes_on.inspect(|core| core.is_held()) == Hold::No {
        assert!(Instant::now() < end, "the last command comes");
        goes_on.look(&mut || false, |_| None::<()>);
        std::thread::yield_now();
    }
}

#[test]
fn a_dead_process_is_told_as_dead() {
    let team = Team::new(12, "dead", &[]);
    team.nodes[2].kill();
    let (_, all) = outcomes(give(&team.leader(), &request("dead", 1, Command::Lanes)));
    let dead: Vec<u32> = all.iter().filter(|o| matches!(o.what, What::Dead(_))).map(|o| o.rank).collect();
    assert_eq!((all.len(), &dead[..]), (12, &[2][..]));
    assert_eq!(all.iter().filter(|o| matches!(o.what, What::Report(_))).count(), 11);
}

/// One of the processes dies while commands go through it.
#[test]
fn a_process_that_dies_in_the_middle_keeps_nobody_else_from_obeying() {
    let team = Team::new(16, "dies", &[]);
    let victim = team.nodes[2].clone();
    let kills = std::thread::spawn(move || victim.kill());
    let mut seen_dead = false;
    for id in 0..20 {
        let (_, all) = outcomes(give(&team.leader(), &request("dies", id, Command::Hold)));
        assert_eq!(all.len(), 16, "each has an outcome");
        for one in &all {
            match &one.what {
                What::Done(_) => (),
                What::Dead(_) | What::NotAnswering if one.rank == 2 => seen_dead = true,
                other => panic!("rank {}: {other:?}", one.rank),
            }
        }
    }
    kills.join().unwrap();
    assert!(seen_dead);
}

#[test]
fn a_repeated_command_has_the_outcome_of_the_first() {
    let team = Team::new(3, "again", &[]);
    let hold = request("again", 1, Command::Hold);
    let (first, all) = outcomes(give(&team.leader(), &hold));
    let (second, same) = outcomes(give(&team.leader(), &hold));
    assert_eq!((first, second), (false, true));
    assert_eq!(all, same);
}

#[test]
fn two_operators_at_once_are_both_told() {
    let team = Team::new(9, "two", &[]);
    let leader = team.leader();
    let operators: Vec<_> = (0..6)
        .map(|id| {
            let leader = leader.clone();
            // As the command does: again, while the turns of this host are taken.
            let again = move || {
                let end = Instant::now() + LONG;
                loop {
                    match give_as(id + 1, &leader, &request("two", id, Command::Hold)) {
                        Answer::Busy => assert!(Instant::now() < end, "its turn comes"),
                        answer => return outcomes(answer),
                    }
                }
            };
            std::thread::spawn(again)
        })
        .collect();
    for operator in operators {
        let (repeated, all) = operator.join().unwrap();
        assert!(!repeated && all.len() == 9 && all.iter().all(|o| matches!(o.what, What::Done(_))), "{all:?}");
    }
}

#[test]
fn what_cannot_be_read_is_answered_with_that() {
    let team = Team::new(1, "nonsense", &[]);
    let mut stream = connect(&team.leader()).unwrap();
    stream.say(b"nonsense");
    assert_eq!(hear(&mut stream), Answer::Malformed);
    // Who has proved the key for frames has not for commands, and the reverse: the greeting chooses.
    assert!(proved(addresses(&team.nodes[0])[0], &member(3)).is_ok());
}

/// The figures that count are those with which a member leaves, and until then the last ones.
#[test]
fn members_that_finalize_tell_their_leader() {
    let team = Team::new(4, "sums", &[]);
    let until = Instant::now() + LONG;
    let me = |rank| ProcId { incarnation: team.incarnation, rank };
    for rank in 1..4 {
        assert!(team.nodes[rank as usize].tell_figures(me(rank), &team.leader(), until));
    }
    // One is still about to deliver something.
    for rank in 1..3 {
        assert!(team.nodes[rank as usize].tell_left(me(rank), &team.leader(), true, until));
    }
    let short = Duration::from_millis(200);
    let sums = team.nodes[0].told_by_members(team.incarnation, 4, short);
    assert_eq!(sums.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(team.nodes[3].tell_left(me(3), &team.leader(), true, until));
    let begun = Instant::now();
    let sums = team.nodes[0].told_by_members(team.incarnation, 4, LONG);
    assert_eq!(sums.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [3], "those before were taken");
    assert!(begun.elapsed() < LONG, "all have left");
    team.nodes[0].kill();
    assert!(!team.nodes[1].tell_figures(me(1), &team.leader(), until), "and do not wait for one that is gone");
}

/// A member that has finalized is not taken for dead, and what is ordered of the others is done by all.
#[test]
fn a_process_that_has_finalized_is_told_as_that() {
    let team = Team::new(4, "left", &[]);
    let me = ProcId { incarnation: team.incarnation, rank: 2 };
    assert!(team.nodes[2].tell_left(me, &team.leader(), false, Instant::now() + LONG));
    team.nodes[2].kill();
    team.nodes[3].kill();
    let (_, all) = outcomes(give(&team.leader(), &request("left", 1, Command::Hold)));
    let ranks: Vec<u32> = all.iter().map(|one| one.rank).collect();
    assert_eq!(ranks, [0, 1, 2, 3]);
    assert!(matches!(all[1].what, What::Done(_)) && matches!(all[3].what, What::Dead(_)), "{all:?}");
    assert!(matches!(&all[2].what, What::Left(how) if how.contains("MPI_Finalize")), "{all:?}");
}

/// A leader that was stopped does nothing for an operator who has left meanwhile, and was told so.
#[test]
fn a_command_whose_operator_has_left_before_it_begins_is_not_done() {
    let team = Team::new(2, "stopped", &[]);
    let hold = request("stopped", 1, Command::Hold);
    let mut stream = connect(&team.leader()).unwrap();
    // As if it were stopped: nothing goes on without the lock.
    team.nodes[0].inspect(|_| {
        stream.say(&hold.encode());
        while !stream.flush().unwrap() {
            std::thread::yield_now();
        }
        drop(stream);
    });
    // It comes again, as the command comes whose connection is lost.
    let (repeated, _) = outcomes(give(&team.leader(), &hold));
    assert!(!repeated, "it had not been done");
}
