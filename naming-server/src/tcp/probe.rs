//! One server, asked one question at a time: for whoever checks servers, such as the tests of their faults. Nothing renews here.
//!
//! Invariant: what is reported is what the server has said; where it has said nothing, that is reported.

use super::Address;
use super::asked::{AskError, ask};
use super::peer::{Peer, PeerError};
use crate::error::AddressError;
use crate::record::{Kind, Record};
use crate::wire::{Answer, Refusal, Request, Token};
use std::sync::Arc;
use std::time::Duration;
use trust::Trust;

/// What a server has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The claim stands from the question on for as long as this, with this number.
    Granted(Duration, u64),
    /// Another process has the name: the incarnation of its record.
    Held(u64),
    /// The claim was given back.
    Released,
    /// The incarnation of what was looked up, and the number of its claim.
    Found(Option<(u64, u64)>),
    /// Another claim was granted since.
    Superseded,
    /// The claim was given back before.
    Ended,
    /// It was not asked, or says why it will not do it.
    Refused(String),
    /// It may have been done, or be done later: there was no answer, or the server does not know.
    Unknown(String),
}

/// A server.
#[derive(Clone)]
pub struct Probe {
    peer: Arc<Peer>,
}

impl Probe {
    /// The server at `HOST:PORT`, which is asked once both have proved a key of `trust`. This does not connect to it.
    pub fn at(address: &str, trust: &Arc<Trust>) -> Result<Probe, AddressError> {
        Ok(Probe { peer: Peer::at(&Address::parse(address)?, trust) })
    }

    /// Claims the record's name with this token.
    pub fn claim(&self, token: Token, record: &Record, patience: Duration) -> Said {
        self.ask(record.encode().map(|record| Request::Claim { token, record }), patience)
    }

    /// Renews that claim, which was granted with this number.
    pub fn renew(&self, token: Token, number: u64, record: &Record, patience: Duration) -> Said {
        self.ask(record.encode().map(|record| Request::Renew { token, number, record }), patience)
    }

    /// Gives it back.
    pub fn release(&self, token: Token, record: &Record, patience: Duration) -> Said {
        self.ask(Ok::<_, String>(Request::Release { token, key: record.key() }), patience)
    }

    /// Looks up a job without a run.
    pub fn lookup(&self, name: &str, patience: Duration) -> Said {
        self.ask(Ok::<_, String>(Request::Lookup { key: crate::Key::of("", Kind::Job, name) }), patience)
    }

    fn ask<E: ToString>(&self, request: Result<Request, E>, patience: Duration) -> Said {
        let request = match request {
            Ok(request) => request,
            Err(e) => return Said::Refused(e.to_string()),
        };
        let of = |record: &[u8]| Record::decode(record).map(|record| record.incarnation);
        match ask(&self.peer, &request, patience) {
            Ok(Answer::Granted { lease, number, .. }) => Said::Granted(Duration::from_millis(lease.into()), number),
            Ok(Answer::Held { record, .. }) => {
                of(&record).map_or_else(|_| Said::Unknown("a record that cannot be read".into()), Said::Held)
            }
            Ok(Answer::Released) => Said::Released,
            Ok(Answer::Found { record: None, .. }) => Said::Found(None),
            Ok(Answer::Found { record: Some(record), number, .. }) => match of(&record) {
                Ok(incarnation) => Said::Found(Some((incarnation, number))),
                Err(_) => Said::Unknown("a record that cannot be read".into()),
            },
            Ok(Answer::Refused(Refusal::Superseded)) => Said::Superseded,
            Ok(Answer::Refused(Refusal::Ended)) => Said::Ended,
            Ok(Answer::Refused(why @ (Refusal::Disk | Refusal::DiskFull))) => Said::Unknown(format!("{why:?}")),
            Ok(other) => Said::Refused(format!("{other:?}")),
            Err(AskError::Peer(PeerError::Down(why))) => Said::Refused(why.to_string()),
            Err(e) => Said::Unknown(e.to_string()),
        }
    }
}
