//! Connections: cut, raced, refused, abused. Nothing is lost and nobody gets in unasked.

mod common;
use common::*;
use node::{Config, Contact, Gone, Outcome, ProcId, RemoteGroup};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn cut_at_random_times_with_nothing_lost() {
    for seed in [11, 12, 13] {
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let (ends, nodes) = ((a.id(), b.id()), (a.node.clone(), b.node.clone()));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let cutter = std::thread::spawn(move || {
            let mut dice = Dice(seed);
            let mut cuts = 0;
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(500 + dice.roll(15_000)));
                cuts += u32::from(match dice.roll(2) {
                    0 => nodes.0.inspect(|core| core.cut(ends.0, ends.1)),
                    _ => nodes.1.inspect(|core| core.cut(ends.1, ends.0)),
                });
            }
            cuts
        });
        let mut dice = Dice(seed + 100);
        let data: Vec<Vec<u8>> = (0..400)
            .map(|i| {
                let most = if dice.roll(20) == 0 { 8 << 20 } else { 30_000 };
                pattern(dice.roll(most) as usize, i)
            })
            .collect();
        let threads: Vec<_> = [(a, to_b), (b, to_a)]
            .into_iter()
            .map(|(job, inter)| {
                let data = data.clone();
                std::thread::spawn(move || {
                    let mut spaces: Vec<Vec<u8>> = data.iter().map(|d| vec![0; d.len()]).collect();
                    let sends: Vec<_> = data.iter().map(|d| job.send(inter, 1, d)).collect();
                    let recvs: Vec<_> = spaces.iter_mut().map(|s| job.recv(inter, 1, s)).collect();
                    for (i, op) in recvs.into_iter().enumerate() {
                        assert_eq!(job.wait(op), got(data[i].len(), 1), "message {i}");
                    }
                    sends.into_iter().for_each(|op| assert_eq!(job.wait(op), Outcome::Sent));
                    assert!(spaces == data);
                    job
                })
            })
            .collect();
        let jobs: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        let cuts = cutter.join().unwrap();
        println!("seed {seed}: {cuts} cuts");
        assert!(cuts > 3);
        assert_eq!(jobs.iter().map(|j| j.node.drain(LONG)).sum::<usize>(), 0);
    }
}

#[test]
fn both_dial_at_once() {
    for round in 0..50 {
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let data = pattern(20_000, round);
        let (mut x, mut y) = (vec![0; 20_000], vec![0; 20_000]);
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|s| {
            let (barrier, data) = (&barrier, &data);
            for (job, inter, space) in [(&a, to_b, &mut x), (&b, to_a, &mut y)] {
                s.spawn(move || {
                    barrier.wait();
                    let send = job.send(inter, 1, data);
                    let recv = job.recv(inter, 1, space);
                    assert_eq!(job.wait(recv), got(20_000, 1));
                    assert_eq!(job.wait(send), Outcome::Sent);
                });
            }
        });
        assert!(x == data && y == data);
    }
}

#[test]
fn leaders_speak_before_and_after_they_know_each_other() {
    let (a, b) = (Job::new(), Job::new());
    let there = a.node.open_control(a.id(), b.id(), b.group.cookie, &b.node.contact());
    a.node.send_control(there, b"offer");
    a.node.send_control(there, b"");
    // The other leader has not asked for the path yet.
    std::thread::sleep(Duration::from_millis(100));
    let back = b.node.open_control(b.id(), a.id(), a.group.cookie, &a.node.contact());
    let deadline = Some(Instant::now() + LONG);
    let next = |job: &Job, path| job.node.wait_until(&mut || (), |core| core.recv_control(path), deadline).unwrap();
    assert_eq!(next(&b, back), b"offer");
    assert_eq!(next(&b, back), b"");
    b.node.send_control(back, &vec![5; 1_000_000]);
    assert_eq!(next(&a, there).len(), 1_000_000);
    assert_eq!(a.node.drain(LONG), 0);
    let gone = b.node.wait_until(&mut || (), |core| core.path_gone(back), deadline);
    assert_eq!(gone, Some(Gone::Finished));
}

#[test]
fn a_wrong_cookie_is_refused() {
    let short = Config { timeout: Duration::from_secs(1), ..config() };
    let (a, b) = (Job::with(short), Job::new());
    let lie = RemoteGroup { cookie: [99; 16], ..b.as_remote() };
    let (to_b, to_a) = (a.node.open(a.id(), &lie, 1), b.open(&a, 1));
    let data = pattern(10, 1);
    let mut space = vec![0; 10];
    let recv = b.recv(to_a, 1, &mut space);
    let send = a.node.isend(to_b, 0, 1, view(&data), node::Mode::Synchronous);
    assert!(matches!(a.wait_for(send, Duration::from_secs(5)), Some(Outcome::Failed(_))));
    // Nothing of it has reached the other side.
    assert!(b.node.cancel(recv) || b.node.peek(recv).is_some());
}

#[test]
fn no_one_gets_to_a_removed_group() {
    let short = Config { timeout: Duration::from_secs(60), ..config() };
    let (a, b) = (Job::with(short), Job::new());
    b.node.remove_group(b.group.incarnation);
    let to_b = a.open(&b, 1);
    let data = pattern(10, 1);
    let send = a.node.isend(to_b, 0, 1, view(&data), node::Mode::Synchronous);
    assert!(matches!(a.wait_for(send, Duration::from_secs(5)), Some(Outcome::Failed(_))));
}

