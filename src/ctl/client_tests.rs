//! How the command goes on beside a leader that has no turn for it.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use trust::{Answering, Encrypt, Identity, Key, Progress, Protocol, Ring};
use wire::control::What;

fn member(number: u8) -> Arc<Trust> {
    let ring = Ring::new(Key::from_bytes([5; 32]), []);
    Arc::new(Trust::new(ring, Encrypt::Network).with_identity(Identity::from_secret([number; 32])))
}

/// Reads one request, tells of it, and answers it.
fn serve(mut stream: TcpStream, leader: &Arc<Trust>, answer: &Answer, tell: &Sender<Request>) -> io::Result<()> {
    let mut proof = Answering::begin(leader, Protocol::Control, true);
    while proof.wants() > 0 {
        let mut bytes = vec![0; proof.wants()];
        stream.read_exact(&mut bytes)?;
        match proof.hear(&bytes).expect("a member") {
            Progress::More => (),
            Progress::Say(bytes) | Progress::Done(bytes) => stream.write_all(&bytes)?,
        }
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut request = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut request)?;
    // Before the answer, with which the test goes on.
    tell.send(Request::decode(&request).expect("it can be read")).expect("the test reads it");
    let answer = answer.encode();
    stream.write_all(&(answer.len() as u32).to_le_bytes())?;
    stream.write_all(&answer)
}

fn client(contact: Contact, timeout: Duration) -> Client {
    Client {
        name: "air".into(),
        record: Record::new("air"),
        contact,
        store: naming::open("file:/nowhere").expect("a store"),
        trust: member(2),
        timeout: Some(timeout),
    }
}

type Given = Result<(bool, Vec<Outcome>), CtlError>;

/// What the leader is asked, and what the command makes of these answers, of which each is on a connection of its own.
fn given(answers: Vec<Answer>, timeout: Duration) -> (Vec<Request>, Given) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, leader) = (listener.local_addr().unwrap(), member(1));
    let contact = transports::registry::at_addresses(leader.identity().process(), [0; 16], &[at]);
    let (to, asked) = channel();
    // It ends with the answers, or with the test.
    std::thread::spawn(move || {
        for (answer, stream) in answers.iter().zip(listener.incoming()) {
            serve(stream.unwrap(), &leader, answer, &to).expect("a request");
        }
    });
    let client = client(contact, timeout);
    let given = client.give(Command::Hold);
    (asked.try_iter().collect(), given)
}

#[test]
fn who_is_told_that_others_are_under_way_comes_again_with_the_same_command() {
    let outcomes = vec![Outcome { rank: 0, what: What::Done(String::new()) }];
    let answers = vec![Answer::Busy, Answer::Busy, Answer::Outcomes { repeated: false, outcomes: outcomes.clone() }];
    let (asked, given) = given(answers, Duration::from_secs(30));
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|request| request.id == asked[0].id), "it is done once");
    assert_eq!(given.expect("an answer"), (false, outcomes));
}

#[test]
fn a_leader_that_never_has_a_turn_is_told() {
    let (asked, given) = given(vec![Answer::Busy; 100], Duration::from_millis(500));
    assert!(matches!(given, Err(CtlError::Busy(_))) && asked.len() > 1, "{}", asked.len());
}

#[test]
fn a_rank_that_is_not_there_is_told_with_those_that_are() {
    let said = |size, number| rank("air", size, number).map_err(|e| (e.exit_code(), e.to_string()));
    assert_eq!((said(3, 0), said(3, 2)), (Ok(0), Ok(2)));
    assert_eq!(said(3, -1), Err((2, "'air' has no rank -1: its ranks are 0 to 2".into())));
    assert_eq!(said(1, 1), Err((2, "'air' has no rank 1: its only one is 0".into())));
}

#[test]
fn who_finds_nobody_at_an_address_says_what_is_known() {
    let e = CtlError::Unheard("air".into(), Box::new(Record::new("air")), Unheard::Refused);
    let said = e.to_string();
    assert!(
        said.contains("as seen from here") && said.contains("network namespace") && !said.contains("any more"),
        "{said}"
    );
}

/// A leader that is stopped takes connections, as its kernel does, and answers nothing.
#[test]
fn a_leader_that_is_stopped_is_told_and_whether_it_may_still_obey() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let at = listener.local_addr().expect("an address");
    let contact = transports::registry::at_addresses(member(1).identity().process(), [0; 16], &[at]);
    let client = client(contact, Duration::from_millis(300));
    let said = |command| client.give(command).expect_err("it is stopped").to_string();
    let held = said(Command::Hold);
    assert!(held.contains("nothing is done, nor when it goes on"), "{held}");
    let looked = said(Command::Lanes);
    assert!(!looked.contains("when it goes on"), "{looked}");
}
