//! A test that neither side of a local handshake sends anything to a process of another user.

use super::dial::Dial;
use super::{Doorbells, Listener};
use crate::transport::{Attempt, Step};
use base::ProcId;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use trust::{Encrypt, Key, Ring, Trust};
use wire::Hello;

const LISTENER: &str = "SHM_TEST_LISTENER";
const NOBODY: u32 = 65534;

/// The other user's process.
#[test]
fn stranger() {
    let Ok(listener) = std::env::var(LISTENER) else { return };
    let process = u128::from_str_radix(&listener, 16).unwrap().to_be_bytes();
    let id = ProcId { incarnation: 1, rank: 0 };
    let eventfd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
    let own = Doorbells::new(eventfd.as_fd()).unwrap();
    let trust = Arc::new(Trust::new(Ring::new(Key::new(), []), Encrypt::Network));
    let own_number = trust.identity().process();
    let hello = Hello {
        source: id,
        dest: id,
        cookie: [3; 16],
        process: own_number,
        generation: 1,
        stripe: 0,
        received: 0,
        moves: None,
    };
    let mut attempt = Dial::new(hello, process, 0, &own, &trust).unwrap();
    let Step::Failed(why) = attempt.step() else { panic!("it goes on") };
    assert_eq!(why.to_string(), "another user's");
    assert!(!attempt.is_greeted(), "nothing was said");
}

#[test]
fn another_user_is_shown_out() {
    if !nix::unistd::geteuid().is_root() {
        return println!("NOT TESTED: only root can be two users");
    }
    let process = (u128::from(std::process::id()) << 32).to_be_bytes();
    let listener = Listener::open(&process).unwrap();
    // The other user has to be able to read the program.
    let program = std::env::temp_dir().join(format!("shm_strangers-{}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    command
        .args(["--exact", concat!(module_path!(), "::stranger").split_once("::").unwrap().1, "--nocapture"])
        .env(LISTENER, format!("{:032x}", u128::from_be_bytes(process)))
        .uid(NOBODY);
    // A child that another test has just forked may still have the copy open for writing.
    let child = loop {
        match command.output() {
            Err(e) if e.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
            child => break child,
        }
    };
    std::fs::remove_file(&program).unwrap();
    let child = child.unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert_eq!(poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], 0u8), Ok(1), "somebody came");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}
