//! The suite of all transports, through one router; and channels to processes of other routers.

use super::channel::Channel;
use super::frame::Open;
use super::trunk::Trunk;
use std::io;
use std::sync::{Mutex, Weak};

/// The trunks of the processes of these tests, with their process numbers and the router that each is of.
pub(super) static TRUNKS: Mutex<Vec<Known>> = Mutex::new(Vec::new());
type Known = ([u8; 16], String, Weak<Trunk>);

/// A channel to the process of this place, from another process of its router.
fn connect(place: &wire::Place) -> io::Result<Channel> {
    let (router, to) = super::address::unplace(place).ok_or(io::ErrorKind::InvalidInput)?;
    let all = TRUNKS.lock().unwrap();
    let name = all.iter().rev().find(|(process, ..)| *process == to).map(|(_, name, _)| name.clone()).unwrap();
    let (from, _, trunk) = all.iter().rev().find(|(process, one, _)| *process != to && *one == name).unwrap();
    Channel::open(&trunk.upgrade().unwrap(), &Open { to, from: *from, router: Some(router) })
}

crate::conformance::suite!(conformance, router, connect, |settings| settings.router.node = true);
