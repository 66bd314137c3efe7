//! The command as the tests run it.

use naming::Naming;
use std::env;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, OnceLock};
use trust::{Encrypt, KeyFile, Trust};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_mpi-connect");

/// With none of our variables but those that a test sets.
pub fn command(args: &[&str]) -> Command {
    let mut c = Command::new(PROGRAM);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("MPI_CONNECT_") {
            c.env_remove(name);
        }
    }
    // One that is not there has no key: then it is in the user's private folder.
    std::fs::create_dir_all(HOME).unwrap();
    c.env("HOME", HOME);
    c.args(args);
    c
}

/// Where the user of these tests is at home: with a key, made by whoever comes first.
const HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/home");

/// Opens a store of names as a process with that key.
pub fn open(url: &str, run: &str) -> Box<dyn Naming> {
    static TRUST: OnceLock<Arc<Trust>> = OnceLock::new();
    let trust = || {
        std::fs::create_dir_all(HOME).unwrap();
        Trust::from_file(KeyFile::at(Path::new(HOME).join(".config/mpi-connect/key")), Encrypt::Network).map(Arc::new)
    };
    naming::open_trusting(url, run, || Ok(TRUST.get_or_init(|| trust().expect("a key")).clone())).unwrap()
}

pub fn text(o: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr))
}

/// Its output, if it ended well. Its standard input stays open until then: MPICH's launcher passes an end on, and dies of
/// SIGPIPE if the rank has ended before.
pub fn good(mut c: Command) -> String {
    let mut child = c.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let o = child.wait_with_output().unwrap();
    drop(input);
    assert!(o.status.success(), "{c:?}: {}: {}", o.status, text(&o));
    String::from_utf8(o.stdout).unwrap()
}

/// Its exit code and all it said.
pub fn ended(mut c: Command) -> (i32, String) {
    let o = c.output().unwrap();
    (o.status.code().unwrap(), text(&o))
}
