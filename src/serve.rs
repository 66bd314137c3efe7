//! `mpi-connect serve`: a naming server, in the foreground, until it is told to end.
//!
//! Invariant: the URL is printed only once clients can connect; who does not read what is told stops nobody.

use crate::key::{KeyOption, told as told_keys};
use crate::lines::{Lines, read_keys_again_on};
use crate::metrics;
use crate::notify::notify;
use crate::output;
use crate::shown::printable;
use crate::time::utc;
use etcd::{Etcd, Options};
use naming::ServeError;
use naming::server::{self, LedgerError, Server, SharedError};
use nix::sys::signal::{SigSet, Signal};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use store::{OpenError, Store};
use trust::{Encrypt, FileError};

/// At the end, what was told last may take so long to be written.
const LAST_LINES: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub struct Args {
    /// Where to listen, may be given several times; port 0 is any free one. Default: 127.0.0.1:7431
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Seconds after which the name of a process that was killed is free
    #[arg(long, value_name = "SECONDS", default_value_t = server::DEFAULT_LEASE.as_secs_f64())]
    lease: f64,
    #[command(flatten)]
    key: KeyOption,
    /// Keep names in this file, which is made if need be: they outlive this server. Or in an etcd, where several servers have the
    /// same names: etcd://HOST:PORT,…, or etcds://… for TLS
    #[arg(long, value_name = "FILE|URL")]
    store: Option<PathBuf>,
    /// For etcds://: the authorities of the nodes' certificates, in PEM; without it, the public ones
    #[arg(long, value_name = "FILE", requires = "store")]
    store_ca: Option<PathBuf>,
    /// For etcds://: this server's own certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "store_key")]
    store_cert: Option<PathBuf>,
    /// For etcds://: the key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "store_cert")]
    store_key: Option<PathBuf>,
    /// For etcd: a file with a user's name on its first line and the password on its second, which nobody else may read
    #[arg(long, value_name = "FILE", requires = "store")]
    store_user: Option<PathBuf>,
    /// Answer http://HOST:PORT/metrics with what is counted, for Prometheus; 127.0.0.1:7432 if none is named
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, default_missing_value = metrics::DEFAULT)]
    metrics: Option<String>,
    /// Say nothing of who claims, leaves and is refused
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug)]
pub enum Error {
    Lease(f64),
    Signals(io::Error),
    Thread(io::Error),
    Key(FileError),
    Store(OpenError),
    /// What a store has cannot be used.
    Kept(PathBuf, LedgerError),
    Etcd(etcd::OpenError),
    /// The etcd at this URL cannot be used now.
    Shared(String, SharedError),
    /// This option is for an etcd.
    NoEtcd(&'static str),
    Metrics(String, io::Error),
    Serve(ServeError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Lease(s) => write!(f, "{s} is no number of seconds"),
            Error::Signals(e) => write!(f, "waiting for signals: {e}"),
            Error::Thread(e) => write!(f, "no thread to tell from can be started: {e}"),
            Error::Key(e) => e.fmt(f),
            Error::Store(e) => e.fmt(f),
            Error::Kept(path, e) => write!(f, "{} cannot be used: {e}", path.display()),
            Error::Etcd(e) => e.fmt(f),
            Error::Shared(url, e) => write!(f, "{url} cannot be used: {e}"),
            Error::NoEtcd(option) => write!(f, "{option} is for --store etcd://… or etcds://…"),
            Error::Metrics(address, e) => write!(f, "listening for readers of metrics at {address}: {e}"),
            Error::Serve(e) => e.fmt(f),
        }
    }
}

impl Error {
    /// Whether the command line is wrong.
    pub fn is_usage(&self) -> bool {
        match self {
            Error::Lease(_) | Error::Serve(ServeError::Address(_) | ServeError::Lease(_)) => true,
            Error::NoEtcd(_) | Error::Etcd(etcd::OpenError::Url(..) | etcd::OpenError::Plain(_)) => true,
            Error::Key(e) => e.is_setting(),
            Error::Metrics(_, e) => e.kind() == io::ErrorKind::InvalidInput,
            _ => false,
        }
    }
}

