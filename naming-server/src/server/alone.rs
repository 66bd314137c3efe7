//! The answers of a server whose names are its own. The server alone calls this.
//!
//! Invariant: an answer follows from the names alone, at once.

use super::names::{self, Names, Taken};
use super::owner::Owner;
use crate::record::{Record, RecordError, check_name};
use crate::wire::{Answer, PAGE, Refusal, Request, Token};
use std::time::Instant;

/// The answer to a request.
pub(super) fn answer(names: &mut Names, request: Request, by: (names::By, Owner), now: Instant) -> Answer {
    match request {
        Request::Claim { token, record } => take(names, (token, 0), record, by, now),
        Request::Renew { token, number, record } => take(names, (token, number), record, by, now),
        Request::Release { token, key } => {
            names.release(token, &key, now);
            Answer::Released
        }
        Request::Lookup { key } if check_name(&key.name).is_err() => Answer::Refused(Refusal::Malformed),
        Request::Lookup { key } => {
            let found = names.lookup(&key, now);
            let number = found.map_or(0, |(_, number)| number);
            Answer::Found { record: found.map(|(record, _)| record.to_vec()), number, common: false }
        }
        Request::List { after } => page(names, after),
        // The caller has answered it from the journal.
        Request::Changes { .. } => Answer::Refused(Refusal::Malformed),
    }
}

fn take(
    names: &mut Names,
    claim: (Token, u64),
    bytes: Vec<u8>,
    (by, owner): (names::By, Owner),
    now: Instant,
) -> Answer {
    let record = match Record::decode(&bytes) {
        Ok(record) => record,
        Err(RecordError::OtherVersion(_)) => return Answer::Refused(Refusal::RecordVersion(crate::record::VERSION)),
        Err(_) => return Answer::Refused(Refusal::Malformed),
    };
    let lease = u32::try_from(names.lease.as_millis()).unwrap_or(u32::MAX);
    let Some(shown) = record.without_secrets() else { return Answer::Refused(Refusal::Malformed) };
    match names.take(claim, &record, (bytes, shown), by, owner, now) {
        Taken::Granted(number) => Answer::Granted { lease, number, common: false },
        Taken::Held { by, doubtful } => Answer::Held { record: by.to_vec(), doubtful },
        Taken::Ended => Answer::Refused(Refusal::Ended),
        Taken::Full => Answer::Refused(Refusal::Full),
        Taken::Superseded => Answer::Refused(Refusal::Superseded),
    }
}

/// The records behind a key, as many as an answer holds.
fn page(names: &Names, after: Option<crate::Key>) -> Answer {
    let (mut records, mut size) = (Vec::new(), 0);
    for record in names.list(after) {
        // Each record is sent with its length.
        size += record.len() + 4;
        if size > PAGE {
            return Answer::Names { records, more: true, common: false };
        }
        records.push(record.to_vec());
    }
    Answer::Names { records, more: false, common: false }
}
