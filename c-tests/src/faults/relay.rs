//! A relay between the processes of two jobs: all that they dial of each other goes through it, by a rule of the firewall in
//! the network namespace where they run, and it does to their connections what it is told.
//!
//! One thread has all connections, so that each is closed at once, and only by what was told.

use super::random::Random;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::{Linger, OriginalDst};
use nix::sys::socket::{getsockopt, setsockopt};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ports from the first to the last are relayed.
pub const PORTS: [u16; 2] = [20_000, 29_999];
const PORT: u16 = 19_999;

/// What is done to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// Both ends read the end of the stream.
    Cut,
    /// Both ends are reset.
    Reset,
    /// One end reads the end of the stream; what it sends still arrives.
    HalfClose,
    /// Nothing is carried, and nobody is accepted, until `Go`.
    Stall,
    Go,
    /// The next piece of one connection arrives in another order, or twice, or not, or changed.
    Disorder,
}

struct Command {
    blow: Blow,
    seed: u64,
    /// Hears how many connections were hit, when they have been.
    hit: Sender<usize>,
}

pub struct Relay {
    commands: Option<Sender<Command>>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// One in this network namespace; the rule that leads there is made by whoever made the namespace: [`rule`].
    pub fn new(namespace: &Path) -> Relay {
        let (commands, told) = channel();
        let (wake, woken) = UnixStream::pair().expect("a socket pair");
        woken.set_nonblocking(true).expect("a socket of ours");
        let namespace = File::open(namespace).expect("a network namespace");
        let (ready, is_ready) = channel();
        let thread = std::thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).expect("a network namespace");
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).expect("a free port");
            listener.set_nonblocking(true).expect("a socket of ours");
            ready.send(()).expect("whoever made the relay waits");
            Loop { listener, told, woken, connections: Vec::new(), stalled: false, disorder: None }.run();
        });
        is_ready.recv().expect("the relay listens");
        Relay { commands: Some(commands), wake, thread: Some(thread) }
    }

    /// Does this; how many connections were hit within the limit.
    pub fn tell(&self, blow: Blow, seed: u64, limit: Duration) -> usize {
        let (hit, hits) = channel();
        let commands = self.commands.as_ref().expect("there until the end");
        commands.send(Command { blow, seed, hit }).expect("the relay runs");
        (&self.wake).write_all(&[0]).expect("the relay runs");
        hits.recv_timeout(limit).unwrap_or(0)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.commands = None;
        // Ends with the last sender of commands, which it sees when it is woken.
        let _ = (&self.wake).write_all(&[0]);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the relay has failed");
        }
    }
}

/// What leads the connections of everybody but root to the relay.
pub fn rule() -> String {
    let [first, last] = PORTS;
    format!(
        "table ip relay {{\n chain out {{\n type nat hook output priority -100\n \
         ip daddr 127.0.0.1 tcp dport {first}-{last} meta skuid != 0 redirect to :{PORT}\n }}\n}}\n"
    )
}

/// What goes from one end of a connection to the other.
#[derive(Default)]
struct Way {
    waiting: Vec<u8>,
    /// The end of the stream was read.
    ended: bool,
    /// The end of the stream was told.
    told: bool,
    /// What comes is thrown away.
    deaf: bool,
}

struct Connection {
    ends: [TcpStream; 2],
    ways: [Way; 2],
    over: bool,
}

const AT_ONCE: usize = 128 << 10;
/// A piece that is worth being damaged: more than a greeting.
const PIECE: usize = 600;

impl Connection {
    fn reset(&mut self) {
        for end in &self.ends {
            let now = nix::libc::linger { l_onoff: 1, l_linger: 0 };
            setsockopt(end, Linger, &now).expect("a socket of ours");
        }
        self.over = true;
    }

    fn hit(&mut self, blow: Blow, random: &mut Random) {
        match blow {
            Blow::Cut => {
                for end in &self.ends {
                    // One that was reset meanwhile is not connected.
                    let _ = end.shutdown(Shutdown::Both);
                }
                self.over = true;
            }
            Blow::Reset => self.reset(),
            Blow::HalfClose => {
                let from = random.below(2) as usize;
                let _ = self.ends[1 - from].shutdown(Shutdown::Write);
                let way = &mut self.ways[from];
                (way.told, way.deaf) = (true, true);
                way.waiting.clear();
            }
            Blow::Stall | Blow::Go | Blow::Disorder => {}
        }
    }

    /// Reads what there is, and passes it on as far as there is room.
    fn carry(&mut self, from: usize, disorder: &mut Option<(Random, Sender<usize>)>) {
        if !self.ways[from].ended && self.ways[from].waiting.is_empty() {
            let mut piece = vec![0; AT_ONCE];
            match (&self.ends[from]).read(&mut piece) {
                Ok(0) => self.ways[from].ended = true,
                Ok(n) if !self.ways[from].deaf => {
                    piece.truncate(n);
                    if n >= PIECE
                        && let Some((mut random, hit)) = disorder.take()
                    {
                        damage(&mut piece, &mut random);
                        // Whoever told it may have waited long enough.
                        let _ = hit.send(1);
                    }
                    self.ways[from].waiting = piece;
                }
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return self.reset(),
            }
        }
        let way = &mut self.ways[from];
        if !way.waiting.is_empty() {
            match (&self.ends[1 - from]).write(&way.waiting) {
                Ok(n) => drop(way.waiting.drain(..n)),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return self.reset(),
            }
        }
        if way.ended && way.waiting.is_empty() && !way.told {
            let _ = self.ends[1 - from].shutdown(Shutdown::Write);
            way.told = true;
        }
        // Of one that is half closed, the end that was told has closed.
        self.over |= self.ways[from].ended && self.ways[1 - from].told && self.ways[1 - from].deaf;
        self.over |= self.ways.iter().all(|way| way.told && way.ended);
    }
}

