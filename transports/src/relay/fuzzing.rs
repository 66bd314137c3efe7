//! What `fuzz/` needs of what is private: entries of contact records, places, and what is said to a relay and by it.

use super::address::{entry, place, relays, unplace};
use super::message::{Answer, Request};
use base::protocol::relay::{MAX_HOPS, MAX_RELAYS};

/// Reads an input as each of them, and says whether what must hold does.
pub fn holds(input: &[u8]) -> bool {
    let request = Request::decode(input).map_or(true, |request| {
        let few = !matches!(&request, Request::Call { passed, .. } if passed.len() > MAX_HOPS);
        few && request.encode() == input
    });
    let answer = Answer::decode(input).map_or(true, |answer| answer.encode() == input);
    let found = relays(input);
    let leads = |relay: &std::net::SocketAddr| unplace(&place(*relay, &[7; 16])) == Some((*relay, [7; 16]));
    request && answer && found.len() <= MAX_RELAYS && relays(&entry(&found)) == found && found.iter().all(leads)
}

/// Inputs of the real encoders.
pub fn seeds() -> Vec<Vec<u8>> {
    let calls =
        [Vec::new(), vec![[1; 16]], vec![[2; 16]; MAX_HOPS]].map(|passed| Request::Call { name: [7; 16], passed });
    let requests = [Request::Wait, Request::Take { number: [9; 16] }].into_iter().chain(calls).map(|one| one.encode());
    let answers =
        [Answer::Stands, Answer::Called([3; 16]), Answer::NotThere, Answer::Gone, Answer::Full, Answer::NoAnswer];
    let addresses = [([10, 0, 0, 1], 7433).into(), ([0xfe80, 0, 0, 0, 0, 0, 0, 1], 7433).into()];
    requests.chain(answers.map(Answer::encode)).chain([entry(&addresses), entry(&[addresses[0]; 9])]).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_seeds_hold() {
        assert!(super::seeds().iter().all(|seed| super::holds(seed)));
    }
}
