//! Requests to a relay and its answers, as bytes (docs/protocol.md, "Relays").
//!
//! Pure. Invariant: what is decoded is encoded as the same bytes again.

use base::bytes::{Malformed, Put, Take};
use base::protocol::relay::{
    self, CALL, CALLED, FULL, GONE, MAX_HOPS, NO_ANSWER, NOT_THERE, STANDS, TAKE, WAIT, answer, request,
};

/// Bytes of a request.
pub(super) const REQUEST: usize = request::BYTES;
/// Bytes of an answer.
pub(super) const ANSWER: usize = answer::BYTES;

/// What is asked of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// To be called from now on.
    Wait,
    /// To be joined to this process.
    Call {
        /// Its process number.
        name: [u8; 16],
        /// The relays that have passed this on, by their process numbers; at most [`MAX_HOPS`].
        passed: Vec<[u8; 16]>,
    },
    /// To be joined to the call of this number.
    Take {
        /// The number that the news of the call had.
        number: [u8; 16],
    },
}

impl Request {
    /// As bytes. Who passes a call on looks first whether it may.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, name, passed): (u8, [u8; 16], &[[u8; 16]]) = match self {
            Request::Wait => (WAIT, [0; 16], &[]),
            Request::Call { name, passed } => (CALL, *name, passed),
            Request::Take { number } => (TAKE, *number, &[]),
        };
        let passed = &passed[..passed.len().min(MAX_HOPS)];
        let mut out = Vec::with_capacity(REQUEST);
        out.put_u8(kind);
        out.extend_from_slice(&name);
        out.put_u8(passed.len() as u8);
        passed.iter().for_each(|one| out.extend_from_slice(one));
        out.resize(REQUEST, 0);
        out
    }

    /// The request of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Request, Malformed> {
        let mut from = Take(bytes);
        let (kind, name, count) = (from.u8()?, from.array()?, usize::from(from.u8()?));
        if count > MAX_HOPS {
            return Err(Malformed);
        }
        let mut passed = Vec::new();
        for n in 0..MAX_HOPS {
            let one: [u8; 16] = from.array()?;
            match n < count {
                true => passed.push(one),
                false if one == [0; 16] => (),
                false => return Err(Malformed),
            }
        }
        from.end()?;
        match kind {
            relay::WAIT if name == [0; 16] && count == 0 => Ok(Request::Wait),
            relay::CALL => Ok(Request::Call { name, passed }),
            relay::TAKE if count == 0 => Ok(Request::Take { number: name }),
            _ => Err(Malformed),
        }
    }
}

/// What a relay answers, or tells a process that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done. Of a call: the connections are joined.
    Stands,
    /// News: there is a call, of this number.
    Called([u8; 16]),
    /// No such process waits here, or there is no such call.
    NotThere,
    /// It waited here, and its host has closed the connection.
    Gone,
    /// A limit is reached.
    Full,
    /// The process, or the next relay, has not answered in time.
    NoAnswer,
}

impl Answer {
    /// As bytes.
    pub fn encode(self) -> Vec<u8> {
        let (status, number) = match self {
            Answer::Stands => (STANDS, [0; 16]),
            Answer::Called(number) => (CALLED, number),
            Answer::NotThere => (NOT_THERE, [0; 16]),
            Answer::Gone => (GONE, [0; 16]),
            Answer::Full => (FULL, [0; 16]),
            Answer::NoAnswer => (NO_ANSWER, [0; 16]),
        };
        let mut out = Vec::with_capacity(ANSWER);
        out.put_u8(status);
        out.extend_from_slice(&number);
        out
    }

    /// The answer of these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Answer, Malformed> {
        let mut from = Take(bytes);
        let (status, number) = (from.u8()?, from.array()?);
        from.end()?;
        match status {
            relay::CALLED => Ok(Answer::Called(number)),
            _ if number != [0; 16] => Err(Malformed),
            relay::STANDS => Ok(Answer::Stands),
            relay::NOT_THERE => Ok(Answer::NotThere),
            relay::GONE => Ok(Answer::Gone),
            relay::FULL => Ok(Answer::Full),
            relay::NO_ANSWER => Ok(Answer::NoAnswer),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_survives_the_wire() {
        let calls = [Vec::new(), vec![[1; 16]], vec![[2; 16]; MAX_HOPS]];
        let calls = calls.map(|passed| Request::Call { name: [7; 16], passed });
        for request in [Request::Wait, Request::Take { number: [9; 16] }].iter().chain(&calls) {
            let bytes = request.encode();
            assert_eq!((bytes.len(), Request::decode(&bytes)), (REQUEST, Ok(request.clone())));
            assert!((0..REQUEST).all(|n| Request::decode(&bytes[..n]).is_err()));
        }
        use Answer::*;
        for answer in [Stands, Called([3; 16]), NotThere, Gone, Full, NoAnswer] {
            let bytes = answer.encode();
            assert_eq!((bytes.len(), Answer::decode(&bytes)), (ANSWER, Ok(answer)));
            assert!((0..ANSWER).all(|n| Answer::decode(&bytes[..n]).is_err()));
        }
    }

    #[test]
    fn what_no_request_has_is_malformed() {
        let wait = Request::Wait.encode();
        for (at, value) in [(0, 0), (0, 4), (1, 1), (17, 1), (17, 5), (18, 1), (81, 1)] {
            let mut bad = wait.clone();
            bad[at] = value;
            assert_eq!(Request::decode(&bad), Err(Malformed), "byte {at} = {value}");
        }
        let mut bad = Answer::Stands.encode();
        bad[16] = 1;
        assert_eq!(Answer::decode(&bad), Err(Malformed));
    }
}
