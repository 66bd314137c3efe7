//! Pairs move from one transport to another while messages flow, and back: nothing is lost, doubled or out of order.

mod common;
use common::*;
use node::ProcId;
use std::time::{Duration, Instant};

/// Waits until both sides have left all earlier lanes, and the lane is of this kind.
fn settled(ends: [(&Job, &Job); 2], shared: bool) {
    let until = Instant::now() + LONG;
    let is_there = |(a, b): &(&Job, &Job)| {
        a.node.inspect(|core| core.is_shared(a.id(), b.id()) == shared && !core.is_moving(a.id(), b.id()))
    };
    while !ends.iter().all(is_there) {
        assert!(Instant::now() < until, "the pair has not moved in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One message each way.
fn exchange(ends: [(&Job, node::InterId); 2], data: &[u8]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut space = vec![0; data.len()];
        let recv = ends[to].0.recv(ends[to].1, 1, &mut space);
        let send = ends[from].0.send(ends[from].1, 1, data);
        assert_eq!(ends[to].0.wait(recv), got(data.len(), 1));
        assert_eq!(ends[from].0.wait(send), node::Outcome::Sent);
        assert!(space == data);
    }
}

#[test]
fn a_pair_moves_there_and_back_as_often_as_wanted() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let ends = [(&a, to_b), (&b, to_a)];
    let data = pattern(300_000, 1);
    exchange(ends, &data);
    settled([(&a, &b), (&b, &a)], true);
    for round in 0..100 {
        let by = if round % 3 == 0 { &b } else { &a };
        let word = if round % 2 == 0 { "tcp" } else { ["shm", "best"][round / 2 % 2] };
        let moved = by.node.inspect(|core| core.switch(|_, _| true, word)).unwrap();
        assert_eq!((moved.begun.len(), moved.refused.len()), (1, 0), "round {round}");
        exchange(ends, &data[..1 + round * 2_000]);
        settled([(&a, &b), (&b, &a)], round % 2 == 1);
        // What was learnt of the move is over: small messages go at once again.
        exchange(ends, &data[..8]);
        let again = by.node.inspect(|core| core.switch(|_, _| true, word)).unwrap();
        assert_eq!((again.begun.len(), again.there.values().sum::<usize>()), (0, 1));
    }
    assert_eq!(a.node.inspect(|core| core.lanes_had(a.id(), b.id())), 101);
    for job in [a, b] {
        assert_eq!(job.node.drain(LONG), 0);
    }
}

#[test]
fn moves_at_random_times_with_nothing_lost() {
    let mut in_all = 0;
    for seed in [21, 22, 23] {
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let (ends, nodes) = ([a.id(), b.id()], [a.node.clone(), b.node.clone()]);
        let data = Rng(seed + 100).messages(1200);
        let mut rng = Rng(seed);
        let operators = move || {
            let mut begun = 0;
            std::thread::sleep(Duration::from_micros(200 + rng.roll(10_000)));
            let word = ["tcp", "shm", "best", "tcp"][rng.roll(4) as usize];
            // Now and then both sides order something at once.
            let first = rng.roll(2) as usize;
            for side in [first, 1 - first].into_iter().take(1 + rng.roll(8) as usize / 7) {
                begun += nodes[side].inspect(|core| core.switch(|_, _| true, word)).unwrap().begun.len();
            }
            // And now and then the lane breaks meanwhile.
            if rng.roll(10) == 0 {
                nodes[first].inspect(|core| core.cut(ends[first], ends[1 - first]));
            }
            begun
        };
        let (jobs, begun) = swap_beside([(a, to_b), (b, to_a)], &data, operators);
        let had = jobs[0].node.inspect(|core| core.lanes_had(jobs[0].id(), jobs[1].id()));
        println!("seed {seed}: {begun} moves begun, {had} lanes");
        in_all += begun;
        assert_eq!(jobs.iter().map(|j| j.node.drain(LONG)).sum::<usize>(), 0);
    }
    assert!(in_all > 9, "{in_all} moves in all");
}

#[test]
fn what_cannot_be_is_told() {
    let (a, b) = (Job::new(), {
        over(TCP);
        Job::new()
    });
    let (to_b, to_a) = couple(&a, &b);
    exchange([(&a, to_b), (&b, to_a)], b"over the only transport that both have");
    let order = |job: &Job, word: &str| job.node.inspect(|core| core.switch(|_, _| true, word));
    let none = order(&a, "carrier pigeon").unwrap_err();
    assert!(none.to_string().contains("best, shm, verbs, router, tcp"), "{none}");
    let refused = order(&a, "shm").unwrap().refused;
    assert_eq!(refused.len(), 1);
    assert_eq!((refused[0].0, refused[0].1.to_string()), (b.id(), "the other side offers none".into()));
    let refused = order(&b, "shm").unwrap().refused;
    assert_eq!(refused[0].1.to_string(), "this side's MPI_CONNECT_LANES does not allow it");
    let nobody = a.node.inspect(|core| core.switch(|_, remote: ProcId| remote.incarnation == 999, "tcp")).unwrap();
    assert_eq!(nobody, node::Moved::default());
    exchange([(&a, to_b), (&b, to_a)], b"and nothing has changed");
    assert_eq!(a.node.inspect(|core| core.lanes_had(a.id(), b.id())), 1);
}

/// Where pairs stay that do not use a transport which may be used again, and on whose side the reason is.
#[test]
fn a_pair_that_stays_where_it_is_says_why() {
    let [a, d, e] = std::array::from_fn(|_| Job::new());
    over(TCP);
    let (b, c) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    exchange([(&a, to_b), (&b, to_a)], b"over TCP");
    let stays = |job: &Job, word: &str| {
        let moved = job.node.inspect(|core| core.use_again(word)).unwrap();
        assert_eq!(moved.refused.len(), 1, "{moved:?}");
        moved.refused[0].1.to_string()
    };
    assert_eq!(stays(&a, "shm"), "the other side offers none");
    let left = a.node.inspect(|core| core.stop_using("shm")).unwrap();
    assert_eq!(left, Some(Vec::new()), "no pair used it");
    let until = Instant::now() + LONG;
    while a.node.inspect(|core| core.uses("shm")) {
        assert!(Instant::now() < until, "something is left");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(a.node.inspect(|core| core.stop_using("shm")), Ok(None), "it is out of use already");
    let there = a.node.inspect(|core| core.use_again("tcp")).unwrap();
    assert_eq!((there.there.values().sum::<usize>(), there.unconnected), (1, 0));
    // One that is not connected is told as that.
    couple(&a, &c);
    let moved = a.node.inspect(|core| core.switch(|_, remote| remote == c.id(), "tcp")).unwrap();
    assert_eq!((moved.there.len(), moved.unconnected, moved.refused.len()), (0, 1, 0));
    // One that uses a better one, and one that is ordered elsewhere.
    let (to_e, to_d) = couple(&d, &e);
    exchange([(&d, to_e), (&e, to_d)], b"over shared memory");
    settled([(&d, &e), (&e, &d)], true);
    assert_eq!(stays(&d, "tcp"), "shm is better");
    d.node.inspect(|core| core.switch(|_, _| true, "tcp")).unwrap();
    settled([(&d, &e), (&e, &d)], false);
    assert_eq!(stays(&d, "shm"), "tcp is ordered");
}

/// What this process holds that a transport over shared memory needs: mappings of nameless files, and sockets.
fn held_here() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains("memfd:")).count();
    (mapped, std::fs::read_dir("/proc/self/fd").unwrap().count())
}

