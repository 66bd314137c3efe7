//! The etcd that naming servers share: `mpi-connect serve --store etcd://HOST:PORT,…`. The command alone uses this crate, so the
//! library that programs preload has no HTTP and no TLS in it.
//!
//! Invariant: what is answered was agreed by a majority of the nodes: no read is served by one node alone. A node that does not
//! answer costs a part of a second, and another is asked.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error;
mod http;
mod json;
mod options;

pub use error::OpenError;
pub use options::Options;

use http::Nodes;
use naming::server::{Cell, Event, Outcome, SharedError, SharedStore, SharedWatch, Txn};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::time::Duration;

/// How long the first look at all rows may take, for each part of it.
const FIRST: Duration = Duration::from_secs(5);
/// The most rows of a part.
const PART: u64 = 500;

/// The nodes of an etcd.
#[derive(Debug)]
pub struct Etcd {
    nodes: Nodes,
}

impl Etcd {
    /// The etcd of these options. This connects to none of its nodes.
    pub fn open(options: &Options) -> Result<Etcd, OpenError> {
        Ok(Etcd { nodes: options.nodes()? })
    }
}

impl SharedStore for Etcd {
    fn transact(&mut self, txns: &[Txn], patience: Duration) -> Result<(u64, Vec<Outcome>), SharedError> {
        let answer = self.nodes.ask("/v3/kv/txn", &json::transaction(txns), patience)?;
        Ok((json::revision(&answer)?, json::outcomes(&answer, txns)?))
    }

    fn snapshot(&mut self) -> Result<(u64, Vec<Cell>), SharedError> {
        let (mut all, mut at) = (Vec::new(), 0);
        loop {
            // Those behind the last one, as they were at the revision of the first part.
            let from = all
                .last()
                .map_or_else(|| json::PREFIX.to_vec(), |last: &Cell| [json::PREFIX, &last.key, &[0]].concat());
            let text = |bytes: &[u8]| data_encoding::BASE64.encode(bytes);
            let mut request = json!({"key": text(&from), "range_end": text(json::BEHIND), "limit": PART.to_string()});
            if at > 0 {
                request["revision"] = json!(at.to_string());
            }
            let answer = self.nodes.ask("/v3/kv/range", &request, FIRST)?;
            if at == 0 {
                at = json::revision(&answer)?;
            }
            all.extend(json::cells(&answer)?);
            if answer["more"].as_bool() != Some(true) {
                return Ok((at, all));
            }
        }
    }

    fn watcher(&self) -> Box<dyn SharedWatch> {
        Box::new(Watcher { nodes: self.nodes.clone(), was_silent: false })
    }
}

struct Watcher {
    nodes: Nodes,
    /// Nothing came the last time.
    was_silent: bool,
}

impl SharedWatch for Watcher {
    fn changes(&mut self, from: u64, lags: bool, each: &mut dyn FnMut(Vec<Event>) -> bool) -> Result<(), SharedError> {
        // A node without the others tells nothing new, and does not say so.
        if lags || self.was_silent {
            self.nodes.next();
        }
        self.was_silent = true;
        let mut answer = self.nodes.stream("/v3/watch", &http::watch(from)).inspect_err(|_| self.nodes.next())?;
        for line in BufReader::new(answer.body_mut().as_reader()).lines() {
            // The time of the stream is over, or the node is gone.
            let Ok(line) = line else { return Ok(()) };
            let line: Value =
                serde_json::from_str(&line).map_err(|_| SharedError::Damaged("it answers nonsense".into()))?;
            json::canceled(&line)?;
            let events = json::events(&line)?;
            if events.is_empty() {
                continue;
            }
            self.was_silent = false;
            if !each(events) {
                return Ok(());
            }
        }
        Ok(())
    }
}
