//! Machines that lay out data otherwise: other byte orders, sizes and formats.

use c_tests::{Figure, Launch, MPIS, Scene};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The types that an MPI lacks, by the kind that their message begins with. LAM: those of MPI-2 and later.
const LACKED: [(&str, &[&str]); 1] = [("lam", &["aint", "bool"])];

#[test]
fn values_of_other_machines() {
    let title = "values from and to peers that announce other machines (32-bit big-endian, Windows, 64-bit big-endian \
                 with 8-byte Fortran types, POWER), 11 ways to receive: values checked, all right";
    let mut figure = Figure::new("18-foreign", title);
    for mpi in MPIS.iter() {
        let scene = Scene::new(format!("machines that lay out data otherwise: {}", mpi.name));
        let peer = Launch::alone(Path::new(env!("CARGO_BIN_EXE_foreign-peer")), &["air"]);
        let jobs = [scene.start(Launch::new(mpi, 2, "foreign", &["air"])), scene.start(peer)];
        let [program, peer] = scene.pass(jobs, LIMIT);
        let lacked = LACKED.iter().find(|(name, _)| *name == mpi.name).map_or(&[][..], |(_, kinds)| kinds);
        for line in peer.lines("LEFT-OUT") {
            let (machine, kind) = line.split_once(' ').expect("two words");
            let known = lacked.contains(&kind) || machine == "power" && kind == "ldouble";
            scene.require(known, &format!("{machine}: nothing came of {kind}"));
        }
        scene.require(program.checks() > 0 && peer.checks() > 0, "both check something");
        figure.line(format!("{}: {} there, {} back", mpi.name, program.checks(), peer.checks()));
    }
}
