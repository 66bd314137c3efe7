//! The ports of this process: MPI_Open_port and MPI_Close_port.

use super::info::Info;
use super::name::{self, Address};
use crate::abi;
use crate::failure::{Class, Failure};
use crate::forward::Handle;
use crate::life::{self, Part};
use crate::process::node;
use base::{ProcId, ident};
use node::leaders::{MAX_NAME, Turns};
use node::{PathRef, ip_addresses};
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// An open port of this process.
pub struct Port {
    pub name: String,
    /// Further addresses at which the process listens for this port.
    extra: Vec<SocketAddr>,
    pub address: Address,
    pub closed: AtomicBool,
    /// The processes that have asked to be dialled.
    pub calling: Mutex<Turns<PathRef>>,
}

/// The open ports by name.
static OPEN: LazyLock<Mutex<HashMap<String, Arc<Port>>>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, HashMap<String, Arc<Port>>> {
    OPEN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Opens a port, and returns its name, for which the MPI below has so much room.
pub fn open(info: Handle) -> Result<String, Failure> {
    open_within(info, (abi::get().max_port_name as usize - 1).min(name::MAX))
}

/// Opens a port with a name of at most so many characters.
pub fn open_within(info: Handle, room: usize) -> Result<String, Failure> {
    let node = node()?;
    let contact = node.contact();
    let (ip, port) = Info::of(info).place()?;
    let mut extra = Vec::new();
    if ip.is_some() || port.is_some() {
        extra = node.listen_at(ip, port).map_err(|e| {
            let (ip, port) = (ip.map_or("any address".into(), |ip| ip.to_string()), port.unwrap_or(0));
            Failure::new(Class::Other, format!("cannot listen at {ip}, port {port}, as the info object asks: {e}"))
        })?;
    }
    let places_there = if extra.is_empty() { ip_addresses(&contact) } else { extra.clone() };
    let address = Address::new(&contact, places_there);
    let name = address.name(room).ok_or_else(|| {
        node.stop_listening(&extra);
        let text =
            format!("no address of this process fits the {room} characters that this MPI has for the name of a port");
        Failure::new(Class::Other, text)
    })?;
    node.add_port(at(&address), address.cookie());
    life::end_with(Part::Ports, close_all);
    ident::name_port(address.incarnation(), &name::sign(&name));
    base::log!(Info, "opened port {} at {}", name::sign(&name), places(&address));
    let port = Port { name: name.clone(), extra, address, closed: AtomicBool::new(false), calling: Mutex::default() };
    table().insert(name.clone(), Arc::new(port));
    Ok(name)
}

/// Closes a port. Callers that wait there are told.
pub fn close(name: &str) -> Result<(), Failure> {
    let port = table().remove(name).ok_or_else(|| unknown(name))?;
    port.closed.store(true, Ordering::Relaxed);
    let node = node()?;
    node.remove_group(port.address.incarnation());
    node.stop_listening(&port.extra);
    Ok(())
}

/// Closes all ports, in MPI_Finalize.
fn close_all() {
    let open: Vec<_> = table().drain().collect();
    for (_, port) in open {
        if let Ok(node) = node() {
            node.remove_group(port.address.incarnation());
        }
    }
}

pub fn find(name: &str) -> Result<Arc<Port>, Failure> {
    table().get(name).cloned().ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Failure {
    let what = match Address::parse(name) {
        Ok(_) => "this process has no such port open".to_owned(),
        Err(e) => e.to_string(),
    };
    Failure::new(Class::Port, format!("'{}': {what}", name::sign(name)))
}

/// The addresses of a port, as text for people.
pub fn places(address: &Address) -> String {
    base::log::list(&address.places, "no address, but by shared memory")
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

/// The name by which the other side calls this job, which has not registered one.
pub fn own_name() -> String {
    let mut name = format!("{} on {}, process {}", abi::get().family.which, naming::host(), std::process::id());
    let end = (0..=MAX_NAME.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.truncate(end.unwrap_or(0));
    name
}

/// The process identity of a port.
pub fn at(address: &Address) -> ProcId {
    ProcId { incarnation: address.incarnation(), rank: 0 }
}
