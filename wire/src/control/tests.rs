//! Every request and every answer survives the wire; what is cut, bent or too long does not.

use super::*;
use crate::Contact;
use crate::TransportId;
use base::protocol::operator::{MAX_LINES, MAX_WORDS};
use base::protocol::operator::{message as head, pair, report, request, wait};

fn contact() -> Contact {
    Contact::new([7; 16], [9; 16], [(TransportId::registered(2), &b"abc"[..])])
}

fn full() -> Report {
    let flow = |n| Flow { messages: n, bytes: 10 * n };
    Report {
        pid: 7,
        host: "node1".into(),
        at: 1_000_000,
        waited: 250_000,
        hold: Holding::Closing,
        waits: vec![Wait {
            since: 1,
            call: "MPI_Recv".into(),
            what: "for a message".into(),
            peers: vec![(5, 0), (5, 1)],
        }],
        jobs: vec![Job {
            incarnation: 5,
            waited: 9,
            name: "ocean".into(),
            carried: vec![Carried { transport: "shm".into(), pairs: 2, sent: flow(1), received: flow(2) }],
        }],
        pairs: vec![Pair {
            incarnation: 5,
            rank: 1,
            unexpected: 2,
            posted: 3,
            from_any: 4,
            round_trip: Some(90),
            waited: 5,
            sent: flow(3),
            received: flow(4),
            transport: "tcp".into(),
            why: "no shm: other host".into(),
        }],
        left_off: 3,
    }
}

fn requests() -> Vec<Request> {
    let commands = [
        Command::Lanes,
        Command::Switch { transport: "tcp".into(), peer: Some("ocean".into()), rank: Some(3), peer_rank: None },
        Command::Switch { transport: "shm".into(), peer: None, rank: None, peer_rank: Some(0) },
        Command::Hold,
        Command::Resume,
        Command::StopUsing("shm".into()),
        Command::Use("shm".into()),
        Command::GiveUp("ocean".into()),
        Command::Sum(4, Box::new(full())),
        Command::Left(4, Some(Box::new(full()))),
        Command::Left(4, None),
    ];
    let to = [Addressee::Named("air".into()), Addressee::Member(0x1234, 7), Addressee::Passed(0x1234, 7, [9; 16])];
    let all = commands.into_iter().zip(to.into_iter().cycle());
    all.map(|(command, to)| Request {
        id: [3; 16],
        serial: 8,
        limit: 5000,
        to,
        command,
        members: vec![Member { rank: 1, contact: contact() }, Member { rank: 2, contact: contact() }],
    })
    .collect()
}

fn answers() -> Vec<Answer> {
    let all = [
        What::Done("2 pairs".into()),
        What::UnderWay("it does not answer".into()),
        What::Report(Box::new(full())),
        What::Refused("why".into()),
        What::NotAnswering,
        What::Dead("refused".into()),
        What::Left("finalized".into()),
        What::Overtaken,
        What::NoPair("it is connected with 'ocean'".into()),
    ];
    let outcomes = (0..).zip(all).map(|(rank, what)| Outcome { rank, what }).collect();
    vec![Answer::Outcomes { repeated: true, outcomes }, Answer::NoSuchJob, Answer::Busy, Answer::Malformed]
}

#[test]
fn requests_and_answers_survive_the_wire() {
    for one in requests() {
        assert_eq!(Request::decode(&one.encode()), Ok(one));
    }
    for one in answers() {
        assert_eq!(Answer::decode(&one.encode()), Ok(one));
    }
}

#[test]
fn a_command_replaces_those_of_which_it_leaves_nothing() {
    let switch = |transport: &str, rank| Command::Switch {
        transport: transport.into(),
        peer: Some("ocean".into()),
        rank,
        peer_rank: None,
    };
    let (stop, again) = (Command::StopUsing("shm".into()), Command::Use("shm".into()));
    assert!(Command::Resume.replaces(&Command::Hold) && Command::Hold.replaces(&Command::Resume));
    assert!(stop.replaces(&again) && again.replaces(&stop) && !stop.replaces(&Command::Use("tcp".into())));
    assert!(
        switch("tcp", None).replaces(&switch("shm", None)) && !switch("tcp", Some(1)).replaces(&switch("tcp", None))
    );
    assert!(!Command::Hold.replaces(&stop) && !switch("tcp", None).replaces(&Command::Hold));
}

