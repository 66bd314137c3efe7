//! Both ends of a line in one process.

use super::super::local::{self, Listener};
use super::*;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A limit for what takes a moment.
const LIMIT: Duration = Duration::from_secs(30);

/// A name that nobody else has.
pub fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}line-{}-{number}", base::protocol::router::SOCKET, std::process::id())
}

/// The end of a process, and that of its router.
pub fn ends() -> (Line, Line) {
    let name = name();
    let listener = Listener::open(&name).unwrap();
    let process = local::Raw::reach(&name).unwrap();
    let router = Line::open(listener.accept().unwrap(), &[]).unwrap();
    let (listeners, handed) = process.take().unwrap();
    assert!(listeners.is_empty());
    (Line::adopt(process, handed).unwrap(), router)
}

fn is_rung(line: &Line, limit: Duration) -> bool {
    let mut fds = [line.own.as_fd(), line.socket.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    poll(&mut fds, PollTimeout::try_from(limit).unwrap()).unwrap() > 0
}

fn read(line: &mut Line, to: &mut [u8]) -> Result<usize, ErrorKind> {
    line.read_vectored(&mut [IoSliceMut::new(to)]).map_err(|e| e.kind())
}

fn write(line: &mut Line, bytes: &[u8]) -> Result<usize, ErrorKind> {
    line.write_vectored(&[IoSlice::new(bytes)]).map_err(|e| e.kind())
}

#[test]
fn who_looks_is_not_rung_for_and_who_sleeps_is() {
    let (mut process, mut router) = ends();
    let mut to = [0; 8];
    for _ in 0..3 {
        assert!(!is_rung(&process, Duration::ZERO));
        assert_eq!(write(&mut router, &[1]), Ok(1));
        assert!(is_rung(&process, Duration::ZERO));
        assert!(process.has_news(true));
        assert_eq!(read(&mut process, &mut to), Ok(1));
        // It looks on.
        assert_eq!(write(&mut router, &[1]), Ok(1));
        assert!(!is_rung(&process, Duration::ZERO) && process.has_news(true));
        assert_eq!(read(&mut process, &mut to), Ok(1));
        assert_eq!(read(&mut process, &mut to), Err(ErrorKind::WouldBlock));
        // What comes before it sleeps is told of.
        assert_eq!(write(&mut router, &[1]), Ok(1));
        process.arm();
        assert!(is_rung(&process, Duration::ZERO));
        assert_eq!(read(&mut process, &mut to), Ok(1));
        process.arm();
    }
    // One that does not look is armed when it has read all.
    for _ in 0..3 {
        assert!(!is_rung(&router, Duration::ZERO));
        assert_eq!(write(&mut process, &[1]), Ok(1));
        assert!(is_rung(&router, Duration::ZERO));
        assert_eq!(read(&mut router, &mut to), Ok(1));
    }
}

#[test]
fn who_has_no_room_is_told_of_it() {
    let (mut process, mut router) = ends();
    let data = vec![1; 300_000];
    let n = write(&mut process, &data).unwrap();
    assert!(n < data.len() && write(&mut process, &data) == Err(ErrorKind::WouldBlock));
    process.wait_for_room(true);
    assert!(!is_rung(&process, Duration::ZERO));
    assert_eq!(read(&mut router, &mut [0; 1000]), Ok(1000));
    assert!(is_rung(&process, Duration::ZERO) && process.has_news(true));
    assert_eq!(write(&mut process, &data), Ok(1000));
    // Room that comes before it waits for it.
    assert_eq!(read(&mut router, &mut [0; 1000]), Ok(1000));
    process.arm();
    assert!(is_rung(&process, Duration::ZERO));
}

#[test]
fn the_end_is_seen_behind_the_last_words() {
    let (mut process, mut router) = ends();
    assert_eq!(write(&mut router, &[1; 5]), Ok(5));
    drop(router);
    assert!(is_rung(&process, Duration::ZERO) && process.is_over());
    let (mut to, mut got) = ([0; 3], 0);
    let until = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < until);
        match read(&mut process, &mut to) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) => assert_eq!(e, ErrorKind::WouldBlock),
        }
    }
    assert_eq!(got, 5);
}

/// Both sides write and read at once, and sleep when there is nothing to do: nobody sleeps on.
#[test]
fn nobody_sleeps_on() {
    const ALL: usize = 8 << 20;
    let (process, router) = ends();
    let side = |mut line: Line, seed: u64, looks: bool| {
        let mut rng = crate::sim::Rng::new(seed);
        let (mut sent, mut got, mut to) = (0, 0, vec![0; 100_000]);
        let until = Instant::now() + LIMIT;
        while sent < ALL || got < ALL {
            assert!(Instant::now() < until, "it sleeps on: {sent} sent, {got} got");
            let mut moved = false;
            let bytes: Vec<u8> = (sent..ALL).take(rng.below(60_000) as usize + 1).map(|i| i as u8).collect();
            line.wait_for_room(false);
            match write(&mut line, &bytes) {
                Ok(n) => (sent, moved) = (sent + n, n > 0),
                Err(_) => line.wait_for_room(true),
            }
            let most = rng.below(100_000) as usize + 1;
            if let Ok(n) = read(&mut line, &mut to[..most]) {
                assert!(to[..n].iter().enumerate().all(|(i, byte)| *byte == (got + i) as u8));
                (got, moved) = (got + n, moved || n > 0);
            }
            if looks && line.has_news(true) || moved {
                continue;
            }
            line.arm();
            is_rung(&line, LIMIT);
        }
        // The other side may still have to be told.
        line
    };
    let other = std::thread::spawn(move || side(router, 1, false));
    let mine = side(process, 2, true);
    drop((mine, other.join().unwrap()));
}
