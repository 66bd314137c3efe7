//! What is asked of the lanes of transports besides: how those that are looked at wake one who sleeps, and how close an end
//! may follow a word.

use super::Factory;
use super::memory::*;
use super::rig::{KEYS, Rig, Side};
use crate::registry::{AnyLane, BOARD_KEYS};
use std::time::Instant;
use wire::frame::Kind;
use wire::lane::{Event, Lane, Payload, Sent};

/// Nobody makes a system call for one who is awake, and one is enough for a sleeper, whatever comes: over both directions of
/// a lane. Lanes that are not looked at tell by their descriptors, and leave no word.
pub fn a_sleeper_is_woken_once(rig: &mut Rig) {
    let (mut a, mut b) = rig.pair();
    woken_once(&rig.sides[1], KEYS[1], &mut a, &b);
    woken_once(&rig.sides[0], KEYS[0], &mut b, &a);
}

/// `key`: of the pair on the side that is told.
fn woken_once(side: &Side, key: u32, from: &mut AnyLane, to: &AnyLane) {
    let mem = Mem::new(1);
    let mut i = 0;
    let mut send = || {
        i += 1;
        assert_eq!(from.try_send(&mem, &header(Kind::Msg, i, 0, 3), Payload::Bytes(b"abc")), Sent::Taken);
        from.flush(&mem);
    };
    assert_eq!(side.registry.looked.is_some(), to.polled().is_some(), "a board and lanes go together");
    let (Some(looked), Some(polled)) = (&side.registry.looked, to.polled()) else {
        send();
        return assert!(side.bell.read().is_err(), "the doorbell is for lanes that are looked at");
    };
    let (own, bell) = (&looked.board, &side.bell);
    for direct in [false, true] {
        polled.set_direct(direct);
        send();
        assert!(bell.read().is_err() && own.any() != direct);
        own.take(|bit| assert_eq!(bit, key % BOARD_KEYS));
        own.arm();
        send();
        send();
        assert_eq!(bell.read(), Ok(1));
        assert!(!own.dozes() && own.any() != direct);
        own.take(|bit| assert_eq!(bit, key % BOARD_KEYS));
    }
    assert!(polled.has_input());
}

/// What is said just before the end is read, however close the two are.
pub fn last_words_are_heard_however_close(rig: &mut Rig) {
    for _ in 0..500 {
        let (mut a, mut b) = rig.pair();
        let speaker = std::thread::spawn(move || {
            let mem = Mem::new(1);
            let taken = a.try_send(&mem, &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"bye"));
            assert_eq!(taken, Sent::Taken);
            // What needs no retention is with the other side at once.
            let start = Instant::now();
            while Lane::<Mem>::caps(&a).needs_retention && !a.flush(&mem) {
                assert!(start.elapsed() < LIMIT);
            }
        });
        let (mut seen, start) = (Seen::new(1), Instant::now());
        while Lane::<Mem>::event(&mut b) != Some(Event::Dead) {
            assert!(start.elapsed() < LIMIT);
            Lane::<Mem>::poll(&mut b, &mut seen, 1 << 16);
        }
        assert_eq!(seen.frames.len(), 1);
        speaker.join().unwrap();
    }
}