#[test]
fn a_transport_is_taken_out_of_use_and_used_again() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let ends = [(&a, to_b), (&b, to_a)];
    let data = pattern(100_000, 3);
    exchange(ends, &data);
    let both = [(&a, &b), (&b, &a)];
    settled(both, true);
    let mut level = None;
    for round in 0..50 {
        for job in [&a, &b] {
            job.node.inspect(|core| core.stop_using("shm")).unwrap();
        }
        exchange(ends, &data);
        settled(both, false);
        let until = Instant::now() + LONG;
        while [&a, &b].iter().any(|job| job.node.inspect(|core| core.uses("shm"))) {
            assert!(Instant::now() < until, "round {round}: something is left");
            std::thread::sleep(Duration::from_millis(1));
        }
        let refused = a.node.inspect(|core| core.switch(|_, _| true, "shm")).unwrap().refused;
        assert_eq!(refused[0].1.to_string(), "this side has taken it out of use");
        // Other tests of this program run beside this one, so only one that runs alone can count.
        if std::env::args().any(|arg| arg == "--exact") {
            // The background threads let go of theirs at once.
            while held_here().0 > 0 {
                assert!(Instant::now() < until, "mappings are left");
                std::thread::sleep(Duration::from_millis(1));
            }
            let held = held_here();
            assert!(*level.get_or_insert(held.1) >= held.1, "descriptors grow: {level:?}, {held:?}");
        }
        for job in [&b, &a] {
            job.node.inspect(|core| core.use_again("shm")).unwrap();
        }
        exchange(ends, &data);
        settled(both, true);
    }
    assert_eq!(a.node.inspect(|core| core.stop_using("tcp")), Err(node::CannotUse::Last));
    exchange(ends, &data);
}

