//! Operators beside one that takes all it can: they are served, and what is begun for it ends with its connections.

mod common;
use common::operators::{SECRET, Team, connect_as, give, hear_within, request};
use common::{LONG, addresses, member};
use node::figures::{Addressee, Answer, Command, Member, Request, What};
use node::{Contact, Group};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use transports::control::ControlStream;
use trust::{Answering, Progress, Protocol};

const SOON: Duration = Duration::from_secs(2);
/// As docs/limits.md has them.
const MOST_SERVED: usize = 16;

/// One at a time: threads of this process are counted.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process that proves itself to whoever has a command, and then says nothing.
fn mute() -> Contact {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let trust = member(99);
    let process = trust.identity().process();
    let prove = move |mut stream: TcpStream| {
        let mut proof = Answering::begin(&trust, Protocol::Control, true);
        loop {
            let mut bytes = vec![0; proof.wants()];
            stream.read_exact(&mut bytes).ok()?;
            match proof.hear(&bytes).ok()? {
                Progress::More => (),
                Progress::Say(bytes) => stream.write_all(&bytes).ok()?,
                Progress::Done(bytes) => {
                    stream.write_all(&bytes).ok()?;
                    return Some(stream);
                }
            }
        }
    };
    // It ends with the tests.
    std::thread::spawn(move || {
        let mut all = Vec::new();
        for stream in listener.incoming().flatten() {
            all.extend(prove(stream));
        }
    });
    node::at_addresses(process, [0; 16], &[at])
}

/// A job of two, of which the second proves itself and answers nothing.
fn team(name: &str) -> Team {
    let team = Team::new(1, name, &[]);
    let group = Group { incarnation: team.incarnation, cookie: [9; 16], rank: 0, size: 2 };
    team.nodes[0].add_group(group);
    team.nodes[0].lead(team.incarnation, name, vec![team.leader(), mute()], SECRET);
    team
}

/// Many commands for as long as an operator may wait, each on a connection of its own.
fn take_all(team: &Team, name: &str, count: usize, of: impl Fn(usize) -> u8) -> Vec<ControlStream> {
    let come = |n: usize| {
        let mut stream = connect_as(&team.leader(), of(n)).ok()?;
        let long = Request { limit: u32::MAX, ..request(name, n as u8, Command::Lanes) };
        stream.say(&long.encode());
        let _ = stream.flush();
        Some(stream)
    };
    (0..count).filter_map(come).collect()
}

/// Threads of this process that serve operators.
fn serving() -> usize {
    let all = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    all.filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "mpi_connect op")
    })
    .count()
}

/// The other process of this job is silent, so the answer comes when this operator's time is over.
fn is_served(team: &Team, name: &str) -> Option<Duration> {
    let start = Instant::now();
    let mut stream = connect_as(&team.leader(), 200).ok()?;
    stream.say(&Request { limit: 300, ..request(name, 250, Command::Lanes) }.encode());
    let answer = hear_within(&mut stream, LONG)?;
    matches!(answer, Answer::Outcomes { .. }).then(|| start.elapsed())
}

#[test]
fn an_operator_that_takes_all_places_keeps_nobody_out() {
    let _turn = turn();
    let team = team("crowded");
    let held = take_all(&team, "crowded", 80, |_| 201);
    let waited = is_served(&team, "crowded").expect("it is served");
    println!("beside {} connections of one operator, another was served within {waited:?}", held.len());
    assert!(waited < SOON, "{waited:?}");
    // Also if it comes as many processes.
    let others = take_all(&team, "crowded", 2 * MOST_SERVED, |n| n as u8 + 1);
    let waited = is_served(&team, "crowded").expect("it is served");
    println!("beside {} more of as many operators, within {waited:?}", others.len());
    assert!(waited < SOON + SOON, "{waited:?}");
}

/// Who has proved the key and then says nothing gives way like any other.
#[test]
fn silent_connections_keep_nobody_out() {
    let _turn = turn();
    let team = team("silent");
    let silent: Vec<_> = (0..MOST_SERVED as u8).map(|n| connect_as(&team.leader(), n + 1).unwrap()).collect();
    let waited = is_served(&team, "silent").expect("it is served");
    println!("beside {} connections that say nothing, within {waited:?}", silent.len());
    assert!(waited < SOON + SOON, "{waited:?}");
}

