//! Waits until two leaders agree. The session negotiates, and the naming service says whether the other leader is still
//! there.

use crate::failure::{Class, Failure};
use crate::wait::wait_until;
use node::leaders::{Agreement, Looking, Party, Turn};
use node::{Node, PathRef};
use std::time::{Duration, Instant};

/// How often the naming service is asked whether the other leader is still there.
const STILL_THERE: Duration = Duration::from_millis(500);

/// The result of a negotiation.
pub enum Round {
    Agreed(Agreement),
    /// The other leader is gone, or cannot be found any more.
    Gone,
    TimedOut,
}

/// Makes an offer, and waits for the other side's. `decider` says that this side's incarnation is the smaller one.
/// `is_found` says whether `who` can still be found. `meanwhile` is called again and again with the job that the other
/// leader looks for, and may end the wait.
#[allow(clippy::too_many_arguments)]
pub fn agree(
    node: &Node,
    path: PathRef,
    who: &str,
    decider: bool,
    offer: &Party,
    deadline: Option<Instant>,
    mut is_found: impl FnMut() -> bool,
    mut meanwhile: impl FnMut(Option<&Looking>) -> Result<(), Failure>,
) -> Result<Round, Failure> {
    node.with(|core| core.offer(path, decider, offer, deadline));
    loop {
        let slice = Instant::now() + STILL_THERE;
        let (looking, withdrawn) = node.with(|core| (core.looking(path).cloned(), core.is_withdrawn(path)));
        let turn = wait_until(node, Some(slice), |core| match core.talk(path) {
            // The job that the other leader looks for is only shown to people.
            Turn::Waiting if core.looking(path) == looking.as_ref() => None,
            turn => Some(turn),
        });
        match turn {
            Some(Turn::Agreed(agreement)) => return Ok(Round::Agreed(agreement)),
            Some(Turn::Gone) => return Ok(Round::Gone),
            Some(Turn::TimedOut) => return Ok(Round::TimedOut),
            Some(Turn::Nonsense) => {
                return Err(Failure::new(Class::Intern, format!("{who} sent nonsense during set-up")));
            }
            Some(Turn::Waiting) => (),
            None => {
                let found = is_found();
                node.with(|core| core.is_found(path, found));
            }
        }
        if !withdrawn {
            let looking = node.with(|core| core.looking(path).cloned());
            meanwhile(looking.as_ref()).inspect_err(|_| node.with(|core| core.break_off(path)))?;
        }
    }
}
