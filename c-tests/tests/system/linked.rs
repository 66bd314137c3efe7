//! Programs that are linked with the library: the least of them.

use base::families::is_library;
use c_tests::{Launch, Library, MPIS, Scene, compile_with};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A linker that leaves out libraries which seem unused leaves the MPI in: all that a small program calls is found in
/// ours first.
#[test]
fn smallest_program_keeps_its_mpi() {
    for &mpi in MPIS.iter() {
        for flags in [&[][..], &["-Wl,--as-needed"]] {
            let scene = Scene::new(format!("smallest program, {} {}", mpi.name, flags.concat()));
            let program = compile_with(mpi, "tiny", Library::Linked, flags);
            let read = Command::new("readelf").arg("-d").arg(&program).output().expect("readelf");
            let needed = String::from_utf8_lossy(&read.stdout);
            let all = needed.lines().filter(|l| l.contains("(NEEDED)")).filter_map(|l| Some(l.split_once('[')?.1));
            let needs = |what: &dyn Fn(&str) -> bool| all.clone().any(what);
            let ours = needs(&|name| name.starts_with("libmpi_connect.so"));
            scene.require(ours, &format!("not linked with the library:\n{needed}"));
            scene.require(needs(&is_library), &format!("not linked with its MPI:\n{needed}"));
            let job = scene.start(Launch::of(mpi, 2, program, Library::Linked, &[]));
            let [done] = scene.pass([job], LIMIT);
            scene.require(done.stdout == "GOT 42\n", &format!("it printed:\n{}", done.stdout));
        }
    }
}