/// Where names are kept beyond the server.
enum Place {
    Nowhere,
    File(PathBuf),
    Etcd(Options),
}

impl Args {
    fn place(&self) -> Result<Place, Error> {
        let url = self.store.as_deref().and_then(|store| store.to_str()).filter(|text| Options::is_url(text));
        let certificate = self.store_cert.clone().zip(self.store_key.clone());
        match (url, &self.store) {
            (Some(url), _) => {
                let (url, ca, user) = (url.to_owned(), self.store_ca.clone(), self.store_user.clone());
                Ok(Place::Etcd(Options { url, ca, certificate, user }))
            }
            _ if self.store_ca.is_some() => Err(Error::NoEtcd("--store-ca")),
            _ if certificate.is_some() => Err(Error::NoEtcd("--store-cert")),
            _ if self.store_user.is_some() => Err(Error::NoEtcd("--store-user")),
            (None, Some(path)) => Ok(Place::File(path.clone())),
            (None, None) => Ok(Place::Nowhere),
        }
    }
}

pub fn serve(args: &Args) -> Result<(), Error> {
    let lease = Duration::try_from_secs_f64(args.lease).map_err(|_| Error::Lease(args.lease))?;
    let stop = server::told_to_end().map_err(Error::Signals)?;
    let hangup = SigSet::from(Signal::SIGHUP);
    hangup.thread_block().map_err(|e| Error::Signals(e.into()))?;
    let place = args.place()?;
    let trust = args.key.trust().map_err(Error::Key)?;
    let store = match &place {
        Place::File(path) => Some(Store::open(path).map_err(Error::Store)?),
        _ => None,
    };
    let mut server = Server::listen(&args.listen, lease, trust.clone()).map_err(Error::Serve)?;
    if let (Some(store), Place::File(path)) = (store, &place) {
        server = server.keeping(store).map_err(|e| Error::Kept(path.clone(), e))?;
    }
    if let Place::Etcd(options) = &place {
        let etcd = Etcd::open(options).map_err(Error::Etcd)?;
        server = server.sharing(etcd).map_err(|e| Error::Shared(options.url.clone(), e))?;
    }
    let metrics = args
        .metrics
        .as_ref()
        .map(|address| metrics::serve(address, server.metrics()).map_err(|e| Error::Metrics(address.clone(), e)));
    let metrics = metrics.transpose()?;
    let mut told = None;
    if !args.quiet {
        let (lines, done) = Lines::start().map_err(Error::Thread)?;
        lines.tell(format!("{} serves who has the key {}", utc(naming::now()), told_keys(&trust.ring())));
        if let Some(path) = &args.store {
            let names = server.names();
            lines.tell(format!("{} {} has {names} names", utc(naming::now()), printable(&path.display().to_string())));
        }
        if let Some(at) = metrics {
            lines.tell(format!("{} metrics are at http://{at}/metrics", utc(naming::now())));
        }
        server = server.telling(move |text| lines.tell(format!("{} {}", utc(naming::now()), printable(text))));
        told = Some(done);
    }
    for (url, is_loopback) in server.urls() {
        if !is_loopback && trust.encrypt() == Encrypt::Never {
            output::say(format_args!("nothing that is said to {url} is encrypted, for MPI_CONNECT_ENCRYPT is never"));
        }
        // Whoever started it may not care to read.
        let _ = writeln!(io::stdout(), "MPI_CONNECT_NAMING={url}").and_then(|()| io::stdout().flush());
    }
    if let Some(at) = metrics.filter(|at| !at.ip().is_loopback()) {
        output::say(format_args!("whoever reaches http://{at}/metrics may read how much this server is used"));
    }
    read_keys_again_on(hangup, trust).map_err(Error::Thread)?;
    notify("READY=1");
    let end = server.run(&stop).map_err(Error::Serve);
    notify("STOPPING=1");
    // Nothing is ever sent: it ends with the thread. One whose lines nobody reads is not waited for.
    told.map(|done| done.recv_timeout(LAST_LINES));
    end
}
