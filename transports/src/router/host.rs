//! The thread of a router, in the process that has the local name.

use super::local::Listener;
use super::switch::Switch;
use super::trunk::bell;
use crate::ip::{Kept, Listeners, PortRange};
use nix::sys::eventfd::EventFd;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use trust::Trust;

/// Where a router is to listen that finds no listeners.
#[derive(Debug, Clone)]
pub(super) struct Listening {
    pub at: Vec<SocketAddr>,
    pub ports: Option<PortRange>,
}

/// A router that runs in this process. Dropping it ends it.
pub(super) struct Host {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Takes the local name and begins. `AddrInUse` if another process has it.
    pub fn start(name: &str, trust: &Arc<Trust>, listening: &Listening, listeners: &[Kept]) -> io::Result<Host> {
        let local = Listener::open(name)?;
        let mut all = listeners.iter().map(Kept::again).collect::<io::Result<Vec<_>>>()?;
        if all.is_empty() {
            match Listeners::open(&listening.at, listening.ports) {
                Ok(opened) => all = opened.into_all(),
                Err(e) => base::log!(Error, "the router of this host cannot be reached from others: {e}"),
            }
        }
        let stop = Arc::new(bell()?);
        let mut switch = Switch::new(trust.clone(), local, &stop)?;
        all.into_iter().try_for_each(|listener| switch.adopt(listener))?;
        let builder = std::thread::Builder::new().name("mpi_connect_rt".into());
        let thread = base::thread::begin(builder, move || switch.run())?;
        Ok(Host { stop, thread: Some(thread) })
    }

    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.stop.write(1);
        // A panic in it has been reported.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}
