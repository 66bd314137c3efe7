//! `scripts/provision`: what is there is taken as it is, and what is missing is said before it is installed.

use c_tests::{Scene, root, user};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A command of this name that does this.
fn fake(folder: &Path, name: &str, does: &str) -> PathBuf {
    std::fs::create_dir_all(folder).expect("the scene's folder");
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{does}\n")).expect("the scene's folder");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a file of ours");
    path
}

/// Runs a script as a user who is not root, with these folders before the system's on the PATH.
fn run(script: &str, words: &[&str], first: &[&Path]) -> Output {
    let mut all = user::prefix();
    all.push(root().join("scripts").join(script).display().to_string());
    all.extend(words.iter().map(|w| w.to_string()));
    let first: String = first.iter().map(|f| format!("{}:", f.display())).collect();
    let mut command = Command::new(&all[0]);
    command.args(&all[1..]).env("PATH", format!("{first}/usr/local/bin:/usr/bin:/bin")).output().expect("the script")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// With an Open MPI and an MPICH on the PATH nothing is said, nothing installed, and nobody asked for rights.
#[test]
fn nothing_is_asked_where_nothing_is_missing() {
    let scene = Scene::new("provision, nothing missing");
    let fakes = scene.path("fakes");
    for name in ["sudo", "apt-get", "useradd", "pip", "pip3"] {
        fake(&fakes, name, &format!("echo {name} was called; exit 1"));
    }
    for words in [["openmpi", "mpich"], ["mpich", "mpich"], ["openmpi4", "mpich4"]] {
        let done = run("provision", &words, &[&fakes]);
        let said = text(&done.stdout) + &text(&done.stderr);
        assert!(done.status.success() && said.is_empty(), "provision {words:?}: {said}");
    }
}

/// What is missing, and only that, is said before anything is called.
#[test]
fn what_is_missing_is_said_first() {
    let scene = Scene::new("provision, packages missing");
    let fakes = scene.path("fakes");
    fake(&fakes, "dpkg-query", "exit 1");
    fake(&fakes, "sudo", "echo \"called: $*\"; exit 1");
    // By name, so that those on the PATH do not count.
    let done = run("provision", &["openmpi4", "mpich4", "openmpi4"], &[&fakes]);
    let said = text(&done.stdout);
    let mut lines = said.lines();
    let first = lines.next().unwrap_or_default();
    assert_eq!(first, "provision: by apt-get, as root: openmpi-bin libopenmpi-dev mpich libmpich-dev");
    let then = lines.next().unwrap_or_default();
    assert!(!done.status.success() && then.starts_with("called: ") && then.contains("apt-get"), "{said}");
}

/// A user's own MPI goes before the system's, with the launcher beside it; one whose launcher is another MPI's does not.
#[test]
fn own_mpi_is_found() {
    let scene = Scene::new("an MPI on the PATH");
    let (own, mixed) = (scene.path("own"), scene.path("mixed"));
    let compiler = fake(&own, "mpicc", "exec /usr/bin/mpicc.mpich \"$@\"");
    let launcher = fake(&own, "mpirun", "exec /usr/bin/mpirun.mpich \"$@\"");
    fake(&mixed, "mpicc", "exec /usr/bin/mpicc.mpich \"$@\"");
    fake(&mixed, "mpirun", "exec /usr/bin/mpirun.openmpi \"$@\"");
    let found = |family: &str| text(&run("find-mpi", &[family], &[&mixed, &own]).stdout);
    assert_eq!(found("mpich"), format!("{}\n{}\n", compiler.display(), launcher.display()));
    let other = found("openmpi");
    assert!(!other.is_empty() && !other.contains("/own/") && !other.contains("/mixed/"), "{other}");
    assert!(!run("find-mpi", &["lam"], &[]).status.success());
}
