//! Whether a history of claims, renewals, releases and look-ups of one name is linearizable (Wing and Gong's search, as Lowe has
//! improved it: the crate `todc-utils`), and whether two ever held the name.
//!
//! A lease that ends is nobody's operation. It is added as one that may happen at any time from the moment on when the lease may be over
//! at the earliest, and that does nothing if the claim was renewed since. So a name that goes too early is found too.

use naming::Said;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

/// A claim, by the incarnation of its record, which nobody else has.
pub type Claim = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Claim(Claim),
    /// With the number of the claim.
    Renew(Claim, u64),
    Release(Claim),
    Lookup,
    /// The claim's lease is over.
    Over(Claim),
    /// The history is over: what has no answer, and has had no effect, never has one.
    End,
}

/// What was asked, when, and what was said; without an answer, it may be done at any time after.
#[derive(Debug, Clone)]
pub struct Op {
    pub what: What,
    pub asked: Instant,
    /// `None` where it is not known what was done, or when.
    pub said: Option<(Instant, Said)>,
}

impl Op {
    fn claim(&self) -> Option<Claim> {
        match self.what {
            What::Claim(claim) | What::Renew(claim, _) | What::Release(claim) | What::Over(claim) => Some(claim),
            What::Lookup | What::End => None,
        }
    }

    fn takes(&self) -> bool {
        matches!(self.what, What::Claim(_) | What::Renew(..))
    }

    /// When it was granted, if it was: between which moments.
    fn granted(&self) -> Option<(Instant, Instant)> {
        match &self.said {
            Some((at, Said::Granted(..))) => Some((self.asked, *at)),
            _ => None,
        }
    }
}

/// What a name may be, and what is said of it then.
struct Name;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct State {
    /// By whom it is held, and the number if that is known.
    held: Option<(Claim, Option<u64>)>,
    /// The end of the lease that the holder was promised.
    until: Option<Instant>,
    /// The largest number that is known.
    last: u64,
    /// Claims that were released.
    ended: Vec<Claim>,
    over: bool,
}

impl State {
    fn is_held_by(&self, claim: Claim) -> bool {
        self.held.is_some_and(|(held, _)| held == claim)
    }

    /// It is granted, with a number if that is known.
    fn grant(&mut self, claim: Claim, number: Option<u64>) -> bool {
        match (&mut self.held, number) {
            (Some((holder, _)), _) if *holder != claim => return false,
            (Some((_, Some(known))), Some(number)) => return *known == number,
            (Some((_, Some(_))), None) => return true,
            (held, number) => {
                if held.is_none() {
                    self.until = None;
                }
                *held = Some((claim, number));
            }
        }
        match number {
            Some(number) if number <= self.last => return false,
            Some(number) => self.last = number,
            None => {}
        }
        true
    }
}

/// With the time of the question.
type Asked = (What, Instant, Option<Said>);

impl Specification for Name {
    type State = State;
    type Operation = Asked;

    fn init() -> State {
        State::default()
    }

    fn apply((what, asked, said): &Asked, state: &State) -> (bool, State) {
        let mut new = state.clone();
        if state.over {
            return (true, new);
        }
        // Without an answer it has an effect, or none ever. That keeps the search short.
        let must_change = said.is_none();
        let held_by_other = |other: u64, claim| state.held.is_some_and(|(by, _)| by == other && by != claim);
        let good = match (what, said) {
            (What::Claim(claim) | What::Renew(claim, _), Some(Said::Granted(lease, number))) => {
                let superseded = matches!(what, What::Renew(_, before) if state.held.is_none() && *before < state.last);
                let good = !state.ended.contains(claim) && !superseded && new.grant(*claim, Some(*number));
                new.until = new.until.max(Some(*asked + *lease));
                good
            }
            (What::Claim(claim) | What::Renew(claim, _), Some(Said::Held(other))) => held_by_other(*other, *claim),
            (What::Claim(claim) | What::Renew(claim, _), Some(Said::Ended)) => state.ended.contains(claim),
            (What::Renew(_, before), Some(Said::Superseded)) => state.held.is_none() && *before < state.last,
            (What::Claim(claim) | What::Renew(claim, _), None) => {
                let superseded = matches!(what, What::Renew(_, before) if *before < state.last);
                let is_free = state.held.is_none() && !state.ended.contains(claim) && !superseded;
                is_free && new.grant(*claim, None)
            }
            (What::Release(claim), None | Some(Said::Released)) => {
                if let Err(at) = new.ended.binary_search(claim) {
                    new.ended.insert(at, *claim);
                }
                if state.is_held_by(*claim) {
                    new.held = None;
                }
                true
            }
            (What::Lookup, Some(Said::Found(None))) => state.held.is_none(),
            (What::Lookup, Some(Said::Found(Some((claim, number))))) => {
                state.is_held_by(*claim) && new.grant(*claim, Some(*number))
            }
            (What::Over(claim), _) => {
                if state.is_held_by(*claim) && state.until.is_none_or(|until| until <= *asked) {
                    new.held = None;
                }
                true
            }
            (What::End, _) => {
                new.over = true;
                true
            }
            _ => false,
        };
        (good && !(must_change && new == *state), new)
    }
}

