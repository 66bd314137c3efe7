//! Leaders that do not find each other by name for a while: both run the session of the library, and what lies between them is memory
//! (`bench/src/scale`).

#[path = "../../bench/src/scale/wire.rs"]
#[allow(dead_code)]
mod wire;
#[path = "../../bench/src/scale/world.rs"]
#[allow(dead_code)]
mod world;

use crate::world::World;
use session::leaders::Turn;
use std::time::Duration;

const LOST: Duration = Duration::from_millis(2100);

/// A leader offered, and the name of the other one led nowhere for a while, as the naming server did not reach it. It forgot its offer
/// without a word; the other one accepted that, and used in vain what the first one did not have, while the first one waited for the
/// answer to its next offer.
#[test]
fn an_offer_to_a_name_that_is_lost_is_taken_back() {
    for first in [0, 1u32] {
        let mut world = World::with(2, 40);
        (0..4).for_each(|rank| world.register(rank));
        let path = world.offer(first);
        world.settle();
        let mut turns = Vec::new();
        for _ in 0..3 {
            turns.push(world.act(first * 2, |session, now| {
                session.is_found(path, false, now);
                session.talk(path, now + LOST)
            }));
            // The other one waits for a name, and reads nothing of a leader before it has found one.
            world.settle();
        }
        if first == 1 {
            // It cannot know whether its offer was accepted before it was taken back.
            assert_eq!(turns, [Turn::Waiting, Turn::Waiting, Turn::Waiting]);
            let over = |session: &mut world::Rank, now| session.talk(path, now + 2 * LOST);
            turns.push(world.act(2, over));
        }
        assert_eq!(turns.iter().find(|turn| **turn != Turn::Waiting), Some(&Turn::Gone));
        let other = world.offer(1 - first);
        world.settle();
        // Before the first one has offered again, there is nothing to accept.
        let turn = world.act((1 - first) * 2, |session, now| session.talk(other, now));
        assert_eq!(turn, Turn::Waiting);
        let again = world.offer(first);
        world.settle();
        world.agree_over(if first == 0 { [again, other] } else { [other, again] }).expect("they agree");
    }
}
