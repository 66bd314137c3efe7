//! The connection of a process to the router that it has itself: its calls turn the router.

use super::conn::Id;
use super::frame::Head;
use super::host::Host;
use super::into::Into;
use super::switch::Switch;
use base::bytes::Malformed;
use nix::sys::epoll::Epoll;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The connection of a process to the router that it has itself. Dropping it ends it.
pub(super) struct Own {
    host: Arc<Host>,
    id: Id,
    epoll: Arc<Epoll>,
}

impl Own {
    pub fn connect(host: &Arc<Host>, process: [u8; 16]) -> io::Result<Own> {
        let (id, epoll) = host.turn(|switch| switch.connect_own(process))?;
        Ok(Own { host: host.clone(), id, epoll })
    }

    /// Passes data on, and returns whether all of it is written. `None`: nothing is passed on, since what was before still waits there.
    pub fn pass_data(&self, channel: u32, data: &[IoSlice<'_>]) -> Option<bool> {
        self.host.turn(|switch| {
            switch.is_free(self.id, channel).then(|| {
                switch.pass_data(self.id, channel, data);
                switch.is_free(self.id, channel)
            })
        })
    }

    /// Whether all that was passed on is written.
    pub fn flush(&self, channel: u32) -> bool {
        self.host.turn(|switch| switch.is_free(self.id, channel))
    }

    /// Whether there may be room since this was asked last.
    pub fn has_more_room(&self) -> bool {
        self.host.turn(Switch::take_room)
    }

    /// Passes a frame on that is no DATA.
    pub fn pass(&self, head: Head, body: &[u8]) -> Result<(), Malformed> {
        self.host.turn(|switch| switch.pass(self.id, head, body))
    }

    /// Reads frames. If there are none, and bytes of this channel come, they are put where they belong. Returns the bytes of frames.
    /// `WouldBlock` if nothing has come, 0 at the end.
    pub fn read(&self, to: &mut [u8], wanted: Option<(u32, &mut Into<'_, '_>)>) -> io::Result<usize> {
        self.host.turn(|switch| {
            let mut put = 0;
            let mut n = switch.take(self.id, to);
            if n == Some(0) {
                match wanted {
                    Some((channel, into)) => {
                        let before = into.got();
                        switch.read_for(self.id, channel, into);
                        put = into.got() - before;
                    }
                    None => switch.turn(),
                }
                n = switch.take(self.id, to);
            }
            match n {
                None => Ok(0),
                Some(0) if put == 0 => Err(ErrorKind::WouldBlock.into()),
                Some(n) => Ok(n + put),
            }
        })
    }

    /// Looks at nothing any more without being asked: what comes waits.
    pub fn leave(&self) {
        self.host.turn(Switch::own_leaves);
    }

    pub fn cut(&self) {
        self.host.turn(|switch| switch.drop_conn(self.id));
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.cut();
    }
}

impl AsFd for Own {
    /// Readable while there is something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