/// Whether this history of one name, with leases of this length, is linearizable.
pub fn is_linearizable(ops: &[Op], lease: Duration) -> bool {
    let seen = seen(ops);
    let matters = |op: &&Op| match op.what {
        What::Lookup => op.said.is_some(),
        // A claim that nobody has seen since explains nothing.
        What::Claim(claim) | What::Renew(claim, _) if op.said.is_none() => {
            seen.get(&claim).is_some_and(|at| *at > op.asked)
        }
        _ => true,
    };
    let mut ops: Vec<Op> = ops.iter().filter(matters).cloned().collect();
    ops.extend(overs(&ops, lease));
    let Some(end) = ops.iter().map(|op| op.said.as_ref().map_or(op.asked, |(at, _)| *at)).max() else { return true };
    ops.push(Op { what: What::End, asked: end, said: Some((end, Said::Released)) });
    // Questions before answers of the same moment; what has no answer ends after all others.
    let mut actions: Vec<(Option<Instant>, bool, usize)> = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        actions.push((Some(op.asked), false, i));
        actions.push((op.said.as_ref().map(|(at, _)| *at), true, i));
    }
    actions.sort_by_key(|(at, is_answer, i)| (at.is_none(), *at, ops[*i].what == What::End, *is_answer, *i));
    let asked = |i: usize| -> Asked { (ops[i].what, ops[i].asked, ops[i].said.as_ref().map(|(_, said)| said.clone())) };
    let actions: Vec<_> = actions
        .into_iter()
        .map(|(_, is_answer, i)| (i, if is_answer { Action::Response(asked(i)) } else { Action::Call(asked(i)) }))
        .collect();
    WGLChecker::<Name>::is_linearizable(History::from_actions(actions))
}

/// When each claim was last told of as the holder's.
fn seen(ops: &[Op]) -> BTreeMap<Claim, Instant> {
    let mut all = BTreeMap::new();
    for op in ops {
        let Some((at, said)) = &op.said else { continue };
        let holder = match said {
            Said::Granted(..) => op.claim(),
            Said::Held(claim) | Said::Found(Some((claim, _))) => Some(*claim),
            _ => None,
        };
        if let Some(claim) = holder {
            let last = all.entry(claim).or_insert(*at);
            *last = (*last).max(*at);
        }
    }
    all
}

/// The claims of a history, each with what was done for it.
fn by_claim(ops: &[Op]) -> BTreeMap<Claim, Vec<&Op>> {
    let mut all: BTreeMap<Claim, Vec<&Op>> = BTreeMap::new();
    for op in ops {
        if let Some(claim) = op.claim() {
            all.entry(claim).or_default().push(op);
        }
    }
    all
}

/// The ends of leases that may have been: of each claim and renewal that was granted, or may have been. One that another follows in time
/// cannot have ended by itself.
fn overs(ops: &[Op], lease: Duration) -> Vec<Op> {
    let mut all = Vec::new();
    for (claim, ops) in by_claim(ops) {
        let granted: Vec<(Instant, Instant)> = ops.iter().filter_map(|op| op.granted()).collect();
        for op in ops.iter().filter(|op| op.takes() && (op.said.is_none() || op.granted().is_some())) {
            let over = op.asked + lease;
            if !granted.iter().any(|(asked, said)| *asked > op.asked && *said <= over) {
                all.push(Op { what: What::Over(claim), asked: over, said: None });
            }
        }
    }
    all
}

