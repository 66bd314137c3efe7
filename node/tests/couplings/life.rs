//! Whether a lane is alive: who waits asks, nobody takes the place of one who answers, and nonsense is forgiven where
//! something gets through.

use crate::common::raw::*;
use crate::common::*;
use node::Outcome;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use wire::frame::Kind;

const GOOD: Option<u8> = Some(0);
const BETTER: Option<u8> = Some(4);

#[test]
fn whoever_waits_asks_and_nobody_else() {
    // One who is merely silent is not dialled: its kernel has taken what it was sent.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    port.set_nonblocking(true).unwrap();
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[port.local_addr().unwrap()]);
    let (_, mut raw) = Raw::dial(&b, LOW, 1, 0);
    let mut space = vec![0; 3];
    let recv = b.recv(inter, 5, &mut space);
    let start = Instant::now();
    raw.live();
    let first = start.elapsed();
    raw.live();
    assert!(first >= Duration::from_secs(2) && start.elapsed() >= 2 * first.min(Duration::from_secs(2)));
    // Asked once more, it says nothing: it is not asked again, and not given up.
    assert_eq!(raw.hear().0.kind, Kind::Ping);
    assert_eq!(b.wait_for(recv, Duration::from_secs(6)), None);
    raw.stream.set_nonblocking(true).unwrap();
    assert_eq!(raw.stream.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
    raw.stream.set_nonblocking(false).unwrap();
    // That a connection may be tried there is asked once, when it has come; nothing is said on it.
    let mut dials = 0;
    while let Ok((mut touch, _)) = port.accept() {
        touch.set_read_timeout(Some(NOTICED)).unwrap();
        assert_eq!(touch.read(&mut [0; 10]).unwrap(), 0, "dialled");
        dials += 1;
    }
    assert!(dials <= 1, "{dials} dials");
    raw.envelope(1, 5, b"abc");
    assert_eq!(b.wait_for(recv, NOTICED), Some(got(3, 5)));
    // Nobody waits any more.
    raw.stream.set_read_timeout(Some(Duration::from_secs(4))).unwrap();
    let mut heard = Vec::new();
    while let Some((header, _)) = raw.try_hear() {
        heard.push(header.kind);
    }
    assert!(heard.iter().all(|kind| *kind != Kind::Ping), "{heard:?}");
}

#[test]
fn what_is_not_acknowledged_is_asked_for_once() {
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[dark()]);
    let (_, mut raw) = Raw::dial(&b, LOW, 1, 0);
    let send = b.send(inter, 5, b"abc");
    assert_eq!(b.wait_for(send, NOTICED), Some(Outcome::Sent));
    raw.live();
    raw.stream.set_read_timeout(Some(Duration::from_secs(4))).unwrap();
    assert!(raw.try_hear().is_none(), "an idle pair is not silent");
}

#[test]
fn a_lane_that_answers_keeps_its_place() {
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[dark()]);
    let (_, mut raw) = Raw::dial(&b, LOW, 1, 0);
    let (status, newcomer) = std::thread::scope(|s| {
        let comes = s.spawn(|| Raw::dial(&b, LOW, 2, 0));
        raw.live();
        comes.join().unwrap()
    });
    assert_eq!(status, BETTER);
    drop(newcomer);
    raw.envelope(1, 5, b"abc");
    let mut space = vec![0; 3];
    let recv = b.recv(inter, 5, &mut space);
    assert_eq!(b.wait_for(recv, NOTICED), Some(got(3, 5)));
    // One that says nothing loses it, within a second or so; and its successor, when it is gone, at once.
    let start = Instant::now();
    let (status, mut second) = Raw::dial(&b, LOW, 2, 0);
    assert_eq!(status, GOOD);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    second.sent = 1;
    second.envelope(1, 6, b"def");
    let recv = b.recv(inter, 6, &mut space);
    assert_eq!(b.wait_for(recv, NOTICED), Some(got(3, 6)));
    drop(second);
    assert_eq!(Raw::dial(&b, LOW, 3, 0).0, GOOD);
}

