//! Programs that start others where this command's environment does not go: `mpi-connect run -- ssh …` would look as if it
//! worked. For `run`.
//!
//! Invariant: they are told by their names alone, behind what only wraps them, and nothing is run.

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

/// A program that starts another one right here: what stands between the two on its command line.
struct Wrapper {
    /// Letters of the options whose value is the next word, if it does not follow at once.
    letters: &'static str,
    /// The same in long; there it may follow a '='.
    long: &'static [&'static str],
    /// Words behind the options.
    operands: usize,
}

fn wrapper(program: &str) -> Option<Wrapper> {
    let (letters, long, operands): (_, &[_], _) = match program {
        // What its -S splits is left alone.
        "env" => ("uCSa", &["unset", "chdir", "split-string", "argv0"], 0),
        "nohup" | "setsid" => ("", &[], 0),
        "timeout" => ("sk", &["signal", "kill-after"], 1),
        "nice" => ("n", &["adjustment"], 0),
        "stdbuf" => ("ioe", &["input", "output", "error"], 0),
        "time" => ("fo", &["format", "output"], 0),
        _ => return None,
    };
    Some(Wrapper { letters, long, operands })
}

impl Wrapper {
    /// Where the wrapped program is among the words behind the wrapper.
    fn skip(&self, words: &[OsString]) -> usize {
        let mut at = 0;
        while let Some(option) = words.get(at).and_then(|w| w.to_str()?.strip_prefix('-')) {
            at += 1;
            if option == "-" {
                break;
            }
            let value_is_next = match option.strip_prefix('-') {
                Some(long) => self.long.contains(&long),
                None => option.find(|c| self.letters.contains(c)).is_some_and(|i| i + 1 == option.len()),
            };
            at += usize::from(value_is_next);
        }
        at + self.operands
    }
}

fn name(word: &OsStr) -> String {
    Path::new(word).file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The program that starts in the end, when `word` is started with these words.
fn wrapped(word: &OsStr, mut rest: &[OsString]) -> String {
    let mut program = name(word);
    while let Some(wrapper) = wrapper(&program) {
        rest = rest.get(wrapper.skip(rest)..).unwrap_or_default();
        if program == "env" {
            let assignments = rest.iter().take_while(|w| w.to_string_lossy().contains('=')).count();
            rest = &rest[assignments..];
        }
        let Some((next, behind)) = rest.split_first() else { break };
        (program, rest) = (name(next), behind);
    }
    program
}

/// What to say when `word` is started by `mpi-connect run` with these words; `launcher`: the one among them, if there is any.
pub fn warning(word: &OsStr, rest: &[OsString], launcher: Option<&OsString>) -> Option<String> {
    let program = wrapped(word, rest);
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
        assert_eq!(
            warning("env A=1 ssh node1 mpirun -n 4 ./air", Some("mpirun")).unwrap(),
            "the ranks will not have the library: ssh starts its command on another host, with an environment of its own; put \
             it behind: env A=1 ssh node1 mpi-connect run -- mpirun -n 4 ./air"
        );
    }

    #[test]
    fn wrappers_are_looked_past() {
        let wrapped = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            super::wrapped(&words[0], &words[1..])
        };
        for line in [
            "ssh node1",
            "env ssh node1",
            "/usr/bin/env - A=1 B=x=y /usr/bin/ssh node1",
            "env -i -u HOME --unset=X --unset Y -C/tmp --chdir /x -- A=1 ssh node1",
            "nohup ssh node1",
            "timeout 2 ssh node1",
            "timeout -vs KILL -k5 --kill-after 9 --signal=9 1.5m ssh node1",
            "nice ssh node1",
            "nice -n 5 ssh node1",
            "nice -n5 nice -5 nice --adjustment 5 ssh node1",
            "setsid -wf ssh node1",
            "stdbuf -oL -e 0 --input 0 ssh node1",
            "time -p -f %e -o log ssh node1",
            "nohup env A=1 timeout 2 ssh node1",
        ] {
            assert_eq!(wrapped(line), "ssh", "{line}");
        }
        for (line, program) in [
            ("env A=1", "env"),
            ("timeout 2", "timeout"),
            ("timeout", "timeout"),
            ("env -u", "env"),
            ("./air ssh", "air"),
        ] {
            assert_eq!(wrapped(line), program, "{line}");
        }
    }
}
