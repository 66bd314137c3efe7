//! What the command is asked for by a process that calls MPI_Comm_spawn.

use crate::Target;
use base::spawn::{Program, Request};

fn request(input: &[u8]) {
    let Ok(found) = Request::decode(input) else { return };
    assert!(!found.programs.is_empty() && found.programs.iter().all(|program| !program.words.is_empty()));
    assert_eq!(found.encode(), input, "a request has one form");
}

/// Requests of MPI_Comm_spawn.
pub const REQUEST: Target = Target {
    run: request,
    seeds: || {
        let program = |word: &str, directory: Option<&str>| Program {
            words: vec![word.into(), "a b".into()],
            ranks: 3,
            directory: directory.map(str::to_owned),
            path: directory.map(str::to_owned),
        };
        let one = Request { port: "mpic:AAAA".into(), programs: vec![program("./a", None)], ..Request::default() };
        let launcher = Request { launcher: Some("mpirun.mpich".into()), host: Some("n1".into()), ..one.clone() };
        let manifest = Request {
            manifest: Some("x.toml".into()),
            job: Some("ocean".into()),
            programs: vec![program("", Some("/tmp")), program("b", None)],
            ..one.clone()
        };
        [one, launcher, manifest].iter().map(Request::encode).collect()
    },
    longest: 2048,
    memory: 64 << 10,
};