/// What a network would never do to a stream.
fn damage(piece: &mut Vec<u8>, random: &mut Random) {
    let half = piece.len() / 2;
    match random.below(4) {
        0 => piece.rotate_left(half),
        1 => piece.extend_from_within(half..),
        2 => drop(piece.drain(half / 2..half)),
        _ => piece[half] ^= 1 << random.below(8),
    }
}

struct Loop {
    listener: TcpListener,
    told: Receiver<Command>,
    woken: UnixStream,
    connections: Vec<Connection>,
    stalled: bool,
    disorder: Option<(Random, Sender<usize>)>,
}

impl Loop {
    fn run(mut self) {
        while self.listen() {
            let waits = |way: &Way| !way.waiting.is_empty();
            let mut polled = vec![PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
            if !self.stalled {
                polled.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
                for Connection { ends, ways, .. } in &self.connections {
                    for (i, end) in ends.iter().enumerate() {
                        let mut flags = PollFlags::empty();
                        flags.set(PollFlags::POLLIN, !ways[i].ended && !waits(&ways[i]));
                        flags.set(PollFlags::POLLOUT, waits(&ways[1 - i]));
                        polled.push(PollFd::new(end.as_fd(), flags));
                    }
                }
            }
            // A moment at most: an end that has hung up, and is not asked, would be told without end.
            let _ = poll(&mut polled, PollTimeout::from(20u8));
            let seen: Vec<PollFlags> = polled.iter().map(|p| p.revents().unwrap_or(PollFlags::empty())).collect();
            drop(polled);
            if self.stalled {
                continue;
            }
            for (i, connection) in self.connections.iter_mut().enumerate() {
                let ends = [seen[2 + 2 * i], seen[3 + 2 * i]];
                let broken = ends.iter().any(|end| end.contains(PollFlags::POLLERR));
                for (from, end) in ends.into_iter().enumerate() {
                    if !connection.over && (!end.is_empty() || waits(&connection.ways[from])) {
                        connection.carry(from, &mut self.disorder);
                    }
                }
                if broken && !connection.over {
                    connection.reset();
                }
            }
            self.connections.retain(|connection| !connection.over);
            if !seen[1].is_empty() {
                self.accept();
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((near, _)) = self.listener.accept() {
            let place = getsockopt(&near, OriginalDst).expect("a connection that was led here");
            let address = Ipv4Addr::from(u32::from_be(place.sin_addr.s_addr));
            let place = SocketAddr::V4(SocketAddrV4::new(address, u16::from_be(place.sin_port)));
            match TcpStream::connect_timeout(&place, Duration::from_secs(1)) {
                Ok(far) => {
                    for end in [&near, &far] {
                        end.set_nonblocking(true).expect("a socket of ours");
                        end.set_nodelay(true).expect("a socket of ours");
                    }
                    self.connections.push(Connection { ends: [near, far], ways: Default::default(), over: false });
                }
                Err(_) => {
                    let now = nix::libc::linger { l_onoff: 1, l_linger: 0 };
                    setsockopt(&near, Linger, &now).expect("a socket of ours");
                }
            }
        }
    }

    /// Does what was told; whether there is still somebody who tells.
    fn listen(&mut self) -> bool {
        let mut bytes = [0; 64];
        while matches!((&self.woken).read(&mut bytes), Ok(n) if n > 0) {}
        loop {
            use std::sync::mpsc::TryRecvError::{Disconnected, Empty};
            match self.told.try_recv() {
                Ok(command) => self.obey(command),
                Err(Empty) => return true,
                Err(Disconnected) => return false,
            }
        }
    }

    fn obey(&mut self, Command { blow, seed, hit }: Command) {
        let mut random = Random::new(seed);
        let count = match blow {
            Blow::Stall | Blow::Go => {
                // With no connection there is nothing to stall, and there would never be one.
                self.stalled = blow == Blow::Stall && !self.connections.is_empty();
                self.connections.len()
            }
            Blow::Disorder => {
                self.disorder = Some((random, hit));
                return;
            }
            _ => {
                // All of them, or one.
                let only = (random.below(2) == 0).then(|| random.below(self.connections.len() as u64) as usize);
                let mut count = 0;
                for (i, connection) in self.connections.iter_mut().enumerate() {
                    if only.is_none_or(|only| only == i) {
                        connection.hit(blow, &mut random);
                        count += 1;
                    }
                }
                self.connections.retain(|connection| !connection.over);
                count
            }
        };
        // Whoever told it may have waited long enough.
        let _ = hit.send(count);
    }
}
