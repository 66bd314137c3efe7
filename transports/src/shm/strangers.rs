//! Another user's process gets nothing, and is told nothing, by either side of a local handshake.

use super::dial::Dial;
use super::{Door, Own};
use crate::transport::{Attempt, Step};
use base::ProcId;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use wire::Hello;

const DOOR: &str = "SHM_TEST_DOOR";
const NOBODY: u32 = 65534;

/// What the other user's process does.
#[test]
fn stranger() {
    let Ok(door) = std::env::var(DOOR) else { return };
    let process = u128::from_str_radix(&door, 16).unwrap().to_be_bytes();
    let id = ProcId { incarnation: 1, rank: 0 };
    let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
    let own = Own::new(bell.as_fd()).unwrap();
    let (cookie, proof) = ([3; 16], Vec::new());
    let hello = Hello { source: id, dest: id, cookie, process: [4; 16], generation: 1, stripe: 0, received: 0, proof };
    let mut attempt = Dial::new(hello, process, 0, &own).unwrap();
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
    let door = Door::open(&process).unwrap();
    // Where everybody may look.
    let program = std::env::temp_dir().join(format!("shm_strangers-{}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let child = Command::new(&program)
        .args(["--exact", concat!(module_path!(), "::stranger").split_once("::").unwrap().1, "--nocapture"])
        .env(DOOR, format!("{:032x}", u128::from_be_bytes(process)))
        .uid(NOBODY)
        .output();
    std::fs::remove_file(&program).unwrap();
    let child = child.unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert_eq!(poll(&mut [PollFd::new(door.as_fd(), PollFlags::POLLIN)], 0u8), Ok(1), "somebody came");
    assert_eq!(door.accept().unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(door.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}
