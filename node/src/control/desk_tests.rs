//! What the desk promises to those that share it.

use super::*;
use wire::control::{Addressee, Command};

const LONG: Duration = Duration::from_secs(30);

fn desk() -> Desk {
    let desk = Desk::default();
    desk.lead(7, "air", vec![contact()], [5; 16]);
    desk
}

fn contact() -> Contact {
    Contact::new([1; 16], [0; 16], [])
}

fn later(limit: Duration) -> Instant {
    Instant::now() + limit
}

fn of_nobody(desk: &Desk, until: Instant) -> Visit<'_> {
    of(desk, 0, until)
}

/// Of the process of this number, of which each has a host of its own.
fn of(desk: &Desk, n: u8, until: Instant) -> Visit<'_> {
    let asker = Asker { process: [n; 16], from: Some([10, 0, 0, n].into()) };
    Visit::of(desk, asker, n.into(), until)
}

#[test]
fn a_repeated_command_has_the_first_outcome() {
    let desk = desk();
    assert!(matches!(desk.give(7, [1; 16], &of_nobody(&desk, later(LONG))), Given::Next(1)));
    desk.given(7, [1; 16], &Answer::Malformed);
    assert!(matches!(desk.give(7, [1; 16], &of_nobody(&desk, later(LONG))), Given::Before(Answer::Malformed)));
    assert!(matches!(desk.give(7, [2; 16], &of_nobody(&desk, later(LONG))), Given::Next(2)));
}

#[test]
fn two_operators_have_their_turns() {
    let desk = Arc::new(desk());
    assert!(matches!(desk.give(7, [1; 16], &of_nobody(&desk, later(LONG))), Given::Next(1)));
    assert!(matches!(desk.give(7, [2; 16], &of_nobody(&desk, Instant::now())), Given::Busy), "the first is under way");
    let (second, same) = (desk.clone(), desk.clone());
    let second =
        std::thread::spawn(move || matches!(second.give(7, [2; 16], &of_nobody(&second, later(LONG))), Given::Next(2)));
    let same = std::thread::spawn(move || {
        matches!(same.give(7, [1; 16], &of_nobody(&same, later(LONG))), Given::Before(Answer::Busy))
    });
    desk.given(7, [1; 16], &Answer::Busy);
    assert!(second.join().unwrap() && same.join().unwrap());
}

#[test]
fn an_older_command_is_overtaken_and_a_repeated_one_is_not_done_again() {
    let desk = desk();
    assert!(matches!(desk.pass(7, [2; 16], 2, &of_nobody(&desk, later(LONG))), Passed::Next));
    desk.passed(7, [2; 16], &What::Done(String::new()));
    assert!(matches!(desk.pass(7, [1; 16], 1, &of_nobody(&desk, later(LONG))), Passed::Before(What::Overtaken)));
    assert!(matches!(desk.pass(7, [2; 16], 2, &of_nobody(&desk, later(LONG))), Passed::Before(What::Done(_))));
    assert!(matches!(desk.pass(8, [2; 16], 1, &of_nobody(&desk, later(LONG))), Passed::Next), "another group");
    assert!(
        matches!(desk.pass(8, [2; 16], 1, &of_nobody(&desk, Instant::now())), Passed::Before(What::UnderWay(_))),
        "under way"
    );
}

#[test]
fn what_is_remembered_is_bounded() {
    let desk = desk();
    for n in 0..200u8 {
        assert!(matches!(desk.give(7, [n; 16], &of_nobody(&desk, later(LONG))), Given::Next(_)));
        desk.given(7, [n; 16], &Answer::Malformed);
        assert!(matches!(desk.pass(7, [n; 16], u64::from(n) + 1, &of_nobody(&desk, later(LONG))), Passed::Next));
        let _ = desk.bring_later((7, n.into()), &contact(), request(n, Command::Hold));
        let _ = desk.bring_later((7, 0), &contact(), switch(n));
    }
    let state = desk.lock();
    assert_eq!((state.given.len(), state.obeyed.len(), state.late.len()), (MOST_GIVEN, MOST_GIVEN, MOST_LATE));
    assert_eq!(state.late[&(7, 0)].requests.len(), MOST_LATE_EACH);
}

fn request(n: u8, command: Command) -> Request {
    Request { id: [n; 16], serial: n.into(), limit: 1, to: Addressee::Member(7, 0), command, members: Vec::new() }
}

/// An order for one rank: another one does not replace it.
fn switch(n: u8) -> Request {
    let command = Command::Switch { transport: "tcp".into(), peer: None, rank: Some(n.into()), peer_rank: None };
    request(n, command)
}

#[test]
fn the_last_command_for_a_stopped_process_is_kept_or_refused() {
    let desk = desk();
    for n in 0..200u8 {
        let command = if n % 2 == 0 { Command::Hold } else { Command::Resume };
        assert_eq!(desk.bring_later((7, 1), &contact(), request(n, command)), Ok(n == 0), "{n}");
    }
    let kept = |desk: &Desk| desk.late().unwrap()[0].1.requests.iter().map(|one| one.id[0]).collect::<Vec<_>>();
    assert_eq!(kept(&desk), [199]);
    for n in 0..15 {
        assert_eq!(desk.bring_later((7, 1), &contact(), switch(n)), Ok(false));
    }
    assert_eq!(desk.bring_later((7, 1), &contact(), switch(15)), Err(NotKept::Commands));
    assert_eq!(desk.bring_later((7, 1), &contact(), request(16, Command::Hold)), Ok(false), "it replaces the resume");
    assert_eq!(kept(&desk).len(), MOST_LATE_EACH);
    // One that is replaced on its way is not there any more when it arrives.
    desk.brought((7, 1), [199; 16]);
    assert_eq!((kept(&desk).len(), kept(&desk).last()), (MOST_LATE_EACH, Some(&16)));
    desk.brought((7, 1), [0; 16]);
    assert_eq!(kept(&desk)[0], 1);
}

