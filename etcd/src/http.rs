//! Requests to the nodes of an etcd, one of which is preferred until it fails. The store alone uses this.
//!
//! Invariant: a request ends within its time; the password goes only to the nodes, and is in no message.

use crate::json::{BEHIND, PREFIX};
use naming::server::SharedError;
use serde_json::{Value, json};
use std::fmt::{Debug, Formatter, Result as Formatted};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use ureq::{Agent, Body, http::Response};

/// How long one node is waited for, while there are others; longer where there is much time.
const NODE: Duration = Duration::from_millis(300);
/// How long a stream of changes is read.
const STREAM: Duration = Duration::from_secs(3);
/// The most bytes of an answer.
const MOST: u64 = 64 << 20;

/// The nodes, and what they are asked with.
#[derive(Clone)]
pub(crate) struct Nodes {
    /// Of each, `http://HOST:PORT`.
    urls: Arc<[String]>,
    agent: Agent,
    /// Name and password.
    user: Option<Arc<(String, String)>>,
    token: Arc<Mutex<Option<String>>>,
    /// Which node is preferred.
    pub now: usize,
}

impl Debug for Nodes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        f.debug_struct("Nodes").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// What a node answers instead of doing it.
enum Answered {
    /// It cannot be reached, or not do it now: another may.
    Away(String),
    /// It has not answered in time.
    Silent(String),
    /// The token is not known any more.
    Token,
    Final(SharedError),
}

impl Nodes {
    pub(crate) fn new(urls: Vec<String>, agent: Agent, user: Option<(String, String)>) -> Nodes {
        Nodes { urls: urls.into(), agent, user: user.map(Arc::new), token: Arc::default(), now: 0 }
    }

    /// Asks one node after the other, until one answers. Once all have refused, nobody is asked again; silent ones are, while there is
    /// time.
    pub(crate) fn ask(&mut self, path: &str, body: &Value, patience: Duration) -> Result<Value, SharedError> {
        let (end, body) = (Instant::now() + patience, body.to_string());
        let nodes = self.urls.len();
        let of_one = if nodes == 1 { patience } else { NODE.max(patience / (2 * nodes as u32)) };
        let mut last = String::from("there was no time");
        let mut refused = 0;
        // One more than there are: the first may have closed a connection that was kept.
        while refused <= nodes {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            refused += 1;
            match self.ask_one(path, &body, left.min(of_one)) {
                Ok(answer) => return Ok(answer),
                Err(Answered::Final(why)) => return Err(why),
                Err(Answered::Token) => *lock(&self.token) = None,
                Err(Answered::Away(why)) => {
                    last = format!("{}: {why}", self.urls[self.now]);
                    self.next();
                }
                Err(Answered::Silent(why)) => {
                    last = format!("{}: {why}", self.urls[self.now]);
                    self.next();
                    refused = 0;
                }
            }
        }
        Err(SharedError::Away(last))
    }

    /// Prefers another node.
    pub(crate) fn next(&mut self) {
        self.now = (self.now + 1) % self.urls.len();
    }

    fn ask_one(&self, path: &str, body: &str, limit: Duration) -> Result<Value, Answered> {
        let end = Instant::now() + limit;
        let token = self.token(limit)?;
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let config = |request: ureq::RequestBuilder<_>| request.config().timeout_global(Some(left)).build();
        let mut answer = self.post(path, body, token, config)?;
        read(&mut answer)
    }

    /// A stream of lines, for a while.
    pub(crate) fn stream(&self, path: &str, body: &Value) -> Result<Response<Body>, SharedError> {
        let begun = || {
            let token = self.token(NODE)?;
            let config = |request: ureq::RequestBuilder<_>| {
                request
                    .config()
                    .timeout_connect(Some(2 * NODE))
                    .timeout_recv_response(Some(2 * NODE))
                    .timeout_recv_body(Some(STREAM))
                    .build()
            };
            let mut answer = self.post(path, &body.to_string(), token, config)?;
            if answer.status().is_success() { Ok(answer) } else { read(&mut answer).and(Err(Answered::Token)) }
        };
        begun().map_err(|e| match e {
            Answered::Away(why) | Answered::Silent(why) => SharedError::Away(format!("{}: {why}", self.urls[self.now])),
            Answered::Final(why) => why,
            Answered::Token => {
                *lock(&self.token) = None;
                SharedError::Away("the user is to be named again".into())
            }
        })
    }

    fn post(
        &self,
        path: &str,
        body: &str,
        token: Option<String>,
        config: impl Fn(ureq::RequestBuilder<ureq::typestate::WithBody>) -> ureq::RequestBuilder<ureq::typestate::WithBody>,
    ) -> Result<Response<Body>, Answered> {
        let mut request = config(self.agent.post(format!("{}{path}", self.urls[self.now])));
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        request.send(body).map_err(|e| away(&e))
    }

    /// The token of the user, which a node is asked for if there is none yet.
    fn token(&self, limit: Duration) -> Result<Option<String>, Answered> {
        let Some(user) = &self.user else { return Ok(None) };
        if let Some(token) = &*lock(&self.token) {
            return Ok(Some(token.clone()));
        }
        let body = json!({"name": user.0, "password": user.1}).to_string();
        let config = |request: ureq::RequestBuilder<_>| request.config().timeout_global(Some(limit)).build();
        let mut answer = self.post("/v3/auth/authenticate", &body, None, config)?;
        let token = read(&mut answer)?["token"].as_str().map(str::to_owned);
        lock(&self.token).clone_from(&token);
        token.map(Some).ok_or_else(|| Answered::Away("it gives no token".into()))
    }
}

fn away(e: &ureq::Error) -> Answered {
    if matches!(e, ureq::Error::Timeout(_)) { Answered::Silent(e.to_string()) } else { Answered::Away(e.to_string()) }
}

/// The answer of a node, or what its error means.
fn read(answer: &mut Response<Body>) -> Result<Value, Answered> {
    let is_good = answer.status().is_success();
    let status = answer.status();
    let text = answer.body_mut().with_config().limit(MOST).read_to_string().map_err(|e| away(&e))?;
    let value: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if is_good && value.is_object() {
        return Ok(value);
    }
    let said = || {
        text.lines()
            .next()
            .filter(|line| !line.is_empty())
            .map_or(status.to_string(), |line| format!("{status}: {line}"))
    };
    let why = value["error"].as_str().map_or_else(said, str::to_owned);
    // Codes of gRPC.
    Err(match value["code"].as_u64() {
        Some(16) => Answered::Token,
        // A change of users or rights since the token was given.
        Some(3) if why.contains("revision of auth store is old") => Answered::Token,
        Some(8) if why.contains("no space") => Answered::Final(SharedError::Full(why)),
        Some(11) => Answered::Final(SharedError::Compacted(0)),
        Some(3 | 7 | 9) => Answered::Final(SharedError::Refused(why)),
        _ => Answered::Away(why),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request for changes from this revision on.
pub(crate) fn watch(from: u64) -> Value {
    use data_encoding::BASE64;
    let (key, end) = (BASE64.encode(PREFIX), BASE64.encode(BEHIND));
    json!({"create_request": {"key": key, "range_end": end, "start_revision": from.to_string(), "prev_kv": true}})
}
