//! Programs that start others where this command's environment does not go: `mpi-connect run -- ssh …` would look as if it
//! worked. For `run`.
//!
//! Invariant: they are told by their names alone, and nothing is run.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Where a program starts others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Host,
    Script,
    Container,
    User,
}

fn place(program: &str) -> Option<Place> {
    match program {
        "ssh" | "rsh" | "slogin" | "pdsh" | "clush" | "parallel-ssh" | "oarsh" => Some(Place::Host),
        "sbatch" | "qsub" | "bsub" | "msub" | "oarsub" | "pjsub" | "condor_submit" | "at" | "batch" => {
            Some(Place::Script)
        }
        "docker" | "podman" | "nerdctl" | "kubectl" | "singularity" | "apptainer" | "shifter" | "sarus"
        | "charliecloud" | "ch-run" | "chroot" => Some(Place::Container),
        "sudo" | "su" | "doas" | "runuser" | "pkexec" => Some(Place::User),
        _ => None,
    }
}

/// What to say when `word` is started by `mpi-connect run` with these words; `launcher`: the one among them, if there is any.
pub fn warning(word: &OsStr, rest: &[OsString], launcher: Option<&OsString>) -> Option<String> {
    let program = Path::new(word).file_name()?.to_string_lossy();
    let place = place(&program)?;
    let why = match place {
        Place::Host => "starts its command on another host, with an environment of its own",
        Place::Script => "starts its script later, with an environment of its own",
        Place::Container => "starts its command in a container, which has its own files and environment",
        Place::User => "starts its command with a clean environment",
    };
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let mend = match (place, launcher) {
        (Place::Script, _) => "put 'mpi-connect run --' into the script, directly before mpirun or srun".to_owned(),
        (_, Some(launcher)) => {
            let at = rest.iter().position(|w| w == launcher).unwrap_or(0);
            let (before, from) = rest.split_at(at);
            let words: Vec<_> =
                before.iter().map(text).chain(["mpi-connect run --".into()]).chain(from.iter().map(text)).collect();
            format!("put it behind: {} {}", word.to_string_lossy(), words.join(" "))
        }
        _ => "put 'mpi-connect run --' behind it, directly before the launcher".to_owned(),
    };
    let there = if place == Place::Container { "; MPI_Connect has to be installed in there" } else { "" };
    Some(format!("the ranks will not have the library: {program} {why}; {mend}{there}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_environment_does_not_go() {
        let warning = |line: &str, launcher: Option<&str>| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            super::warning(&words[0], &words[1..], launcher.map(OsString::from).as_ref())
        };
        assert_eq!(
            warning("/usr/bin/ssh node1 mpirun -n 4 ./air", Some("mpirun")).unwrap(),
            "the ranks will not have the library: ssh starts its command on another host, with an environment of its own; put \
             it behind: /usr/bin/ssh node1 mpi-connect run -- mpirun -n 4 ./air"
        );
        let said = warning("sbatch job.sh", None).unwrap();
        assert!(said.ends_with("put 'mpi-connect run --' into the script, directly before mpirun or srun"), "{said}");
        let said = warning("docker run image mpirun ./air", Some("mpirun")).unwrap();
        assert!(said.contains("docker run image mpi-connect run -- mpirun ./air; MPI_Connect has to be"), "{said}");
        assert!(warning("sudo ./air", None).unwrap().contains("clean environment"));
        assert_eq!(warning("env A=1 ./air", None), None);
    }
}
