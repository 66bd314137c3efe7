//! The lane goes through the cases of every lane; whole ways through a relay are tested where the relay is (`relay/tests`).

use super::RelayLane;
use crate::conformance::{Factory, Mem, lanes};
use crate::ip::Socket;
use crate::stream::link::Link;
use crate::transport::Watched as _;
use nix::poll::{PollFd, PollFlags, poll};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use wire::lane::Lane;

struct Pairs;

fn lane(stream: TcpStream) -> RelayLane {
    RelayLane::new(Link::plain(Socket::new(stream).unwrap()))
}

impl Factory for Pairs {
    type Lane = RelayLane;

    fn pair(&mut self) -> (RelayLane, RelayLane) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (lane(one), lane(listener.accept().unwrap().0))
    }

    fn readable(&mut self, lane: &mut RelayLane, millis: u16) -> Option<bool> {
        let mut ready = false;
        lane.interests(&mut |_, fd: BorrowedFd<'_>, write| {
            let flags = if write { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
            ready |= poll(&mut [PollFd::new(fd, flags)], millis).unwrap() > 0;
        });
        Some(ready)
    }

    fn inject(&mut self, lane: &mut RelayLane, bytes: &[u8]) -> bool {
        let mut written = false;
        lane.interests(&mut |_, fd, _| {
            let mut stream = TcpStream::from(fd.try_clone_to_owned().unwrap());
            written = stream.write_all(bytes).is_ok();
        });
        written
    }
}

lanes!(lanes, Pairs);

#[test]
fn its_place_is_the_relay() {
    let (a, _b) = Pairs.pair();
    assert_eq!(a.peer_place().unwrap().transport, super::ABOUT.id);
    assert_eq!(Lane::<Mem>::descriptors(&a), 1);
}
