//! Further cases for the lanes of transports: how polled lanes wake a sleeping process, and an end right behind a message.

use super::Factory;
use super::memory::*;
use super::rig::{KEYS, Rig, Side};
use crate::registry::{AnyLane, DOORBELLS};
use std::time::Instant;
use wire::frame::Kind;
use wire::lane::{Event, Lane, Payload, Sent};

/// A process that is awake costs its senders no system call, and one that sleeps costs one, whatever comes. This holds for both
/// directions of a lane. Lanes that are not polled have descriptors, and ring no doorbell.
pub fn a_sleeper_is_woken_once(rig: &mut Rig) {
    let (mut a, mut b) = rig.pair();
    woken_once(&rig.sides[1], KEYS[1], &mut a, &b);
    woken_once(&rig.sides[0], KEYS[0], &mut b, &a);
}

/// `key` is that of the pair on the receiving side.
fn woken_once(side: &Side, key: u32, from: &mut AnyLane, to: &AnyLane) {
    let mem = Mem::new(1);
    let mut i = 0;
    let mut send = || {
        i += 1;
        assert_eq!(from.try_send(&mem, &header(Kind::Msg, i, 0, 3), Payload::Bytes(b"abc")), Sent::Taken);
        from.flush(&mem);
    };
    assert_eq!(side.registry.polling.is_some(), to.polled().is_some(), "a doorbells and lanes go together");
    let (Some(polling), Some(polled)) = (&side.registry.polling, to.polled()) else {
        send();
        return assert!(side.eventfd.read().is_err(), "the doorbell is for lanes that are looked at");
    };
    let (own, eventfd) = (&polling.doorbells, &side.eventfd);
    for direct in [false, true] {
        polled.set_direct(direct);
        send();
        assert!(eventfd.read().is_err() && own.any() != direct);
        own.take(|bit| assert_eq!(bit, key % DOORBELLS));
        own.arm();
        send();
        send();
        assert_eq!(eventfd.read(), Ok(1));
        assert!(!own.is_armed() && own.any() != direct);
        own.take(|bit| assert_eq!(bit, key % DOORBELLS));
    }
    assert!(polled.has_input());
}

/// A message right before the end is read, however close the two are.
pub fn last_words_are_heard_however_close(rig: &mut Rig) {
    for _ in 0..500 {
        let (mut a, mut b) = rig.pair();
        let speaker = std::thread::spawn(move || {
            let mem = Mem::new(1);
            let taken = a.try_send(&mem, &header(Kind::Msg, 1, 0, 3), Payload::Bytes(b"bye"));
            assert_eq!(taken, Sent::Taken);
            // A lane without retention has it with the other side at once.
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