/// Somebody who knows all that is said of a process comes in its name, while it lives.
fn a_forged_hello_is_refused() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let talk = |tag: i64| {
        let mut spaces = [[0; 3]; 2];
        let [x, y] = &mut spaces;
        let recvs = [a.recv(to_b, tag, x), b.recv(to_a, tag, y)];
        let sends = [a.send(to_b, tag, b"abc"), b.send(to_a, tag, b"abc")];
        assert_eq!(
            (a.wait_for(recvs[0], NOTICED), b.wait_for(recvs[1], NOTICED)),
            (Some(got(3, tag)), Some(got(3, tag)))
        );
        assert_eq!((a.wait(sends[0]), b.wait(sends[1])), (Outcome::Sent, Outcome::Sent));
    };
    talk(1);
    let process = a.node.contact().process;
    for generation in [2, 2, 3, 100] {
        let (status, mut forger) = Raw::dial_as(&b, a.id(), process, generation, 0, 0);
        assert_eq!(status, None, "it has not the key of that process");
        // What it says all the same, BYE, is read by nobody.
        let bye = |forger: &mut Raw, sequence: u64| {
            forger.sent = sequence;
            let header = forger.header(Kind::Msg, sequence + 1, 0, 1);
            forger.stream.write_all(&header).and_then(|()| forger.stream.write_all(&[8]))
        };
        let _ = (0..20).try_for_each(|sequence| bye(&mut forger, sequence));
        talk(1 + i64::from(generation));
    }
    assert_eq!(a.node.inspect(|core| core.lanes_had(a.id(), b.id())), 1);
    assert_eq!([&a, &b].map(|job| job.node.drain(LONG)), [0, 0]);
}

#[test]
fn a_further_connection_brings_bulk_alone() {
    over(TCP);
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[dark()]);
    let (status, mut raw) = Raw::dial(&b, LOW, 1, 0);
    assert_eq!(status, GOOD);
    raw.envelope(1, 1, b"abc");
    let mut space = [0; 3];
    let recv = b.recv(inter, 1, &mut space);
    assert_eq!(b.wait_for(recv, NOTICED), Some(got(3, 1)));
    // What it says there, BYE, is not heard, and the connection is closed.
    let (status, mut further) = Raw::dial_as(&b, LOW, Raw::process(), 1, 1, 0);
    assert_eq!(status, GOOD);
    for sequence in 2..20 {
        let header = further.header(Kind::Msg, sequence, 0, 1);
        let _ = further.stream.write_all(&header).and_then(|()| further.stream.write_all(&[8]));
    }
    let _ = further.stream.read_to_end(&mut Vec::new());
    raw.envelope(1, 2, b"def");
    let recv = b.recv(inter, 2, &mut space);
    assert_eq!(b.wait_for(recv, NOTICED), Some(got(3, 2)));
    // Nobody else brings one for this lane.
    let (a, c) = (Job::new(), Job::new());
    let (to_c, to_a) = couple(&a, &c);
    let recv = c.recv(to_a, 1, &mut space);
    a.wait(a.send(to_c, 1, b"abc"));
    assert_eq!(c.wait(recv), got(3, 1));
    for (from, to) in [(&a, &c), (&c, &a)] {
        let (status, _) = Raw::dial_as(to, from.id(), from.node.contact().process, 1, 1, 0);
        assert_eq!(status, None);
        let (status, _) = Raw::dial_as(to, from.id(), Raw::process(), 1, 1, 0);
        assert_eq!(status, Some(2), "another process has that lane");
    }
}

#[test]
fn nonsense_is_forgiven_where_something_gets_through() {
    let b = Job::new();
    let inter = Raw::known_to(&b, LOW, &[dark()]);
    for generation in 1..=8 {
        let (status, mut raw) = Raw::dial(&b, LOW, generation, 0);
        assert_eq!(status, GOOD, "lane {generation}");
        raw.sent = u64::from(generation) - 1;
        raw.envelope(1, 5, b"abc");
        let mut space = vec![0; 3];
        let recv = b.recv(inter, 5, &mut space);
        assert_eq!(b.wait_for(recv, NOTICED), Some(got(3, 5)));
        raw.stream.write_all(&[0xff; 100]).unwrap();
        let _ = raw.stream.read_to_end(&mut Vec::new());
    }
    // With nothing good between, the third lane is the last; the eighth was one of them.
    for (generation, expected) in [(9, GOOD), (10, GOOD), (11, Some(2))] {
        let (status, mut raw) = Raw::dial(&b, LOW, generation, 0);
        assert_eq!(status, expected, "lane {generation}");
        let _ = raw.stream.write_all(&[0xff; 100]);
        let _ = raw.stream.read_to_end(&mut Vec::new());
    }
}

over_both!(a_forged_hello_is_refused);
