//! While messages come, the thread of the router looks for more by itself: which processes it looks at, so that these need not ring.
//!
//! Invariant: a line that is looked at is armed before the thread sleeps, and when the router's own process takes it over.

use super::super::conn::Id;
use super::state::Switch;
use nix::sys::epoll::EpollFlags;

/// So many lines are looked at; the others ring.
const MOST_LOOKED_AT: usize = 8;

impl Switch {
    /// Something has come on this connection.
    pub(super) fn look_at(&mut self, id: Id) {
        let is_line = self.conns.get_mut(&id).is_some_and(|conn| conn.line().is_some());
        if is_line && self.looked_at.len() < MOST_LOOKED_AT && !self.looked_at.contains(&id) {
            self.looked_at.push(id);
        }
    }

    /// Does what is to be done on the lines that are looked at. False: there was nothing.
    pub(in crate::router) fn look(&mut self) -> bool {
        let mut found = false;
        let mut n = 0;
        while let Some(&id) = self.looked_at.get(n) {
            match self.conns.get_mut(&id).filter(|conn| !conn.is_of_own).and_then(|conn| conn.line()) {
                Some(line) => {
                    n += 1;
                    if line.has_news(true) {
                        found = true;
                        self.on_conn(id, EpollFlags::EPOLLIN);
                    }
                }
                None => drop(self.looked_at.swap_remove(n)),
            }
        }
        found
    }

    /// All lines ring again.
    pub(in crate::router) fn end_looks(&mut self) {
        for id in std::mem::take(&mut self.looked_at) {
            if let Some(line) = self.conns.get_mut(&id).and_then(|conn| conn.line()) {
                line.arm();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::bell::bell;
    use super::super::super::conn::{Conn, Stage};
    use super::super::super::frame::{Kind, whole};
    use super::super::super::line::{ends, name};
    use super::super::super::local::Listener;
    use super::super::state::CONNS;
    use super::*;
    use crate::stream::ByteStream;
    use nix::sys::epoll::{Epoll, EpollEvent, EpollTimeout};
    use std::io::IoSlice;
    use std::sync::Arc;
    use trust::{Encrypt, Key, Ring, Trust};

    const PROCESS: Id = 7;

    /// What is told of there, if anything is.
    fn told(epoll: &Epoll) -> Option<EpollEvent> {
        let mut events = [EpollEvent::empty()];
        (epoll.wait(&mut events, EpollTimeout::ZERO).unwrap() > 0).then_some(events[0])
    }

    #[test]
    fn a_line_rings_for_the_first_message_and_again_before_the_thread_sleeps() {
        let trust = Arc::new(Trust::new(Ring::new(Key::new(), []), Encrypt::Network));
        let mut switch = Switch::new(trust, Listener::open(&name()).unwrap(), &bell().unwrap()).unwrap();
        let (mut process, line) = ends();
        let mut conn = Conn::own([1; 16]);
        conn.stage = Stage::Near(Box::new(line), [1; 16]);
        conn.watch(&switch.epoll, CONNS + u64::from(PROCESS)).unwrap();
        switch.conns.insert(PROCESS, conn);
        // For a channel that has ended.
        let frame = whole(2, Kind::Data, &[1]);
        let mut say = || assert_eq!(process.write_vectored(&[IoSlice::new(&frame)]).unwrap(), frame.len());
        for _ in 0..3 {
            say();
            switch.on_event(&told(&switch.epoll).expect("it rings"));
            assert!(!switch.look(), "it was read");
            say();
            assert!(switch.look());
            for _ in 0..3 {
                say();
                assert!(told(&switch.epoll).is_none() && switch.look());
            }
            switch.end_looks();
            assert!(told(&switch.epoll).is_none());
        }
        // The process of the router takes the line over while it is looked at.
        say();
        switch.on_event(&told(&switch.epoll).expect("it rings"));
        say();
        assert!(switch.look());
        let (_, epoll) = switch.connect_own([2; 16]).unwrap();
        switch.watch_by(PROCESS, true);
        say();
        assert!(!switch.look() && told(&epoll).is_some());
    }
}
