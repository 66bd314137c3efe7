//! Tells the service manager that has started this program, as sd_notify(3) does.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says this (`READY=1`) to the service manager, if one listens.
pub fn notify(state: &str) {
    if let Some(place) = env::var_os("NOTIFY_SOCKET") {
        // Without an answer, it takes the service for one that never came up, and says so itself.
        let _ = send(&place, state);
    }
}

fn send(place: &OsStr, state: &str) -> io::Result<()> {
    let address = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(place)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
