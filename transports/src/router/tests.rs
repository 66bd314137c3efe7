//! The suite of all transports, through one router; and channels to processes of other routers.

use super::channel::Channel;
use super::frame::Open;
use super::host::Listening;
use super::post::Post;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use trust::Trust;

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

crate::conformance::suite!(conformance, router, connect, |settings| settings.router.node = true);
