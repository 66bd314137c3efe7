//! MPI's own ways for jobs to meet: ports, accept and connect, published names, joining over a socket. For programs that
//! know nothing of this library.
//!
//! A port is a place in one process to which leaders of other jobs come, known by its name alone (`name`). Whoever accepts
//! or connects does so as a group that is made for this one inter-communicator, and gone with it (`meeting`). The entries
//! call in here; nothing here is called before MPI has started through us.

mod call;
mod info;
pub mod join;
mod meeting;
pub mod name;
pub mod publish;

pub use meeting::{Side, meet};

use crate::abi;
use crate::conn::joined;
use crate::entry::init::watch_finalize;
use crate::entry::node;
use crate::error::{Class, Failure};
use crate::forward::Handle;
use base::{ProcId, ident};
use engine::setup::{Agreement, MAX_NAME, Negotiation, Party, Standing};
use info::Info;
use name::Address;
use node::{Core, PathRef};
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One open port of this process.
pub struct Port {
    name: String,
    /// Where the process listens for this port too.
    extra: Vec<SocketAddr>,
    address: Address,
    closed: AtomicBool,
    /// Those who have come, in order.
    callers: Mutex<Vec<Caller>>,
    /// Those who have asked to be dialled.
    calling: call::Calling,
}

struct Caller {
    path: PathRef,
    negotiation: Negotiation,
    /// Since when it is known who it is.
    known: Option<Instant>,
}

/// So long an offer may wait until it is known whether one gets through to whoever made it: afterwards, when it may have
/// died, nobody could tell.
const KNOWING: Duration = Duration::from_millis(300);

/// What all callers of a port may have said of their groups before they are answered, in bytes: one offer of the largest
/// group, and a little. What is beyond goes with the one that has said most of
/// those that are not ready.
const MAX_CALLERS_RECORDS: usize = 65 << 20;