/// Lengths that are announced, with nothing behind them, take no memory from others.
#[test]
fn announced_lengths_keep_nobody_out() {
    let _turn = turn();
    let team = Team::new(1, "announced", &[]);
    let nowhere = ["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
    let other = |n: u32| node::at_addresses(u128::from(n).to_le_bytes(), [1; 16], &nowhere);
    let members: Vec<_> = std::iter::once(team.leader()).chain((1..2000).map(other)).collect();
    team.nodes[0].add_group(Group { incarnation: team.incarnation, cookie: [9; 16], rank: 0, size: 2000 });
    team.nodes[0].lead(team.incarnation, "announced", members, SECRET);
    let announce = |who: u8| {
        let mut stream = TcpStream::connect(addresses(&team.nodes[0])[0]).unwrap();
        trust::dial(&mut stream, &member(who), Protocol::Control, true).unwrap();
        stream.write_all(&(64u32 << 20).to_le_bytes()).unwrap();
        stream
    };
    let silent: Vec<_> = (1..14).map(announce).collect();
    for n in 0..3 {
        let mut stream = connect_as(&team.leader(), 200).unwrap();
        stream.say(&Request { limit: 500, ..request("announced", n, Command::Lanes) }.encode());
        let answer = hear_within(&mut stream, LONG).expect("an answer");
        assert!(matches!(answer, Answer::Outcomes { .. }), "beside {} lengths: {answer:?}", silent.len());
    }
}

#[test]
fn a_command_ends_with_the_connection_of_its_operator() {
    let _turn = turn();
    let team = team("left");
    let held = take_all(&team, "left", 4, |n| n as u8 + 1);
    let start = Instant::now();
    while serving() < held.len() {
        assert!(start.elapsed() < LONG, "they are served");
        std::thread::yield_now();
    }
    drop(held);
    let start = Instant::now();
    while serving() > 0 {
        assert!(start.elapsed() < LONG, "{} threads go on for nobody", serving());
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("commands ended {:?} after their operators", start.elapsed());
}

/// Who holds the user's key, but is not of a job, commands none of its members: no number of a command keeps a later one away, and
/// nobody connects to whom a request names.
#[test]
fn members_take_commands_from_their_own_job_alone() {
    let _turn = turn();
    let team = Team::new(2, "members", &[]);
    let decoy = TcpListener::bind("127.0.0.1:0").unwrap();
    decoy.set_nonblocking(true).unwrap();
    let contact = node::at_addresses([8; 16], [0; 16], &[decoy.local_addr().unwrap()]);
    let own = team.leader();
    let other = team.nodes[1].contact();
    let ask = |to: Addressee, at: &Contact, serial, command, named: Vec<Member>| {
        let mut stream = connect_as(at, 200).unwrap();
        stream.say(&Request { to, serial, members: named, ..request("", 1, command) }.encode());
        hear_within(&mut stream, LONG).expect("an answer")
    };
    let named = |rank: u32, contact: &Contact| vec![Member { rank, contact: contact.clone() }];
    let job = team.incarnation;
    let wrong = [Addressee::Member(job, 1), Addressee::Passed(job, 1, [8; 16]), Addressee::Passed(job + 1, 1, SECRET)];
    for to in wrong {
        for command in [Command::Hold, Command::Lanes] {
            let answer = ask(to.clone(), &other, u64::MAX, command, named(0, &contact));
            assert_eq!(answer, Answer::NoSuchJob, "{to:?}");
        }
    }
    let to_leader = Addressee::Passed(job, 0, SECRET);
    assert_eq!(
        ask(to_leader, &own, u64::MAX, Command::Hold, named(1, &contact)),
        Answer::NoSuchJob,
        "it is the leader"
    );
    // One of the job says who is in it, each once.
    let to = Addressee::Passed(job, 1, SECRET);
    for wrong in [named(2, &contact), [named(0, &contact), named(0, &contact)].concat(), named(1, &contact)] {
        assert_eq!(ask(to.clone(), &other, 0, Command::Lanes, wrong), Answer::Malformed);
    }
    assert!(decoy.accept().is_err(), "nobody came");
    let answer = give(&own, &request("members", 2, Command::Hold));
    let Answer::Outcomes { outcomes, .. } = answer else { panic!("{answer:?}") };
    assert!(outcomes.len() == 2 && outcomes.iter().all(|o| !matches!(o.what, What::Overtaken)), "{outcomes:?}");
}
