//! The ports of this host's devices, the devices that are open, and the places that were of no use.
//!
//! Shared by the transport and its lanes. Invariant: a device is open as long as a lane uses it.

use super::device::{Device, name};
use super::link::Link;
use super::plugin::Plugin;
use super::pool::Pool;
use base::protocol::rdma::MAX_PORTS;
use base::rdma::Port;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use wire::Place;

/// How long a place is not dialled again whose queue pairs could not be set up, or carried nothing.
const AGAIN: Duration = Duration::from_secs(60);
/// The most places that are remembered so.
const MOST: usize = 1024;

pub(super) struct Fabric {
    plugin: Plugin,
    /// The RDMA reads of one lane at a time.
    reads: u8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The ports that are up, as this process's contact record has them.
    ports: Vec<Port>,
    /// By the names of the devices that are open.
    pools: BTreeMap<String, Weak<Pool>>,
    useless: BTreeMap<Box<[u8]>, Instant>,
}

impl Fabric {
    pub(super) fn new(plugin: Plugin, reads: u8) -> Fabric {
        // SAFETY: it takes nothing.
        let forks = unsafe { (plugin.fork)() };
        if forks != 0 {
            base::log!(
                Debug,
                "libibverbs does not protect a process that forks: {}",
                io::Error::from_raw_os_error(-forks)
            );
        }
        let ports = list(&plugin);
        Fabric { plugin, reads, state: Mutex::new(State { ports, ..State::default() }) }
    }

    /// The ports that are up.
    pub(super) fn ports(&self) -> Vec<Port> {
        self.state().ports.clone()
    }

    /// Their addresses may be others than before, and what was of no use may be of use.
    pub(super) fn look_again(&self) {
        let ports = list(&self.plugin);
        let mut state = self.state();
        state.ports = ports;
        state.useless.clear();
    }

    /// A queue pair at the port of this number.
    pub(super) fn link(&self, port: u8) -> io::Result<Link> {
        let port = *self.state().ports.get(usize::from(port)).ok_or(ErrorKind::InvalidData)?;
        Link::new(&self.pool(&port)?, port, self.reads)
    }

    fn pool(&self, port: &Port) -> io::Result<Arc<Pool>> {
        let mut state = self.state();
        let name = name(port);
        if let Some(pool) = state.pools.get(&name).and_then(Weak::upgrade) {
            return Ok(pool);
        }
        let pool = Arc::new(Pool::new(Device::open(&self.plugin, port)?)?);
        state.pools.insert(name, Arc::downgrade(&pool));
        Ok(pool)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No data got through to this place: another transport is to be tried.
    pub(super) fn is_useless(&self, place: &[u8]) -> bool {
        let mut state = self.state();
        state.useless.retain(|_, since| since.elapsed() < AGAIN);
        state.useless.contains_key(place)
    }

    pub(super) fn set_useless(&self, place: &Place) {
        let mut state = self.state();
        if state.useless.len() < MOST {
            state.useless.insert(place.address.clone(), Instant::now());
        }
    }
}

/// The ports that are up.
fn list(plugin: &Plugin) -> Vec<Port> {
    let nothing = Port { device: [0; 64], gid: [0; 16], lid: 0, port: 0, gid_index: 0, kind: 0, mtu: 0 };
    let mut ports = vec![nothing; MAX_PORTS];
    // SAFETY: this number of ports can be written.
    let n = unsafe { (plugin.list)(ports.as_mut_ptr(), MAX_PORTS as i32) };
    ports.truncate(n.max(0) as usize);
    ports
}
