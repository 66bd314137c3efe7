//! What ties a job to the process that has spawned it: a socket to the command that watches over the job.
//!
//! Invariant: the end of the socket is an order to end the job, unless it was released before. So a parent that dies takes the job
//! with it, and one that has parted from it, or finalizes, does not.

use crate::conn::fork;
use crate::failure::{Class, Failure};
use crate::life::{self, Part};
use base::protocol::spawn::{MAX_REPORT, RELEASE};
use node::InterId;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};

/// Dropping it ends the job.
pub struct Tie(Arc<Watched>);

/// The socket, and what has come of a report.
pub struct Watched {
    socket: UnixStream,
    got: Mutex<Vec<u8>>,
}

impl Tie {
    /// A forked child of this process has no part in it.
    pub fn new(socket: UnixStream) -> Tie {
        fork::remember(socket.as_raw_fd());
        Tie(Arc::new(Watched { socket, got: Mutex::default() }))
    }

    pub fn watched(&self) -> Arc<Watched> {
        self.0.clone()
    }

    fn release(&self) {
        let _ = (&self.0.socket).write_all(&[RELEASE]);
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        fork::forget(self.0.socket.as_raw_fd());
        let _ = self.0.socket.shutdown(std::net::Shutdown::Both);
    }
}

impl Watched {
    /// Whether the job may still come. Never waits.
    pub fn look(&self) -> Result<(), Failure> {
        let mut got = self.got.lock().unwrap_or_else(|e| e.into_inner());
        let mut piece = [0; 1024];
        loop {
            match (&self.socket).read(&mut piece) {
                Ok(0) => return Err(ended(&got)),
                Ok(n) if got.len() < MAX_REPORT + 4 => got.extend_from_slice(&piece[..n]),
                Ok(_) => return Err(ended(&got)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(ended(&got)),
            }
        }
        if report(&got).is_some() { Err(ended(&got)) } else { Ok(()) }
    }
}

/// A whole report.
fn report(got: &[u8]) -> Option<String> {
    let (length, text) = got.split_first_chunk::<4>()?;
    let text = text.get(..u32::from_le_bytes(*length) as usize)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

fn ended(got: &[u8]) -> Failure {
    let ended = || "the command that was to start the job has ended without a word".to_owned();
    Failure::new(Class::Spawn, report(got).unwrap_or_else(ended))
}

/// The jobs that this process has spawned, and not parted from.
static TIES: Mutex<Vec<(InterId, Tie)>> = Mutex::new(Vec::new());

fn ties() -> MutexGuard<'static, Vec<(InterId, Tie)>> {
    TIES.lock().unwrap_or_else(|e| e.into_inner())
}

/// Keeps what ties the job behind this inter-communicator.
pub fn keep(inter: InterId, tie: Tie) {
    life::end_with(Part::Spawned, release_all);
    ties().push((inter, tie));
}

/// Both sides have parted by MPI_Comm_disconnect.
pub fn disconnected(inter: InterId) {
    let mut ties = ties();
    if let Some(at) = ties.iter().position(|(of, _)| *of == inter) {
        ties.swap_remove(at).1.release();
    }
}

/// In MPI_Finalize: the jobs go on by themselves.
fn release_all() {
    ties().drain(..).for_each(|(_, tie)| tie.release());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_whole_or_none() {
        let told = [&3u32.to_le_bytes()[..], b"why"].concat();
        assert_eq!(report(&told).as_deref(), Some("why"));
        assert!((0..told.len()).all(|n| report(&told[..n]).is_none()));
    }

    #[test]
    fn who_is_awaited_may_come_until_it_is_told_otherwise() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let tie = Tie::new(ours);
        assert!(tie.watched().look().is_ok());
        theirs.write_all(&[&3u32.to_le_bytes()[..], b"w"].concat()).unwrap();
        assert!(tie.watched().look().is_ok());
        theirs.write_all(b"hy").unwrap();
        assert!(tie.watched().look().unwrap_err().text == "why");
        tie.release();
        drop(tie);
        let mut said = Vec::new();
        theirs.read_to_end(&mut said).unwrap();
        assert_eq!(said, [RELEASE]);
    }
}