/// Else each message that is read would take a word more, and each that is written a system call.
#[test]
fn processes_that_share_memory_see_that_the_other_lives() {
    for _ in 0..20 {
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        exchange([(&a, to_b), (&b, to_a)], b"over shared memory");
        settled([(&a, &b), (&b, &a)], true);
        for (one, other) in [(&a, &b), (&b, &a)] {
            assert!(one.node.inspect(|core| core.is_seen_alive(one.id(), other.id())));
        }
    }
}

#[test]
fn the_only_transport_stays() {
    over("shm");
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    exchange([(&a, to_b), (&b, to_a)], b"over shared memory");
    assert_eq!(a.node.inspect(|core| core.stop_using("shm")), Err(node::CannotUse::Last));
    exchange([(&a, to_b), (&b, to_a)], b"and still");
}

/// Where the other process offers nothing else, the pair would be without a connection.
#[test]
fn what_alone_reaches_a_process_stays() {
    let b = Job::new();
    over("shm");
    let a = Job::new();
    let (to_b, to_a) = couple(&a, &b);
    let ends = [(&a, to_b), (&b, to_a)];
    exchange(ends, b"over the only transport that both have");
    let refused = b.node.inspect(|core| core.stop_using("shm"));
    assert_eq!(refused, Err(node::CannotUse::Only(vec![a.id()])));
    exchange(ends, b"and still");
    assert_eq!(a.node.inspect(|core| core.lanes_had(a.id(), b.id())), 1);
}

/// An order was given to one side, and taken back where the pair could not move: the other side keeps it no longer than that.
#[test]
fn an_order_that_is_taken_back_binds_nobody() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let (ends, both) = ([(&a, to_b), (&b, to_a)], [(&a, &b), (&b, &a)]);
    exchange(ends, b"over shared memory");
    settled(both, true);
    let order = |job: &Job, word: &str| job.node.inspect(|core| core.switch(|_, _| true, word)).unwrap();
    order(&a, "tcp");
    settled(both, false);
    b.node.inspect(|core| core.stop_using("shm")).unwrap();
    let until = Instant::now() + LONG;
    while b.node.inspect(|core| core.uses("shm")) {
        assert!(Instant::now() < until, "something is left");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(order(&a, "best").there.values().sum::<usize>(), 1);
    b.node.inspect(|core| core.use_again("shm")).unwrap();
    exchange(ends, b"on the way");
    settled(both, true);
}

/// A process that is held does not hear that the other one takes a transport out of use.
#[test]
fn a_transport_goes_while_the_other_side_is_held() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    exchange([(&a, to_b), (&b, to_a)], b"before");
    for (held, other) in [(&a, &b), (&b, &a)] {
        settled([(&a, &b), (&b, &a)], true);
        assert_eq!(held.node.hold(), 0);
        other.node.inspect(|core| core.stop_using("shm")).unwrap();
        held.node.resume();
        exchange([(&a, to_b), (&b, to_a)], b"over what is left");
        settled([(&a, &b), (&b, &a)], false);
        other.node.inspect(|core| core.use_again("shm")).unwrap();
    }
}

fn held_and_resumed() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let ends = [(&a, to_b), (&b, to_a)];
    exchange(ends, b"before");
    for round in 0..20 {
        let (holder, other) = if round % 2 == 0 { (&ends[0], &ends[1]) } else { (&ends[1], &ends[0]) };
        // Both ways, of all kinds: one that is complete at once, and ones that are announced.
        let sizes = [8, 70_000, 3 << 20];
        let data: Vec<Vec<u8>> = sizes.iter().map(|size| pattern(*size, round)).collect();
        let sent: Vec<_> =
            data.iter().flat_map(|d| [holder.0.send(holder.1, 7, d), other.0.send(other.1, 7, d)]).collect();
        holder.0.node.inspect(|core| core.hold());
        let until = Instant::now() + LONG;
        while holder.0.node.inspect(|core| core.is_held()) != (node::Hold::Held { untold: 0 }) {
            assert!(Instant::now() < until, "it is not held in time");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!holder.0.node.inspect(|core| core.cut(holder.0.id(), other.0.id())), "a lane is left");
        let mut spaces: Vec<Vec<u8>> = sizes.iter().flat_map(|size| [vec![0; *size], vec![0; *size]]).collect();
        let received: Vec<_> = spaces
            .iter_mut()
            .enumerate()
            .map(|(i, space)| {
                let end = if i % 2 == 0 { other } else { holder };
                (end, end.0.recv(end.1, 7, space))
            })
            .collect();
        // The other side is not taken for dead, and nothing fails.
        let (end, last) = &received[5];
        assert_eq!(end.0.wait_for(*last, Duration::from_millis(100)), None);
        holder.0.node.inspect(|core| core.resume());
        for (i, (end, op)) in received.into_iter().enumerate() {
            assert_eq!(end.0.wait(op), got(sizes[i / 2], 7), "round {round}, message {i}");
        }
        for (i, op) in sent.into_iter().enumerate() {
            let end = if i % 2 == 0 { holder } else { other };
            assert_eq!(end.0.wait(op), node::Outcome::Sent);
        }
        assert!(spaces.iter().enumerate().all(|(i, space)| *space == data[i / 2]));
    }
    assert_eq!(a.node.drain(LONG) + b.node.drain(LONG), 0);
}

