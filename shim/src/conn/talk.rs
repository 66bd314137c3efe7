//! Two leaders talk until they agree, over the path between them. Set-up alone comes here, and only here do time limits
//! hold.

use crate::error::{Class, Failure};
use crate::wait::wait_until;
use engine::setup::{Agreement, Negotiation, Party, Standing};
use node::{Node, PathRef};
use std::time::{Duration, Instant};

/// How often, while waiting for the other leader, we make sure that it is still to be found.
const STILL_THERE: Duration = Duration::from_millis(500);
/// How long the answer to a withdrawal is waited for.
const WITHDRAWAL: Duration = Duration::from_secs(2);

pub struct Talk {
    pub path: PathRef,
    pub negotiation: Negotiation,
}

/// What a round of talking came to.
pub enum Round {
    Agreed(Agreement),
    /// The other leader is gone, or not to be found any more.
    Gone,
    TimedOut,
}

impl Talk {
    /// Takes what the other leader has said. All of it is read before anything is decided: an offer may have been
    /// withdrawn since.
    fn hear(&mut self, messages: impl IntoIterator<Item = Vec<u8>>, who: &str) -> Result<(), Failure> {
        messages.into_iter().try_for_each(|bytes| {
            let nonsense = |_| Failure::new(Class::Intern, format!("{who} sent nonsense during set-up"));
            self.negotiation.on_message(&bytes).map_err(nonsense)
        })
    }

    /// Offers, and waits for the other side's offer. `is_found`: whether `who` can still be found; `meanwhile`: is called
    /// again and again, with what is known, and may end it.
    pub fn until(
        &mut self,
        node: &Node,
        who: &str,
        offer: &Party,
        deadline: Option<Instant>,
        mut is_found: impl FnMut() -> bool,
        mut meanwhile: impl FnMut(&Negotiation) -> Result<(), Failure>,
    ) -> Result<Round, Failure> {
        let path = self.path;
        let mut limit = deadline;
        let mut withdrawn = false;
        let mut missing_since = None;
        let mut heard = Vec::new();
        let mut offered = false;
        loop {
            heard.extend(std::iter::from_fn(|| node.recv_control(path)));
            self.hear(heard.drain(..), who)?;
            if !offered {
                self.negotiation.offer(offer);
                offered = true;
            }
            self.negotiation.decide();
            for bytes in std::iter::from_fn(|| self.negotiation.next_output()) {
                node.send_control(path, &bytes);
            }
            match self.negotiation.standing() {
                Standing::Agreed(agreement) => return Ok(Round::Agreed(agreement)),
                Standing::Withdrawn => return Ok(Round::TimedOut),
                Standing::Waiting => {}
            }
            if node.path_gone(path).is_some() {
                self.negotiation.abandon();
                return Ok(if withdrawn { Round::TimedOut } else { Round::Gone });
            }
            if !withdrawn {
                meanwhile(&self.negotiation)?;
            }
            let now = Instant::now();
            if limit.is_some_and(|limit| now >= limit) {
                if withdrawn {
                    self.negotiation.abandon();
                    return Ok(Round::TimedOut);
                }
                self.negotiation.withdraw();
                withdrawn = true;
                limit = Some(now + WITHDRAWAL);
                continue;
            }
            let slice = limit.map_or(now + STILL_THERE, |limit| limit.min(now + STILL_THERE));
            match wait_until(node, Some(slice), |core| core.recv_control(path)) {
                Some(bytes) => heard.push(bytes),
                None => {
                    // One that has agreed may go at once, so that it is not found counts only after a while.
                    let since = *missing_since.get_or_insert_with(Instant::now);
                    if is_found() {
                        missing_since = None;
                    } else if since.elapsed() > WITHDRAWAL && !withdrawn {
                        self.negotiation.abandon();
                        return Ok(Round::Gone);
                    }
                }
            }
        }
    }
}
