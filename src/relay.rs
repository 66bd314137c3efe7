//! `mpi-connect relay`: joins the connections of jobs that cannot reach each other, in the foreground, until it is told to end.
//!
//! Invariant: where it listens is printed only once processes can connect; who does not read what is told stops nobody.

use crate::key::{KeyOption, told as told_keys};
use crate::lines::{Lines, read_keys_again_on};
use crate::notify::notify;
use crate::shown::printable;
use crate::time::utc;
use ::relay::{ListenError, Relay};
use naming::server::told_to_end;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use std::cell::Cell;
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use transports::registry::listen_addresses;
use trust::FileError;

/// Lines about who is refused in a minute: strangers shall not fill a file.
const MAX_TOLD: u32 = 60;
const MINUTE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Args {
    /// Where to listen, may be given several times; port 0 is any free one. Default: 0.0.0.0:7433
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Another relay, which is asked for processes that do not wait here; may be given several times
    #[arg(long, value_name = "HOST:PORT")]
    next: Vec<String>,
    #[command(flatten)]
    key: KeyOption,
    /// Say nothing of who is refused
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug)]
pub enum Error {
    Signals(io::Error),
    Thread(io::Error),
    Key(FileError),
    Listen(ListenError),
    Run(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Signals(e) => write!(f, "waiting for signals: {e}"),
            Error::Thread(e) => write!(f, "no thread can be started: {e}"),
            Error::Key(e) => e.fmt(f),
            Error::Listen(e) => e.fmt(f),
            Error::Run(e) => write!(f, "the relay ends: {e}"),
        }
    }
}

impl Error {
    /// Whether the command line is wrong.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Listen(ListenError::Address(..)) => true,
            Error::Key(e) => e.is_setting(),
            _ => false,
        }
    }
}

pub fn relay(args: &Args) -> Result<(), Error> {
    let stop = told_to_end().map_err(Error::Signals)?;
    let hangup = SigSet::from(Signal::SIGHUP);
    hangup.thread_block().map_err(|e| Error::Signals(e.into()))?;
    // Each pair that is joined takes two descriptors; what is not granted only makes the limit lower.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    let trust = args.key.trust().map_err(Error::Key)?;
    let mut relay = Relay::listen(&args.listen, &args.next, trust.clone()).map_err(Error::Listen)?;
    if !args.quiet {
        let (lines, _done) = Lines::start().map_err(Error::Thread)?;
        lines.tell(format!("{} relays for who has the key {}", utc(naming::now()), told_keys(&trust.ring())));
        let told = Cell::new((Instant::now(), 0_u32));
        relay = relay.telling(move |text| {
            let (since, count) = told.get();
            let (since, count) = if since.elapsed() >= MINUTE { (Instant::now(), 0) } else { (since, count) };
            told.set((since, count.saturating_add(1)));
            if count < MAX_TOLD {
                lines.tell(format!("{} {}", utc(naming::now()), printable(text)));
            }
        });
    }
    for address in relay.addresses().into_iter().flat_map(reached_at) {
        // Whoever started it may not care to read.
        let _ = writeln!(io::stdout(), "MPI_CONNECT_RELAY={address}").and_then(|()| io::stdout().flush());
    }
    read_keys_again_on(hangup, trust).map_err(Error::Thread)?;
    notify("READY=1");
    let end = relay.run(stop.as_fd()).map_err(Error::Run);
    notify("STOPPING=1");
    end
}

/// By which addresses others reach a listener: of one at all addresses, those of this host.
fn reached_at(listener: SocketAddr) -> Vec<SocketAddr> {
    if !listener.ip().is_unspecified() {
        return vec![listener];
    }
    let own = listen_addresses(None).unwrap_or_default().into_iter().map(|a| a.ip());
    let fits = |ip: &IpAddr| ip.is_ipv4() == listener.is_ipv4() && !ip.is_loopback();
    let found: Vec<_> = own.filter(fits).map(|ip| SocketAddr::new(ip, listener.port())).collect();
    if found.is_empty() { vec![listener] } else { found }
}