/// Who has finished waits for one that is held to take what was sent to it, longer than for one that is silent.
fn held_while_the_other_finalizes() {
    const DRAIN: Duration = Duration::from_millis(100);
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    exchange([(&a, to_b), (&b, to_a)], b"before");
    assert_eq!(b.node.hold(), 0);
    let data: Vec<Vec<u8>> = [8, 3 << 20].iter().map(|size| pattern(*size, 1)).collect();
    for d in &data {
        a.send(to_b, 7, d);
    }
    std::thread::scope(|scope| {
        let drains = scope.spawn(|| a.node.drain(DRAIN));
        let until = Instant::now() + 5 * DRAIN;
        while Instant::now() < until {
            assert!(!drains.is_finished(), "it has given up");
            std::thread::sleep(Duration::from_millis(1));
        }
        b.node.resume();
        for d in &data {
            let mut space = vec![0; d.len()];
            let op = b.recv(to_a, 7, &mut space);
            assert_eq!(b.wait(op), got(d.len(), 7));
            assert!(space == *d);
        }
        assert_eq!(drains.join().expect("no panic"), 0);
    });
}

/// A held process that ends is waited for, since it may come back, until somebody says that it does not.
fn held_and_dead() {
    let (a, b) = (Job::new(), Job::new());
    base::ident::name_job(a.group.incarnation, "held and dead");
    let (to_b, to_a) = couple(&a, &b);
    exchange([(&a, to_b), (&b, to_a)], b"before");
    let mut space = [0; 8];
    let waits = b.recv(to_a, 1, &mut space);
    assert_eq!(b.node.inspect(|core| core.give_up("held and dead")), 0, "it is not held");
    assert_eq!(a.node.hold(), 0);
    a.node.kill();
    assert_eq!(b.wait_for(waits, Duration::from_secs(3)), None, "it may come back");
    assert_eq!(b.node.inspect(|core| core.give_up("another")), 0);
    assert_eq!(b.node.inspect(|core| core.give_up("held and dead")), 1);
    assert!(matches!(b.wait(waits), node::Outcome::Failed(_)), "it is dead");
}

/// Both hear of the other, so neither waits for long.
fn both_held_at_a_time() {
    let (a, b) = (Job::new(), Job::new());
    let (to_b, to_a) = couple(&a, &b);
    let ends = [(&a, to_b), (&b, to_a)];
    exchange(ends, b"before");
    for round in 0..50 {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for job in [&a, &b] {
                scope.spawn(|| assert_eq!(job.node.hold(), 0, "the other was told"));
            }
        });
        assert!(begun.elapsed() < Duration::from_secs(5), "round {round}: {:?}", begun.elapsed());
        for job in [&a, &b] {
            job.node.resume();
        }
        exchange(ends, b"again");
    }
}

/// A move that meets a hold, of the same side or the other, ends at once, and the hold is heard of. The order stands.
#[test]
fn held_while_it_moves() {
    for mover in [0, 1] {
        let (a, b) = (Job::new(), Job::new());
        let (to_b, to_a) = couple(&a, &b);
        let ends = [(&a, to_b), (&b, to_a)];
        exchange(ends, b"before");
        let mut rng = Rng(7);
        for round in 0..150 {
            let word = ["tcp", "shm"][round % 2];
            ends[mover].0.node.inspect(|core| core.switch(|_, _| true, word)).unwrap();
            std::thread::sleep(Duration::from_micros(rng.roll(3000)));
            let begun = Instant::now();
            assert_eq!(a.node.hold(), 0, "mover {mover}, round {round}: the other was told");
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(5), "mover {mover}, round {round}: {took:?}");
            a.node.resume();
            exchange(ends, b"again");
            settled([(&a, &b), (&b, &a)], word == "shm");
        }
    }
}

over_both!(held_and_resumed, held_while_the_other_finalizes, held_and_dead, both_held_at_a_time);
