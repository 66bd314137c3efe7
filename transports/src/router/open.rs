//! The transport: the post of this process, dials through its trunk, and channels that have come.

use super::accept::Accept;
use super::address::{self, place, unplace};
use super::channel::Channel;
use super::dial::Dial;
use super::host::Listening;
use super::post::Post;
use crate::ip::{PortRange, Ways, choose};
use crate::transport::{Attempt, Env, Incoming, OpenError, Target, Transport};
use base::settings::{IFACE, ROUTE};
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trust::Trust;
use wire::{Hello, Place};

/// How long the start of a process waits for the router.
const START: Duration = Duration::from_secs(2);

/// The settings of this transport.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `MPI_CONNECT_ROUTE`: the processes of a node share a router.
    pub node: bool,
    /// `MPI_CONNECT_IFACE`: where the router listens.
    pub iface: Option<String>,
    /// `MPI_CONNECT_PORTRANGE`: at which ports.
    pub ports: Option<PortRange>,
}

impl Settings {
    pub(crate) fn read(get: &dyn Fn(&str) -> Option<String>) -> Result<Settings, (&'static str, String)> {
        let node = match get(ROUTE).as_deref().map(str::trim) {
            None | Some("") => false,
            Some("node") => true,
            Some(other) => return Err((ROUTE, format!("'{other}' is not node"))),
        };
        Ok(Settings { node, iface: get(IFACE), ports: PortRange::read(get)? })
    }
}

/// Opens it where the user wants it.
pub(crate) fn open(settings: &Settings, env: &Env<'_>) -> Result<Box<dyn Transport>, OpenError> {
    if !settings.node {
        return Err(OpenError::NotHere(format!("{ROUTE} is not node")));
    }
    let at = choose(settings.iface.as_deref()).map_err(|e| OpenError::Setting(IFACE, e.to_string()))?;
    let mut post = Post::open(env.trust, Listening { at, ports: settings.ports }).map_err(OpenError::Without)?;
    post.wait(START);
    if post.trunk().is_none() {
        base::log!(Info, "there is no router on this host yet");
    }
    let settings = settings.clone();
    Ok(Box::new(Router { settings, trust: env.trust.clone(), post: Arc::new(Mutex::new(post)), ways: Ways::default() }))
}

struct Router {
    settings: Settings,
    trust: Arc<Trust>,
    post: Arc<Mutex<Post>>,
    ways: Ways,
}

impl Router {
    fn post(&self) -> MutexGuard<'_, Post> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.post().close();
    }
}

impl Transport for Router {
    fn entry(&self) -> Vec<u8> {
        address::entry(&self.post().addresses())
    }

    fn places(&mut self, target: &Target<'_>) -> Vec<Place> {
        if target.process == [0; 16] {
            return Vec::new();
        }
        let worked = target.worked.and_then(unplace).map(|(router, _)| router);
        let all = self.ways.to(&address::routers(target.entry), target.same_host, worked);
        all.into_iter().map(|router| place(router, &target.process)).collect()
    }

    fn rebind(&mut self) {
        let Ok(at) = choose(self.settings.iface.as_deref()) else { return };
        self.ways = Ways::default();
        self.post().begin_again(Listening { at, ports: self.settings.ports });
    }

    fn dial(&mut self, place: &Place, hello: &Hello, _key: u32) -> io::Result<Box<dyn Attempt>> {
        let to = unplace(place).ok_or(ErrorKind::InvalidInput)?;
        Ok(Box::new(Dial::begin(&self.post, &self.trust, to, hello.clone())))
    }

    fn listeners(&self, f: &mut dyn FnMut(u32, BorrowedFd<'_>)) {
        let post = self.post();
        f(0, post.fd());
    }

    fn has_news(&self, silence: bool) -> bool {
        self.post().trunk().is_some_and(|trunk| trunk.has_news(silence))
    }

    fn arm(&self) {
        self.post().trunk().iter().for_each(|trunk| trunk.arm());
    }

    fn accept(&mut self, _listener: u32) -> io::Result<Box<dyn Incoming>> {
        let mut post = self.post();
        let trunk = post.trunk();
        let next = trunk.and_then(|trunk| Channel::accept(&trunk));
        post.step();
        drop(post);
        let (channel, open) = next.ok_or(ErrorKind::WouldBlock)?;
        Ok(Box::new(Accept::new(channel, &open, &self.trust)?))
    }
}