#[test]
fn the_fields_are_where_the_tables_say() {
    let bytes = requests()[0].encode();
    assert_eq!((bytes[request::ID], bytes[request::SERIAL], bytes[request::LIMIT]), (3, 8, 0x88));
    assert_eq!(bytes[request::BYTES], numbers::NAMED);
    let mut bytes = Vec::new();
    full().encode(&mut bytes);
    assert_eq!((bytes[report::PID], bytes[report::AT + 1], bytes[report::WAITED]), (7, 0x42, 0x90));
    assert_eq!(bytes[report::HELD], Holding::Closing as u8);
    assert_eq!(bytes[report::BYTES], 5, "the length of the host");
    let mut bytes = Vec::new();
    full().waits[0].encode(&mut bytes);
    assert_eq!((bytes[wait::SINCE], bytes[wait::BYTES]), (1, 8));
    let mut bytes = Vec::new();
    full().pairs[0].encode(&mut bytes);
    let at = [pair::INCARNATION, pair::RANK, pair::UNEXPECTED, pair::POSTED, pair::FROM_ANY, pair::ROUND_TRIP];
    assert_eq!(at.map(|at| bytes[at]), [5, 1, 2, 3, 4, 90]);
    assert_eq!((bytes[pair::WAITED], bytes[pair::BYTES]), (5, 3));
}

#[test]
fn what_is_cut_or_has_more_is_refused() {
    let all = requests().iter().map(Request::encode).map(|b| (b, true)).collect::<Vec<_>>();
    let all = all.into_iter().chain(answers().into_iter().map(|a| (a.encode(), false)));
    for (bytes, is_request) in all {
        let refused = |bytes: &[u8]| match is_request {
            true => Request::decode(bytes).is_err(),
            false => Answer::decode(bytes).is_err(),
        };
        assert!((0..bytes.len()).all(|n| refused(&bytes[..n])));
        assert!(refused(&[&bytes[..], &[0]].concat()));
    }
}

#[test]
fn long_texts_are_cut_and_long_lists_too() {
    let report = Report {
        host: "\u{e9}".repeat(300),
        pairs: vec![Pair::default(); MAX_LINES + 7],
        left_off: 1,
        ..Report::default()
    };
    let answer =
        Answer::Outcomes { repeated: false, outcomes: vec![Outcome { rank: 0, what: What::Report(report.into()) }] };
    let Ok(Answer::Outcomes { outcomes, .. }) = Answer::decode(&answer.encode()) else { panic!("it can be read") };
    let What::Report(report) = &outcomes[0].what else { panic!("a report") };
    assert_eq!((report.host.len(), report.pairs.len(), report.left_off), (254, MAX_LINES, 8));
}

#[test]
fn an_answer_never_gets_longer_than_may_be_read() {
    let pair = Pair { why: "x".repeat(MAX_WORDS), ..Pair::default() };
    let report = Report { pairs: vec![pair; MAX_LINES], ..Report::default() };
    let one = |rank| Outcome { rank, what: What::Report(Box::new(report.clone())) };
    let answer = Answer::Outcomes { repeated: false, outcomes: (0..300).map(one).collect() };
    let bytes = answer.encode();
    assert!(bytes.len() <= MAX_ANSWER);
    let Ok(Answer::Outcomes { outcomes, .. }) = Answer::decode(&bytes) else { panic!("it can be read") };
    assert_eq!(outcomes.len(), 300, "each process is in it");
    let What::Report(report) = &outcomes[299].what else { panic!("a report") };
    assert_eq!(report.pairs.len() + report.left_off as usize, MAX_LINES);
}

#[test]
fn lengths_are_bounded_before_anything_is_read() {
    assert_eq!(length(7u32.to_le_bytes(), 7), Ok(7));
    assert_eq!(length(8u32.to_le_bytes(), 7), Err(Malformed));
    assert_eq!(message(b"abc").len(), head::BYTES + 3);
}
