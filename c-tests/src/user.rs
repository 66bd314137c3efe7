//! Who the jobs run as: never root, whom LAM refuses, and whose rights hide faults. `scripts/provision` makes the user.

use nix::unistd::{Uid, User, chown};
use std::path::Path;
use std::sync::OnceLock;

const NAME: &str = "mpi-connect";
/// The number of a third user.
const STRANGER: u32 = 64_999;

static USER: OnceLock<Option<User>> = OnceLock::new();

/// Jobs run as whoever runs this, root too. To be said before anything else here.
pub fn stay() {
    assert!(USER.set(None).is_ok(), "said before whose the jobs are is asked");
}

fn user() -> Option<&'static User> {
    USER.get_or_init(|| {
        Uid::effective().is_root().then(|| {
            let found = User::from_name(NAME).expect("the users of this machine");
            found.unwrap_or_else(|| panic!("there is no user {NAME}: run `scripts/provision`"))
        })
    })
    .as_ref()
}

/// Whether jobs run as another user than the tests.
pub fn is_other() -> bool {
    user().is_some()
}

/// The words that make a command another user's.
pub fn prefix() -> Vec<String> {
    let Some(user) = user() else { return Vec::new() };
    let mut words = vec!["setpriv".to_owned(), format!("--reuid={}", user.uid), format!("--regid={}", user.gid)];
    words.push("--init-groups".into());
    words.extend(rights(user));
    words
}

/// The words that make a command a third user's, who owns nothing and has no name. For tests that run as root alone.
pub fn prefix_of_stranger() -> Vec<String> {
    let user = user().expect("tests that run as root");
    let (uid, gid) = (format!("--reuid={STRANGER}"), format!("--regid={STRANGER}"));
    let mut words = vec!["setpriv".to_owned(), uid, gid, "--clear-groups".to_owned()];
    words.extend(rights(user));
    words
}

/// The end of such words.
fn rights(user: &User) -> Vec<String> {
    let mut words = Vec::new();
    if !reaches_tree(user) {
        // A tree in a private folder: its programs may be read all the same.
        words.extend(["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"].map(String::from));
    }
    words.push("--".into());
    words
}

fn reaches_tree(user: &User) -> bool {
    static REACHES: OnceLock<bool> = OnceLock::new();
    *REACHES.get_or_init(|| {
        let (uid, gid) = (format!("--reuid={}", user.uid), format!("--regid={}", user.gid));
        let manifest = crate::root().join("Cargo.toml");
        let words = [uid.as_str(), gid.as_str(), "--init-groups", "--", "test", "-r"];
        let done = std::process::Command::new("setpriv").args(words).arg(manifest).status();
        done.expect("setpriv, of util-linux").success()
    })
}

pub fn environment() -> Vec<(&'static str, String)> {
    let Some(user) = user() else { return Vec::new() };
    // LAM asks USER, Open MPI HOME.
    let home = user.dir.display().to_string();
    vec![("HOME", home), ("USER", NAME.into()), ("LOGNAME", NAME.into())]
}

/// Gives this to the third user, where there is one.
pub fn give_to_stranger(path: &Path) {
    if user().is_some() {
        chown(path, Some(Uid::from_raw(STRANGER)), None).expect("a file of ours");
    }
}

/// Gives a folder or a file to the user of the jobs.
pub fn give(path: &Path) {
    if let Some(user) = user() {
        chown(path, Some(user.uid), Some(user.gid)).expect("a folder of ours");
    }
}
