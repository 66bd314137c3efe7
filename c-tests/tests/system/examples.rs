//! The examples, built and run by the commands in their own README.

use c_tests::python;
use c_tests::{Launch, Mpi, Scene, make, root, user};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

/// The blocks of a README in this language, one after the other.
fn blocks(page: &str, language: &str) -> String {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect()
}

/// Runs what the README says, and looks for what it says that is printed.
fn run(name: &str) {
    let scene = Scene::new(format!("example {name}"));
    let prefix = scene.path("installed");
    make(&["install", &format!("PREFIX={}", prefix.display())]);
    let all = scene.path("examples");
    let copied = Command::new("cp").arg("-r").arg(root().join("examples")).arg(&all).status();
    assert!(copied.expect("cp").success());
    let folder = all.join(name);
    // Whoever runs it builds there.
    user::give(&folder);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("a folder of ours");

    let page = std::fs::read_to_string(folder.join("README.md")).expect("a README");
    let (commands, printed) = (blocks(&page, "sh"), blocks(&page, "text"));
    assert!(!commands.is_empty() && !printed.is_empty(), "{name}: its README has commands, and says what is printed");
    let script = format!("set -e; cd {}\n{commands}", folder.display());
    let path = std::env::var("PATH").unwrap_or_default();
    let openmpi = Mpi::by_name("openmpi4").expect("in the table");
    let launch = Launch::alone("/bin/bash".as_ref(), &["-c", &script])
        .envs(&openmpi.environment())
        .env("PATH", &format!("{}:/usr/bin:{path}", prefix.join("bin").display()))
        .env("PKG_CONFIG_PATH", &prefix.join("lib/pkgconfig").display().to_string())
        .env("PYTHONPATH", &python::path())
        .env("TMPDIR", &scene.path("tmp").display().to_string())
        // Two jobs that do not know of each other on few cores.
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("OMPI_MCA_hwloc_base_binding_policy", "none");
    let [done] = scene.pass([scene.start(launch)], LIMIT);
    for line in printed.lines() {
        scene.require(done.stdout.contains(line), &format!("{name}: nobody printed: {line}"));
    }
}

macro_rules! examples {
    ($($test:ident $folder:literal)*) => {
        $(#[test]
        fn $test() {
            run($folder);
        })*
        const RUN: &[&str] = &[$($folder),*];
    };
}

examples! {
    c "c"
    fortran_mpif "fortran-mpif"
    fortran_mpi "fortran-mpi"
    fortran_f08 "fortran-f08"
    in_python "python"
    with_cmake "cmake"
    ports "ports"
    ensemble "ensemble"
}

/// No example is left out, and the page of all names each.
#[test]
fn all_are_run() {
    let folder = root().join("examples");
    let page = std::fs::read_to_string(folder.join("README.md")).expect("a README");
    let entries = std::fs::read_dir(folder).expect("the examples").filter_map(|e| e.ok());
    let mut found: Vec<_> = entries.filter(|e| e.path().is_dir()).map(|e| e.file_name()).collect();
    found.sort();
    let mut run: Vec<_> = RUN.iter().map(std::ffi::OsString::from).collect();
    run.sort();
    assert_eq!(found, run);
    for name in RUN {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in examples/README.md");
    }
}