/// How often two claims of one name both stood for sure: from a grant until it was released, or until a lease after the question.
pub fn double_holders(ops: &[Op], lease: Duration) -> usize {
    let mut spans: Vec<(Instant, Instant, Claim)> = Vec::new();
    for (claim, ops) in by_claim(ops) {
        let released = ops.iter().filter(|op| matches!(op.what, What::Release(_))).map(|op| op.asked).min();
        for (asked, said) in ops.iter().filter_map(|op| op.granted()) {
            let end = released.map_or(asked + lease, |at| at.min(asked + lease));
            if said < end {
                spans.push((said, end, claim));
            }
        }
    }
    spans.sort();
    let mut doubles = 0;
    for (i, (_, end, claim)) in spans.iter().enumerate() {
        doubles +=
            spans[i + 1..].iter().take_while(|(from, ..)| from < end).filter(|(.., other)| other != claim).count();
    }
    doubles
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(1000);

    /// Operations by their times in milliseconds.
    fn history(ops: &[(u64, Option<u64>, What, Said)]) -> Vec<Op> {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let op = |(asked, answered, what, said): &(u64, Option<u64>, What, Said)| Op {
            what: *what,
            asked: at(*asked),
            said: answered.map(|ms| (at(ms), said.clone())),
        };
        ops.iter().map(op).collect()
    }

    #[test]
    fn what_is_good_and_what_is_not() {
        use Said::{Found, Granted, Held, Released, Superseded};
        use What::{Claim, Lookup, Release, Renew};
        let yes = |number| Granted(LEASE, number);
        let none = || Found(None);
        let claim = (0, Some(10), Claim(1), yes(5));
        for (is_good, what, ops) in [
            (
                true,
                "one after the other",
                vec![claim.clone(), (20, Some(30), Release(1), Released), (40, Some(50), Claim(2), yes(6))],
            ),
            (false, "two at once", vec![claim.clone(), (20, Some(30), Claim(2), yes(6))]),
            (true, "after the lease", vec![claim.clone(), (900, Some(1001), Claim(2), yes(6))]),
            (true, "a lease that lasted longer", vec![claim.clone(), (1100, Some(1200), Renew(1, 5), yes(5))]),
            (false, "before its end", vec![claim.clone(), (900, Some(999), Claim(2), yes(6))]),
            (
                false,
                "a renewed one",
                vec![claim.clone(), (500, Some(600), Renew(1, 5), yes(5)), (1100, Some(1200), Claim(2), yes(6))],
            ),
            (
                false,
                "a number again",
                vec![claim.clone(), (20, Some(30), Release(1), Released), (40, Some(50), Claim(2), yes(5))],
            ),
            (
                false,
                "a stale look-up",
                vec![claim.clone(), (20, Some(30), Release(1), Released), (40, Some(50), Lookup, Found(Some((1, 5))))],
            ),
            (false, "a look-up that misses", vec![claim.clone(), (40, Some(50), Lookup, none())]),
            (true, "a look-up during the claim", vec![claim.clone(), (5, Some(50), Lookup, none())]),
            (
                true,
                "an unknown claim that was done",
                vec![(0, None, Claim(1), none()), (20, Some(30), Lookup, Found(Some((1, 7))))],
            ),
            (true, "one that was not", vec![(0, None, Claim(1), none()), (20, Some(30), Lookup, none())]),
            (false, "held by nobody", vec![(0, Some(10), Claim(1), Held(2))]),
            (
                true,
                "over, and another since",
                vec![
                    claim.clone(),
                    (1100, Some(1200), Claim(2), yes(6)),
                    (1300, Some(1310), Release(2), Released),
                    (1400, Some(1410), Renew(1, 5), Superseded),
                ],
            ),
            (
                false,
                "renewed behind another",
                vec![
                    claim.clone(),
                    (1100, Some(1200), Claim(2), yes(6)),
                    (1300, Some(1310), Release(2), Released),
                    (1400, Some(1410), Renew(1, 5), yes(7)),
                ],
            ),
            (
                false,
                "back after its release",
                vec![claim, (20, Some(30), Release(1), Released), (40, Some(50), Renew(1, 5), yes(6))],
            ),
        ] {
            let ops = history(&ops);
            assert_eq!(is_linearizable(&ops, LEASE), is_good, "{what}");
        }
    }

    #[test]
    fn two_holders_are_counted() {
        let yes = |number| Said::Granted(LEASE, number);
        let count = |ops: &[(u64, Option<u64>, What, Said)]| double_holders(&history(ops), LEASE);
        let claim = (0, Some(10), What::Claim(1), yes(5));
        assert_eq!(count(&[claim.clone(), (900, Some(999), What::Claim(2), yes(6))]), 1);
        assert_eq!(count(&[claim.clone(), (900, Some(1000), What::Claim(2), yes(6))]), 0);
        assert_eq!(
            count(&[claim, (10, Some(20), What::Release(1), Said::Released), (30, Some(40), What::Claim(2), yes(6))]),
            0
        );
    }
}
