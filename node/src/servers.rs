//! Files that this job fetches from another one, or puts there: how a process of the other job is reached, and a thread of its
//! own for what a call waits for.

use crate::node::Node;
use crate::shared::Shared;
use crate::state::Core;
use crate::thread::begin;
use base::ProcId;
use files::Way;
use session::InterId;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use trust::Trust;
use wire::Contact;
use wire::control::Addressee;

/// A process of another job, which may serve files.
pub struct Server {
    shared: Arc<Shared>,
    job: String,
    local: ProcId,
    remote: ProcId,
}

/// What runs in a thread of its own.
pub struct Aside<T> {
    thread: JoinHandle<()>,
    result: Arc<Mutex<Option<T>>>,
}

impl<T: Send + 'static> Aside<T> {
    /// Runs something that may wait for a disk or for another job, in a thread of its own.
    pub fn begin(run: impl FnOnce() -> T + Send + 'static) -> io::Result<Aside<T>> {
        let result = Arc::new(Mutex::new(None));
        let of_thread = result.clone();
        let thread = begin("mpi_connect fc", move || {
            let done = run();
            *of_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        })?;
        Ok(Aside { thread, result })
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// What it has come to; `None`: it panicked. Waits for it.
    pub fn join(self) -> Option<T> {
        self.thread.join().ok()?;
        self.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Server {
    /// The process of this rank of the remote group of an inter-communicator. `None`: there is none.
    pub fn new(node: &Node, inter: InterId, rank: u32) -> Option<Server> {
        let (local, remote) = node.with(|core| {
            let at = core.session.member(inter, rank)?;
            let pair = core.session.pair(at);
            Some((pair.local(), pair.remote()))
        })?;
        let job = base::ident::name_of_job(remote.incarnation).unwrap_or_else(|| "another job".into());
        Some(Server { shared: node.shared.clone(), job, local, remote })
    }

    fn with<T>(&self, f: impl FnOnce(&Core, usize) -> T) -> Option<T> {
        let core = self.shared.lock();
        let pair = core.session.pair_between(self.local, self.remote)?;
        Some(f(&core, pair))
    }
}

impl Way for Server {
    fn job(&self) -> &str {
        &self.job
    }

    fn contact(&self) -> Option<Contact> {
        self.with(|core, pair| {
            let pair = core.session.pair(pair);
            pair.contact().filter(|_| pair.gone().is_none()).cloned()
        })?
    }

    fn addressee(&self) -> Addressee {
        Addressee::Member(self.remote.incarnation, self.remote.rank)
    }

    fn trust(&self) -> Arc<Trust> {
        self.shared.lock().trust.clone()
    }

    fn host(&self) -> [u8; 16] {
        self.shared.lock().session.own().host
    }

    /// One that messages reach lives, though it may have no listener for commands.
    fn may_be_away(&self) -> bool {
        let has_lane = |core: &Core, pair: usize| {
            let pair = core.session.pair(pair);
            pair.is_away() || pair.lane().is_some()
        };
        self.with(has_lane).unwrap_or(false)
    }

    fn is_held(&self) -> bool {
        self.shared.lock().is_to_be_held()
    }
}
