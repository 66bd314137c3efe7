//! Malformed messages: the server refuses them, and goes on serving others.

use crate::kit::{Local, Raw, claim, claim_body, claim_of, hello, is_there, lookup_body, record};
use base::ident::random;
use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;
use trust::GREETING;

const LEASE: Duration = Duration::from_secs(60);

#[test]
fn bad_greetings_are_refused() {
    let server = Local::start(LEASE, 100);
    let flip = |at: usize, to: u8| {
        let mut bytes = hello();
        bytes[at] = to;
        bytes
    };
    // Each greeting has other random bytes.
    let change = |at: usize, bits: u8| {
        let mut bytes = hello();
        bytes[at] ^= bits;
        bytes
    };
    let older = |at: usize| {
        let mut bytes = flip(8, 4);
        bytes[at] = 3;
        bytes
    };
    for (bytes, status, told) in [
        (flip(0, b'G'), None, "not of this protocol"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), None, "not of this protocol"),
        (vec![0; GREETING], None, "not of this protocol"),
        (flip(8, 1), Some(1), "version 1"),
        (flip(12, 0x80), Some(2), "same release"),
        (flip(15, 0x80), Some(2), "same release"),
        // A flag and a byte of the proof that were changed on the way.
        (change(12, 4), Some(4), "proof of the key is wrong"),
        (change(100, 1), Some(4), "proof of the key is wrong"),
        // Longer than the longest proof; another version may mean something else by it.
        (flip(17, 3), None, "not of this protocol"),
        (older(17), Some(1), "version 4"),
        (older(19), Some(1), "version 4"),
    ] {
        let mut raw = Raw::connect(server.address());
        raw.0.write_all(&bytes).unwrap();
        assert_eq!(raw.status(), status, "{bytes:?}");
        // It waits for the client to close, so that it takes back nothing that it has said.
        drop(raw);
        let told = server.tells(told);
        assert!(told.contains("a client at 127.0.0.1") && told.contains("is refused"), "{told}");
    }
    drop(claim(&server.url, "ocean"));
}

#[test]
fn a_proof_is_read_with_its_greeting() {
    let server = Local::start(LEASE, 100);
    let bytes = hello();
    let (last, most) = bytes.split_last().unwrap();
    let mut raw = Raw::connect(server.address());
    raw.0.write_all(most).unwrap();
    // The server looks at its clients in turn, so it has looked at this one when another one is answered.
    drop(Raw::greeted(server.address()));
    assert!(raw.is_silent(), "it answers before all is there");
    raw.0.write_all(&[*last]).unwrap();
    assert_eq!(raw.status(), Some(0));
}

#[test]
fn bad_headers_end_the_connection() {
    let server = Local::start(LEASE, 100);
    for header in [[0xff; 8], [0, 0, 2, 0, 0, 0, 0, 0], [1, 0, 0, 0, 1, 0, 0, 0]] {
        let mut raw = Raw::greeted(server.address());
        raw.0.write_all(&header).unwrap();
        assert!(raw.is_closed(), "{header:?}");
    }
    drop(claim(&server.url, "ocean"));
}

#[test]
fn bad_bodies_are_refused_one_by_one() {
    let server = Local::start(LEASE, 100);
    let _held = claim(&server.url, "ocean");
    let mut raw = Raw::greeted(server.address());
    let refused = |body: &[u8]| body[..2] == [5, 0];
    assert!(refused(&raw.ask(&[])));
    assert!(refused(&raw.ask(&[77])));
    assert!(refused(&raw.ask(&lookup_body("a\nb"))), "no such name can be");
    assert!(refused(&raw.ask(&[3, 0xff, 0xff, 0xff, 0xff, 0x0f])), "a length beyond the end");
    assert!(refused(&raw.ask(&[&lookup_body("ocean")[..], &[0]].concat())), "more behind it");
    let forged = || "h\u{1b}[31m\nFAKE line".to_owned();
    for forger in [
        naming::Record { host: forged(), ..record("air") },
        naming::Record { mpi: forged(), ..record("air") },
        naming::Record { coupled: Some(forged()), ..record("air") },
    ] {
        assert!(refused(&raw.ask(&claim_of([1; 16], &forger))), "whoever is told of it would see lines of its own");
    }
    let good = claim_body([1; 16], "air");
    for n in 0..good.len() {
        assert!(refused(&raw.ask(&good[..n])), "{n} of {}", good.len());
    }
    let mut other = good.clone();
    // The version of the record.
    let at = good.windows(8).position(|w| w == b"MPICNAME").unwrap() + 8;
    other[at] = 9;
    assert_eq!(raw.ask(&other), [5, 1, 4], "the version that it reads is told");
    assert!(!is_there(&server.url, "air") && is_there(&server.url, "ocean"));
    assert_eq!(raw.ask(&good)[0], 0, "the connection is as good as before");
    assert!(is_there(&server.url, "air"));
    // With another token, the name is held: the record comes without secrets, and a release has no effect.
    let answer = raw.ask(&claim_body([2; 16], "air"));
    assert_eq!(answer[0], 1);
    assert!(!answer.windows(100).any(|w| w == [5; 100]) && !answer.windows(16).any(|w| w == [1; 16]));
    let release = |token: u8| postcard::to_extend(&(2u8, [token; 16], "", "air", 0u8, 0u64), Vec::new()).unwrap();
    assert_eq!(raw.ask(&release(2)), [2]);
    assert!(is_there(&server.url, "air"));
    assert_eq!(raw.ask(&release(1)), [2]);
    assert!(!is_there(&server.url, "air"));
    assert_eq!(raw.ask(&good), [5, 3], "a token that was released is over");
}

#[test]
fn noise_does_no_harm() {
    let server = Local::start(LEASE, 100);
    let _held = claim(&server.url, "ocean");
    for round in 0..300 {
        let noise: [u8; 200] = random();
        let mut raw = Raw::greeted(server.address());
        // In turn as a body, as frames, and cut off.
        match round % 3 {
            0 => drop(raw.ask(&noise)),
            1 => drop(raw.0.write_all(&noise)),
            _ => {
                raw.0.write_all(&claim_body([3; 16], "air")[..round % 100]).unwrap();
                raw.0.shutdown(Shutdown::Both).unwrap();
            }
        }
    }
    assert!(is_there(&server.url, "ocean"));
}
