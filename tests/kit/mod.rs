//! The command as the tests run it.

use std::env;
use std::process::{Command, Output, Stdio};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_mpi-connect");

/// With none of our variables but those that a test sets.
pub fn command(args: &[&str]) -> Command {
    let mut c = Command::new(PROGRAM);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("MPI_CONNECT_") {
            c.env_remove(name);
        }
    }
    c.args(args);
    c
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
