//! Tells the service manager that has started this program, as sd_notify(3) does.

use nix::time::{ClockId, clock_gettime};
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Says this (`READY=1`) to the service manager, if one listens.
pub fn notify(state: &str) {
    if let Some(place) = env::var_os("NOTIFY_SOCKET") {
        // Without an answer, it takes the service for one that never came up, and says so itself.
        let _ = send(&place, state);
    }
}

/// Says that the settings are read again, until the next READY=1.
pub fn reloading() {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
}

fn send(place: &OsStr, state: &str) -> io::Result<()> {
    let address = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(place)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