/// By their names.
static OPEN: LazyLock<Mutex<HashMap<String, Arc<Port>>>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, HashMap<String, Arc<Port>>> {
    OPEN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Opens a port; its name.
pub fn open(info: Handle) -> Result<String, Failure> {
    let node = node()?;
    let mut contact = node.contact();
    let (ip, port) = Info::of(info).place()?;
    let mut extra = Vec::new();
    if ip.is_some() || port.is_some() {
        extra = node.listen_at(ip, port).map_err(|e| {
            let (ip, port) = (ip.map_or("any address".into(), |ip| ip.to_string()), port.unwrap_or(0));
            Failure::new(Class::Other, format!("cannot listen at {ip}, port {port}, as the info object asks: {e}"))
        })?;
        contact.addresses = extra.clone();
    }
    let address = Address::new(contact);
    let room = (abi::get().max_port_name as usize - 1).min(name::MAX);
    let name = address.name(room).ok_or_else(|| {
        node.stop_listening(&extra);
        let text =
            format!("no address of this process fits the {room} characters that this MPI has for the name of a port");
        Failure::new(Class::Other, text)
    })?;
    node.add_port(at(&address), address.cookie());
    watch_finalize();
    ident::name_port(address.incarnation(), &name::sign(&name));
    base::log!(Info, "opened port {} at {}", name::sign(&name), places(&address));
    let port = Port {
        name: name.clone(),
        extra,
        address,
        closed: AtomicBool::new(false),
        callers: Mutex::default(),
        calling: call::Calling::default(),
    };
    table().insert(name.clone(), Arc::new(port));
    Ok(name)
}

/// Closes a port: whoever waits there is told.
pub fn close(name: &str) -> Result<(), Failure> {
    let port = table().remove(name).ok_or_else(|| unknown(name))?;
    port.closed.store(true, Ordering::Relaxed);
    let node = node()?;
    node.remove_group(port.address.incarnation());
    node.stop_listening(&port.extra);
    Ok(())
}

/// Finalize: all that are open, and published.
pub fn close_all() {
    publish::take_all();
    let open: Vec<_> = table().drain().collect();
    for (_, port) in open {
        if let Ok(node) = node() {
            node.remove_group(port.address.incarnation());
        }
    }
}

fn find(name: &str) -> Result<Arc<Port>, Failure> {
    table().get(name).cloned().ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Failure {
    let what = match Address::parse(name) {
        Ok(_) => "this process has no such port open".to_owned(),
        Err(e) => e.to_string(),
    };
    Failure::new(Class::Port, format!("'{}': {what}", name::sign(name)))
}

/// Where a port is, for people.
fn places(address: &Address) -> String {
    base::log::list(&address.contact.addresses, "no address, but by shared memory")
}

/// A string of the program's, without blanks and line ends around it.
///
/// # Safety
/// `at` is null or the address of a terminated string.
pub unsafe fn text(at: usize) -> Result<String, Failure> {
    if at == 0 {
        return Err(Failure::new(Class::Arg, "a name is a null pointer"));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(at as *const c_char) };
    let text = text.to_str().map_err(|_| Failure::new(Class::Arg, "a name is not UTF-8"))?;
    Ok(text.trim().to_owned())
}

/// What the other side calls a job that has no name.
fn own_name() -> String {
    let mut name = format!("{} on {}, process {}", abi::get().family.which, naming::host(), std::process::id());
    let end = (0..=MAX_NAME.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.truncate(end.unwrap_or(0));
    name
}

/// Who stands at a port.
fn at(address: &Address) -> ProcId {
    ProcId { incarnation: address.incarnation(), rank: 0 }
}

impl Port {
    /// Hears all who have come, and agrees with the first that still waits.
    fn accept(&self, core: &mut Core, offer: &Party) -> Option<Agreement> {
        let mut callers = self.callers.lock().unwrap_or_else(|e| e.into_inner());
        while let Some(path) = core.next_caller(at(&self.address)) {
            callers.push(Caller { path, negotiation: Negotiation::with_stranger(), known: None });
        }
        callers.retain_mut(|caller| caller.hear(core));
        while callers.iter().map(|c| c.negotiation.held()).sum::<usize>() > MAX_CALLERS_RECORDS {
            let most = (0..callers.len()).max_by_key(|i| {
                let talk = &callers[*i].negotiation;
                (talk.offered().is_none(), talk.held())
            });
            let Some(caller) = most.map(|i| callers.remove(i)) else { break };
            base::log_seldom!(Info, "somebody who came to a port says more than there is room for, and is sent away");
            core.send_away(caller.path);
        }
        let ready = callers.iter_mut().position(|caller| caller.is_ready(core))?;
        let mut caller = callers.remove(ready);
        caller.negotiation.offer(offer);
        caller.negotiation.decide();
        caller.speak(core);
        match caller.negotiation.standing() {
            Standing::Agreed(agreement) => Some(agreement),
            _ => None,
        }
    }
}

impl Caller {
    /// Reads what it has said. False: it is gone, or not to be understood.
    fn hear(&mut self, core: &mut Core) -> bool {
        while let Some(bytes) = core.recv_control(self.path) {
            if self.negotiation.on_message(&bytes).is_err() {
                base::log_seldom!(Info, "somebody who came to a port spoke nonsense, and is sent away");
                core.send_away(self.path);
                return false;
            }
        }
        self.speak(core);
        core.path_gone(self.path).is_none()
    }

    /// Whether it may be answered. One that has lost its way here may find it again; or it is dead.
    fn is_ready(&mut self, core: &mut Core) -> bool {
        let Some(party) = self.negotiation.offered().filter(|_| core.is_connected(self.path)) else { return false };
        let known = self.known.get_or_insert_with(|| {
            joined::introduce(core, self.path, party);
            Instant::now()
        });
        !core.is_asking(self.path) || known.elapsed() > KNOWING
    }

    fn speak(&mut self, core: &mut Core) {
        for bytes in std::iter::from_fn(|| self.negotiation.next_output()) {
            core.send_control(self.path, &bytes);
        }
    }
}
