//! What a process of a joined pair lets somebody without the key see: each way to knock, the answer, and how long the connection
//! stands. docs/security.md has the table.

use crate::common::*;
use base::protocol::greeting::{GOOD, OTHER_KEY, OTHER_VERSION, SECOND_PROOF, WRONG_PROOF, head};
use node::Outcome;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trust::{Dialling, Encrypt, GREETING, Key, Protocol, Ring, Trust};
use wire::hello::Hello;

/// Far less than the time that a handshake may take, and that time with some room.
const AT_ONCE: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(10);
const ROOM: Duration = Duration::from_secs(10);

/// Says this, and reads to the end. A reset is an end too: what was said is not read then.
fn knock(at: SocketAddr, said: &[u8]) -> (Vec<u8>, Duration) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(LIMIT + ROOM)).unwrap();
    let begun = Instant::now();
    stream.write_all(said).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(e) if e.kind() != ErrorKind::ConnectionReset => panic!("it is not closed: {e}"),
        _ => (answer, begun.elapsed()),
    }
}

/// The greetings in an answer: the status of each.
fn statuses(mut answer: &[u8]) -> Vec<u16> {
    let mut all = Vec::new();
    while !answer.is_empty() {
        all.push(u16::from_le_bytes([answer[head::STATUS], answer[head::STATUS + 1]]));
        let proof = if all.last() == Some(&GOOD) { SECOND_PROOF } else { 0 };
        answer = &answer[GREETING + proof..];
    }
    all
}

#[test]
fn who_has_no_key_learns_next_to_nothing() {
    over(TCP);
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let at = addresses(&b.node)[0];
    let of_key =
        |key: Key| Dialling::begin(&Arc::new(Trust::new(Ring::new(key, []), Encrypt::Network)), Protocol::Jobs, true).1;
    // Of a member, heard on the way.
    let replayed = Dialling::begin(&member(9), Protocol::Jobs, true).1;
    let mut forged = replayed.clone();
    forged[GREETING..].fill(7);
    let mut old = replayed.clone();
    old[head::VERSION] = 1;
    let process = member(9).identity().process();
    let (source, dest, cookie) = (crate::common::raw::HIGH, b.id(), b.group.cookie);
    let hello = Hello { source, dest, cookie, process, generation: 1, stripe: 0, received: 0, moves: None }.encode();
    // Nobody is answered twice for the same.
    let another = Dialling::begin(&member(9), Protocol::Jobs, true).1;
    let repeated = [&another[..], &[0; 16], &hello].concat();
    let mut naming = replayed.clone();
    naming[..8].copy_from_slice(b"MPICNSRV");
    let browser = b"GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n".to_vec();
    let ways: [(&str, Vec<u8>, &[u16], bool); 11] = [
        ("nothing", Vec::new(), &[], false),
        ("half a greeting", replayed[..20].to_vec(), &[], false),
        ("a request of HTTP", browser, &[], true),
        ("a greeting of TLS", [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[5; 200]].concat(), &[], true),
        ("a greeting of the naming service", naming, &[], true),
        ("another version", old, &[OTHER_VERSION], true),
        ("another key, or one that was replaced", of_key(Key::new()), &[OTHER_KEY], false),
        ("the right identifier, a wrong proof", forged, &[WRONG_PROOF], true),
        ("a HELLO with a stolen cookie", hello.clone(), &[], true),
        ("a member's greeting again", replayed, &[GOOD], false),
        ("such a one, with a last word and a HELLO", repeated, &[GOOD], true),
    ];
    std::thread::scope(|threads| {
        for (what, said, expected, at_once) in &ways {
            threads.spawn(move || {
                let (answer, took) = knock(at, said);
                println!("{what}: {} bytes, closed after {:.2} s", answer.len(), took.as_secs_f64());
                assert_eq!(statuses(&answer), *expected, "{what}");
                let limit = if *at_once { AT_ONCE } else { LIMIT + ROOM };
                assert!(took < limit && (*at_once || took > LIMIT / 2), "{what}: {took:?}");
                // Neither a process, nor a name, nor what it waits for.
                let holds = |secret: &[u8]| answer.windows(secret.len()).any(|part| part == secret);
                assert!(!holds(&process) && !holds(&cookie), "{what}");
            });
        }
    });
    assert_eq!(b.node.inspect(|core| (core.pairs_in_use(), core.strangers())), (1, 0), "somebody got in");
    let mut there = [0; 8];
    let recv = b.recv(to_a, 1, &mut there);
    let send = a.send(to_b, 1, b"request!");
    assert_eq!((b.wait(recv), a.wait(send)), (got(8, 1), Outcome::Sent));
}