#[test]
fn operators_have_their_turns_in_order_and_few_wait() {
    let desk = Arc::new(desk());
    assert!(matches!(desk.give(7, [100; 16], &of_nobody(&desk, later(LONG))), Given::Next(1)));
    let waiting = |desk: &Desk| desk.lock().led[&7].turns.len();
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let turn = desk.clone();
            let thread = std::thread::spawn(move || {
                let Given::Next(serial) = turn.give(7, [n as u8; 16], &of(&turn, n as u8, later(LONG))) else {
                    panic!("its turn comes")
                };
                turn.given(7, [n as u8; 16], &Answer::Malformed);
                serial
            });
            while waiting(&desk) <= n {
                std::thread::yield_now();
            }
            thread
        })
        .collect();
    assert!(matches!(desk.give(7, [101; 16], &of(&desk, 7, later(LONG))), Given::Busy), "too many wait");
    desk.given(7, [100; 16], &Answer::Malformed);
    let serials: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(serials, (2..10).collect::<Vec<_>>());
    assert!(matches!(desk.give(7, [102; 16], &of_nobody(&desk, Instant::now())), Given::Next(_)));
    assert!(matches!(desk.give(7, [103; 16], &of_nobody(&desk, Instant::now())), Given::Busy));
    assert_eq!(waiting(&desk), 0, "whoever goes away waits no more");
}

#[test]
fn an_operator_has_a_turn_beside_few_processes_with_many_commands() {
    let desk = Arc::new(desk());
    let at_one_host = |n: u8| Asker { process: [n; 16], from: Some([10, 0, 0, 1].into()) };
    assert!(matches!(desk.give(7, [100; 16], &of_nobody(&desk, later(LONG))), Given::Next(1)));
    let came: Vec<_> = (0..9u8)
        .map(|n| {
            let turn = desk.clone();
            let (came, has_come) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || {
                let visit = Visit::of(&*turn, at_one_host(n / 3 + 1), (n + 1).into(), later(LONG));
                let given = turn.give(7, [n; 16], &visit);
                let _ = came.send(());
                if matches!(given, Given::Next(_)) {
                    turn.given(7, [n; 16], &Answer::Malformed);
                }
            });
            while !desk.lock().led[&7].turns.has([n; 16]) && has_come.try_recv().is_err() {
                std::thread::yield_now();
            }
            thread
        })
        .collect();
    let turn = desk.clone();
    let operator = std::thread::spawn(move || {
        let given = turn.give(7, [50; 16], &Visit::of(&*turn, at_one_host(50), 50, later(LONG)));
        let has_turn = matches!(given, Given::Next(_));
        turn.given(7, [50; 16], &Answer::Malformed);
        has_turn
    });
    while !desk.lock().led[&7].turns.has([50; 16]) && !operator.is_finished() {
        std::thread::yield_now();
    }
    desk.given(7, [100; 16], &Answer::Malformed);
    assert!(operator.join().unwrap(), "it is not told that others are under way");
    came.into_iter().for_each(|thread| thread.join().unwrap());
}

/// However many wait, each has its turn before the 15 s are over for which an operator waits.
#[test]
fn those_that_wait_share_the_time() {
    assert_eq!(
        [0, 1, 2, 100].map(may_last),
        [None, Some(MOST_CHANGING), Some(MOST_CHANGING / 2), Some(LEAST_CHANGING)]
    );
    let others = super::super::turns::MOST_TURNS as u32 - 1;
    let longest: Duration = (1..=others).rev().filter_map(may_last).sum();
    assert!(longest < Duration::from_secs(15), "{longest:?}");
}

/// Commands come to the members of a job from each other alone, and to its leader from operators alone.
#[test]
fn who_has_not_the_secret_of_a_job_commands_none_of_its_members() {
    let desk = Desk::default();
    desk.lead(7, "air", vec![contact()], [5; 16]);
    desk.follow(8, [6; 16]);
    assert!(desk.is_of_job(8, &[6; 16]) && !desk.is_of_job(8, &[5; 16]) && !desk.is_of_job(9, &[6; 16]));
    assert!(!desk.is_of_job(7, &[5; 16]), "its members do not command a leader");
    desk.forget(&[7, 8]);
    assert!(!desk.is_of_job(8, &[6; 16]) && desk.jobs().is_empty() && desk.led_as("air").is_empty());
}

#[test]
fn sums_are_those_of_members_and_nobody_waits_for_ever() {
    let desk = Desk::default();
    desk.lead(7, "air", vec![contact(), contact(), contact()], [5; 16]);
    let sum = |job, by| desk.hear(job, Some(&Report::default()), false, [by; 16]);
    assert!(sum((7, 1), 1) && !sum((7, 3), 1) && !sum((7, 1), 2), "a member speaks for itself");
    assert!(!sum((8, 1), 1), "it is led elsewhere");
    assert_eq!(desk.sums(7, 3, Duration::from_millis(1)).len(), 1, "one has said nothing");
    assert_eq!(desk.sums(7, 1, LONG).len(), 0, "there is nobody else");
    assert!(desk.hear((7, 2), None, true, [1; 16]) && desk.left(7).into_iter().eq([2]) && desk.left(8).is_empty());
}
