//! `mpi-connect serve`: a naming server, in the foreground, until it is told to end.
//!
//! Invariant: the URL is printed only once clients can connect.

use naming::ServeError;
use naming::server::{self, Server};
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

#[derive(clap::Args)]
pub struct Args {
    /// Where to listen, may be given several times; port 0 is any free one. Default: 127.0.0.1:7431
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Seconds after which the name of a process that was killed is free
    #[arg(long, value_name = "SECONDS", default_value_t = server::DEFAULT_LEASE.as_secs_f64())]
    lease: f64,
}

#[derive(Debug)]
pub enum Error {
    Lease(f64),
    Signals(io::Error),
    Serve(ServeError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Lease(s) => write!(f, "{s} is no number of seconds"),
            Error::Signals(e) => write!(f, "waiting for signals: {e}"),
            Error::Serve(e) => e.fmt(f),
        }
    }
}

impl Error {
    /// Whether the command line is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::Lease(_) | Error::Serve(ServeError::Address(_) | ServeError::Lease(_)))
    }
}

pub fn serve(args: &Args) -> Result<(), Error> {
    let lease = Duration::try_from_secs_f64(args.lease).map_err(|_| Error::Lease(args.lease))?;
    let stop = server::told_to_end().map_err(Error::Signals)?;
    let server = Server::listen(&args.listen, lease).map_err(Error::Serve)?;
    for (url, is_loopback) in server.urls() {
        if !is_loopback {
            eprintln!("mpi-connect: whoever reaches {url} may look names up, and nothing is encrypted yet");
        }
        // Whoever started it may not care to read.
        let _ = writeln!(io::stdout(), "MPI_CONNECT_NAMING={url}").and_then(|()| io::stdout().flush());
    }
    server.run(&stop).map_err(Error::Serve)
}
