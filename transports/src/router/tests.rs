//! The suite of all transports, through one router; and channels to processes of other routers.

use super::channel::Channel;
use super::frame::{Open, Why};
use super::host::Listening;
use super::post::Post;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trust::{Encrypt, Key, Ring, Trust};

/// A limit for what takes a moment.
const LIMIT: Duration = Duration::from_secs(30);

/// A channel to the process of this place, from a process of its own.
fn connect(place: &wire::Place, trust: &Arc<Trust>) -> io::Result<Channel> {
    let (router, to) = super::address::unplace(place).ok_or(io::ErrorKind::InvalidInput)?;
    let mut post = Post::open(trust, Listening { at: Vec::new(), ports: None })?;
    post.wait(LIMIT);
    let trunk = post.trunk().ok_or(io::ErrorKind::TimedOut)?;
    Channel::open(&trunk, &Open { to, from: trust.identity().process(), router: Some(router) })
}

/// A process of a node: those of one node have the same key.
struct Process {
    trust: Arc<Trust>,
    post: Post,
}

impl Process {
    fn of(own: &Key, other: &Key) -> Process {
        let ring = Ring::new(own.clone(), [other.clone()]);
        let trust = Arc::new(Trust::new(ring, Encrypt::Network));
        let at = vec![(Ipv4Addr::LOCALHOST, 0).into()];
        let mut post = Post::open(&trust, Listening { at, ports: None }).unwrap();
        post.wait(LIMIT);
        Process { trust, post }
    }

    /// A channel that another process has opened to this one.
    fn accept(&mut self) -> Option<Channel> {
        self.post.step();
        let (channel, _) = Channel::accept(&self.post.trunk()?)?;
        Some(channel)
    }
}

/// Opens a channel from one of these processes to another, and returns both ends.
fn reach(all: &mut [Process], [from, to]: [usize; 2]) -> [Channel; 2] {
    let router = all[to].post.addresses().first().copied();
    let open = Open { to: all[to].trust.identity().process(), from: all[from].trust.identity().process(), router };
    let ours = Channel::open(&all[from].post.trunk().unwrap(), &open).unwrap();
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(theirs) = all.iter_mut().map(Process::accept).fold(None, Option::or) {
            return [ours, theirs];
        }
        let ended = ours.ended();
        assert!(ended.is_none() && Instant::now() < until, "{from} to {to}: {ended:?}");
    }
}

/// Two routers have one connection, by which either reaches the other, whoever has dialled. When it ends, both dial anew.
#[test]
fn the_next_router_is_reached_also_by_one_that_was_dialled_and_has_dialled() {
    let [a, b] = [Key::new(), Key::new()];
    let mut all = vec![Process::of(&a, &b), Process::of(&b, &a), Process::of(&a, &b)];
    reach(&mut all, [0, 1]);
    let [end, _far] = reach(&mut all, [1, 2]);
    let (router, address) = (all.remove(0), all[1].post.addresses());
    drop(router);
    let until = Instant::now() + LIMIT;
    while end.ended() != Some(Why::NoRouter) {
        assert!(Instant::now() < until);
    }
    reach(&mut all, [0, 1]);
    assert_eq!(all[1].post.addresses(), address);
    // When nobody of that node is left, its host says so.
    let last = all.pop().unwrap();
    let open = Open {
        to: last.trust.identity().process(),
        from: all[0].trust.identity().process(),
        router: address.first().copied(),
    };
    drop(last);
    let trunk = all[0].post.trunk().unwrap();
    let why = || {
        let channel = Channel::open(&trunk, &open).unwrap();
        loop {
            assert!(Instant::now() < until);
            if let Some(why) = channel.ended() {
                return why;
            }
        }
    };
    while why() != Why::Nobody {}
}

crate::conformance::suite!(conformance, router, connect, |settings| settings.router.node = true);