#[test]
fn garbage_silence_and_half_a_hello_disturb_nobody() {
    let (a, b) = (Job::new(), Job::new());
    let address = b.node.contact().addresses[0];
    let mut garbage = TcpStream::connect(address).unwrap();
    garbage.write_all(&[b'x'; 5000]).unwrap();
    let mut half = TcpStream::connect(address).unwrap();
    half.write_all(b"MPICONN1").unwrap();
    let _silent: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let (to_b, to_a) = couple(&a, &b);
    let data = pattern(100_000, 1);
    let mut space = vec![0; 100_000];
    let send = a.send(to_b, 1, &data);
    let recv = b.recv(to_a, 1, &mut space);
    assert_eq!(b.wait(recv), got(100_000, 1));
    assert_eq!(a.wait(send), Outcome::Sent);
    assert!(space == data);
    // Closed at once, or with what it sent unread.
    let end = garbage.read(&mut [0; 10]);
    assert!(matches!(end, Ok(0) | Err(_)));
    // Those who only wait are closed after a while.
    half.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    assert!(matches!(half.read(&mut [0; 10]), Ok(0)));
}

#[test]
fn a_contact_with_wrong_addresses_first() {
    let (a, b, c) = (Job::new(), Job::new(), Job::new());
    let mut there = b.as_remote();
    // Another process, a closed port, an address that never answers, then the right one.
    let right = std::mem::take(&mut there.contacts[0].addresses);
    there.contacts[0].addresses =
        vec![c.node.contact().addresses[0], "127.0.0.1:1".parse().unwrap(), "192.0.2.99:9".parse().unwrap()];
    there.contacts[0].addresses.extend(right);
    let (to_b, to_a) = (a.node.open(a.id(), &there, 1), b.open(&a, 1));
    let mut space = vec![0; 3];
    let start = Instant::now();
    let send = a.send(to_b, 1, b"abc");
    let recv = b.recv(to_a, 1, &mut space);
    assert_eq!(b.wait(recv), got(3, 1));
    a.wait(send);
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn three_jobs_in_a_ring() {
    let jobs: Vec<_> = (0..3).map(|_| Job::new()).collect();
    let open = |i: usize, j: usize| jobs[i].open(&jobs[j], 1);
    let inters: Vec<_> = (0..3).map(|i| (open(i, (i + 1) % 3), open((i + 1) % 3, i))).collect();
    let data = pattern(300_000, 4);
    let mut spaces = vec![vec![0; 300_000]; 3];
    let sends: Vec<_> = (0..3).map(|i| jobs[i].send(inters[i].0, 1, &data)).collect();
    let recvs: Vec<_> = spaces.iter_mut().enumerate().map(|(i, s)| jobs[(i + 1) % 3].recv(inters[i].1, 1, s)).collect();
    for i in 0..3 {
        assert_eq!(jobs[(i + 1) % 3].wait(recvs[i]), got(300_000, 1));
        assert_eq!(jobs[i].wait(sends[i]), Outcome::Sent);
    }
    assert!(spaces.iter().all(|s| *s == data));
}

#[test]
fn over_every_address_of_this_machine() {
    let all = Config { iface: Some("all".into()), ..config() };
    let (a, b) = (Job::with(all.clone()), Job::with(all));
    let mut tried = 0;
    for address in b.node.contact().addresses {
        let there = Job::with(config());
        let mut remote = b.as_remote();
        remote.contacts[0].addresses = vec![address];
        let inter = there.node.open(there.id(), &remote, 1);
        let back = b.open(&there, 1);
        let mut space = vec![0; 3];
        let send = there.send(inter, 1, b"abc");
        let recv = b.recv(back, 1, &mut space);
        assert_eq!(b.wait_for(recv, Duration::from_secs(5)), Some(got(3, 1)), "over {address}");
        there.wait(send);
        tried += 1;
    }
    assert!(tried > 0 && !a.node.contact().addresses.is_empty());
}

#[test]
fn one_who_speaks_nonsense_is_given_up() {
    use transports::tcp::{HELLO_ACK_LEN, Hello, representation};
    // It takes connections, says nothing on them, and comes itself with a good HELLO.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let contact = Contact { process: [9; 16], host: [0; 16], addresses: vec![port.local_addr().unwrap()] };
    let it = ProcId { incarnation: 0, rank: 0 };
    let b = Job::new();
    let there = RemoteGroup { incarnation: 0, cookie: [0; 16], contacts: vec![contact] };
    let inter = b.node.open(b.id(), &there, 1);
    let mut space = vec![0; 3];
    let recv = b.recv(inter, 1, &mut space);
    let mut lanes = 0;
    for generation in 1..10 {
        let hello = Hello {
            representation: representation(),
            source: it,
            dest: b.id(),
            cookie: b.group.cookie,
            process: [9; 16],
            generation,
            received: 0,
        };
        let mut stream = TcpStream::connect(b.node.contact().addresses[0]).unwrap();
        stream.write_all(&hello.encode()).unwrap();
        let mut ack = [0; HELLO_ACK_LEN];
        stream.read_exact(&mut ack).unwrap();
        if ack[8] != 0 {
            break;
        }
        lanes += 1;
        stream.write_all(&[0xff; 100]).unwrap();
        let _ = stream.read(&mut [0; 1]);
        // It has seen what it was sent.
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(lanes, 3);
    assert!(matches!(b.wait_for(recv, Duration::from_secs(5)), Some(Outcome::Failed(_))));
}
