//! The command as a user runs it, with the launchers of this machine where they are there.

mod kit;

use kit::{ended, good, open, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{env, fs};

/// What a rank tells: its variables, and whether its parent (the launcher or its proxy) is preloaded into.
const RANK: &str = "echo \"rank P=$LD_PRELOAD L=$MPI_CONNECT_LOG I=$MPI_CONNECT_IFACE parent=$(grep -c LD_PRELOAD= \
                    /proc/$PPID/environ)\"";

/// Stands in for the library: harmless, and surely loadable.
fn library() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|l| l.contains("/libc.so") || l.contains("/libc-")).unwrap();
    fs::canonicalize(&line[line.find('/').unwrap()..]).unwrap().to_str().unwrap().into()
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let dir = env::temp_dir().join(format!("command-{:016x}", u64::from_le_bytes(base::ident::random())));
        fs::create_dir(&dir).unwrap();
        Folder(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Sees to what the launchers need.
fn command(args: &[&str]) -> Command {
    let mut c = kit::command(args);
    c.env("MPI_CONNECT_LIB", library()).env_remove("LD_PRELOAD");
    // Open MPI refuses root otherwise.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        c.env(name, "1");
    }
    c
}

fn is_here(word: &str) -> bool {
    let found = env::split_paths(&env::var_os("PATH").unwrap()).any(|d| d.join(word).is_file());
    if !found {
        println!("no {word} here");
    }
    found
}

fn ranks(out: &str) -> Vec<&str> {
    out.lines().filter(|l| l.starts_with("rank ")).collect()
}

#[test]
fn the_words_for_open_mpi() {
    if is_here("mpirun.openmpi") {
        let out = good(command(&["run", "--log", "info", "--print", "--", "mpirun.openmpi", "-n", "2", "./a b"]));
        let lib = library();
        assert_eq!(out, format!("mpirun.openmpi -x LD_PRELOAD={lib} -x MPI_CONNECT_LOG=info -n 2 './a b'\n"));
    }
}

#[test]
fn the_words_for_mpich() {
    if is_here("mpirun.mpich") {
        let out = good(command(&["run", "--log", "info", "--print", "--", "mpirun.mpich", "-n", "2", "./a"]));
        let lib = library();
        assert_eq!(out, format!("mpirun.mpich -genv LD_PRELOAD {lib} -genv MPI_CONNECT_LOG info -n 2 ./a\n"));
    }
}

#[test]
fn ranks_are_preloaded_and_launchers_are_not() {
    for (launcher, more) in [("mpirun.openmpi", "--oversubscribe"), ("mpirun.mpich", "-l"), ("mpiexec.hydra", "-l")] {
        if !is_here(launcher) {
            continue;
        }
        let more = if more == "-l" { "-prepend-rank" } else { more };
        let mut c = command(&["run", "--log", "error", "--", launcher, more, "-n", "1", "sh", "-c", RANK]);
        c.args([":", "-n", "1", "sh", "-c", RANK]).env("MPI_CONNECT_IFACE", "lo,eth 9");
        let out = good(c).replace("[0] ", "").replace("[1] ", "");
        let want = format!("rank P={} L=error I=lo,eth 9 parent=0", library());
        assert_eq!(ranks(&out), [want.as_str(), want.as_str()], "{launcher}");
    }
}

#[test]
fn what_was_preloaded_stays_behind_ours() {
    let (ours, theirs) = (library(), "/nonexistent/theirs.so");
    let mut c = command(&["run", "--", "sh", "-c", RANK]);
    c.env("LD_PRELOAD", theirs);
    assert!(good(c).contains(&format!("P={ours}:{theirs} ")));
    for launcher in ["mpirun.openmpi", "mpirun.mpich"] {
        if is_here(launcher) {
            let mut c = command(&["run", "--", launcher, "-n", "1", "sh", "-c", RANK]);
            c.env("LD_PRELOAD", theirs);
            assert!(good(c).contains(&format!("rank P={ours}:{theirs} ")), "{launcher}");
        }
    }
    let own = |launcher: &str, option: &[&str]| {
        let mut c = command(&["run", "--", launcher]);
        c.args(option).args(["-n", "1", "sh", "-c", RANK]);
        assert!(good(c).contains(&format!("rank P={ours}:{theirs} ")), "{launcher}");
    };
    if is_here("mpirun.openmpi") {
        own("mpirun.openmpi", &["-x", &format!("LD_PRELOAD={theirs}")]);
    }
    if is_here("mpirun.mpich") {
        own("mpirun.mpich", &["-genv", "LD_PRELOAD", theirs]);
    }
}

#[test]
fn an_mpi_library_goes_behind_ours() {
    let c = command(&["run", "--print", "--mpi-library", "/proc/self/exe", "sh"]);
    let out = good(c);
    assert!(out.starts_with(&format!("env LD_PRELOAD={}:/", library())), "{out}");
    assert_eq!(ended(command(&["run", "--mpi-library", "/nowhere.so", "sh"])).0, 2);
}

#[test]
fn the_two_dashes_may_be_missing_and_later_ones_stay() {
    let with = good(command(&["run", "--print", "--", "sh", "-c", "x", "--", "--print", "-y"]));
    let without = good(command(&["run", "--print", "sh", "-c", "x", "--", "--print", "-y"]));
    assert_eq!(with, without);
    assert!(with.ends_with(" sh -c x -- --print -y\n"), "{with}");
}

#[test]
fn no_program_wrong_program() {
    let (code, said) = ended(command(&["run"]));
    assert!(code == 2 && said.contains("COMMAND"), "{code} {said}");
    assert_eq!(ended(command(&["run", "--"])).0, 2);
    assert_eq!(ended(command(&["run", "--unknown", "sh"])).0, 2);
    assert_eq!(ended(command(&["run", "--log", "loud", "sh"])).0, 2);
    let (code, said) = ended(command(&["run", "--", "no-such-launcher", "-n", "2"]));
    assert!(code == 127 && said.contains("no-such-launcher"), "{code} {said}");
    assert_eq!(ended(command(&["run", "--", "./no/such"])).0, 127);
    assert_eq!(ended(command(&["run", "--", "/etc/passwd"])).0, 126);
}

#[test]
fn the_launchers_exit_status_is_ours() {
    assert_eq!(ended(command(&["run", "--", "sh", "-c", "exit 7"])).0, 7);
    let status = command(&["run", "--", "sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
}

#[test]
fn the_library_has_to_be_there() {
    let mut c = command(&["run", "--", "sh"]);
    c.env("MPI_CONNECT_LIB", "/nowhere.so");
    let (code, said) = ended(c);
    assert!(code == 1 && said.contains("/nowhere.so"), "{code} {said}");
}

#[test]
fn naming_urls_are_checked_and_made_absolute() {
    let dir = Folder::new();
    let here = fs::canonicalize(&dir.0).unwrap();
    let mut c = command(&["run", "--print", "--naming", "file:names", "--", "sh"]);
    c.current_dir(&here);
    assert!(good(c).contains(&format!("MPI_CONNECT_NAMING=file:{}/names ", here.display())));
    for url in ["etcd://host:1", "names"] {
        let (code, said) = ended(command(&["run", "--naming", url, "--", "sh"]));
        assert!(code == 2 && said.contains("file:DIR"), "{code} {said}");
    }
    let mut c = command(&["run", "--", "sh"]);
    c.env("MPI_CONNECT_NAMING", "etcd://host");
    assert_eq!(ended(c).0, 2);
}

fn record(name: &str) -> naming::Record {
    naming::Record { incarnation: 7, cookie: [1; 16], size: 3, mpi: "Some MPI".into(), ..naming::Record::new(name) }
}

/// A run's names are apart, shown as such, and picked by it; a run's own name is checked beforehand.
#[test]
fn runs_are_shown_and_checked() {
    let dir = Folder::new();
    let url = format!("file:{}", dir.0.join("names").display());
    let _claims = ["case7", "case8"].map(|run| open(&url, run).claim(&record("ocean")).unwrap());
    let out = good(command(&["names", "--naming", &url]));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("RUN    NAME "), "{out}");
    assert!(lines[1].starts_with("case7  ocean  job   live") && lines[2].starts_with("case8  ocean"), "{out}");
    let out = good(command(&["names", "--naming", &url, "--run", "case8"]));
    assert!(out.contains("case8  ocean") && !out.contains("case7"), "{out}");
    let out = good(command(&["run", "--run", "case7", "--print", "--", "sh"]));
    assert!(out.contains("MPI_CONNECT_RUN=case7 "), "{out}");
    // Blanks around it do not count, wherever it is said; nothing else is no run.
    for (run, printed, described) in [(" case7 ", "MPI_CONNECT_RUN=case7 ", true), (" ", "MPI_CONNECT_RUN= ", false)] {
        let out = good(command(&["run", "--run", run, "--print", "--", "sh"]));
        assert!(out.contains(printed), "{out}");
        let mut c = command(&["run", "--print", "--", "sh"]);
        c.env("MPI_CONNECT_RUN", run);
        let out = good(c);
        assert!(out.contains(printed), "{out}");
        let (_, out) = doctor(&dir.0.join("names"), &[("MPI_CONNECT_RUN", run)]);
        assert_eq!((out.contains(", run 'case7'"), out.contains(", run '")), (described, described), "{out}");
        let out = good(command(&["names", "--naming", &url, "--run", run]));
        assert_eq!(out.contains("case7  ocean"), described, "{out}");
    }
    let (code, said) = ended(command(&["run", "--run", "a\tb", "--", "sh"]));
    assert!(code == 2 && said.contains("MPI_CONNECT_RUN): the name contains a control character"), "{code} {said}");
}

#[test]
fn names_are_listed() {
    let dir = Folder::new();
    let url = format!("file:{}", dir.0.join("names").display());
    assert!(good(command(&["names", "--naming", &url])).starts_with("no names in file:"));
    assert_eq!(good(command(&["names", "--naming", &url, "--json"])), "[]\n");
    let _claim = open(&url, "").claim(&record("sea ice")).unwrap();
    let mut c = command(&["names"]);
    c.env("MPI_CONNECT_NAMING", &url);
    let out = good(c);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("sea ice  job   live   3      Some MPI"), "{out}");
    let json: serde_json::Value = serde_json::from_str(&good(command(&["names", "--naming", &url, "--json"]))).unwrap();
    assert_eq!(
        (&json[0]["name"], &json[0]["state"], &json[0]["ranks"]),
        (&"sea ice".into(), &"live".into(), &3.into())
    );
    assert_eq!(ended(command(&["names", "--naming", "file:/etc/passwd"])).0, 1);
    assert_eq!(ended(command(&["names", "--naming", "tcp://127.0.0.1:1"])).0, 1);
}

fn doctor(dir: &Path, vars: &[(&str, &str)]) -> (i32, String) {
    let mut c = command(&["doctor", "-v"]);
    c.env("MPI_CONNECT_NAMING", format!("file:{}", dir.display())).envs(vars.iter().copied());
    ended(c)
}

#[test]
fn a_healthy_place() {
    let dir = Folder::new();
    let (code, said) = doctor(&dir.0, &[]);
    assert_eq!(code, 0, "{said}");
    for part in [&library(), "can be preloaded", "claimed and are locked", "127.0.0.1", "MPI_CONNECT_TIMEOUT", "600"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 0);
}

/// What is in order is not told unasked: the problems come, and last the verdict.
#[test]
fn doctor_ends_with_the_problems_and_the_verdict() {
    let dir = Folder::new();
    let doctor = |args: &[&str], timeout: &str| {
        let mut c = command(&[&["doctor"], args].concat());
        c.env("MPI_CONNECT_NAMING", format!("file:{}", dir.0.display())).env("MPI_CONNECT_TIMEOUT", timeout);
        ended(c)
    };
    let (code, said) = doctor(&[], "5");
    assert!(code == 0 && !said.contains(&library()), "{said}");
    assert!(said.lines().last().unwrap().starts_with("nothing is broken"), "{said}");
    for args in [&[][..], &["-v"]] {
        let (code, said) = doctor(args, "soon");
        let end = said.split_once("problems\n").unwrap_or_else(|| panic!("{said}")).1;
        assert!(code == 1 && end.contains(" ! variables: MPI_CONNECT_TIMEOUT=soon"), "{said}");
        assert!(end.lines().last().unwrap().starts_with("something is broken: 1 problem to mend"), "{said}");
    }
    let (code, said) = doctor(&["--json"], "soon");
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &json["verdict"]), (1, &"broken".into()));
    assert_eq!((&json["library"]["path"], &json["library"]["preloadable"]), (&library().into(), &true.into()));
    assert_eq!((&json["naming"]["usable"], &json["naming"]["live"]), (&true.into(), &0.into()));
    let addresses = json["interfaces"]["addresses"].as_array().unwrap();
    assert!(addresses.contains(&"127.0.0.1".into()), "{addresses:?}");
    let settings = json["settings"].as_array().unwrap();
    assert!(
        settings.iter().any(|s| s["name"] == "MPI_CONNECT_TIMEOUT" && s["value"] == "soon" && s["default"] == "600")
    );
    let problems = json["problems"].as_array().unwrap();
    assert!(problems.iter().any(|p| p["section"] == "variables" && p["grade"] == "broken" && p["mend"].is_string()));
    let mut c = command(&["doctor", "--json", "sh"]);
    c.env("MPI_CONNECT_NAMING", format!("file:{}", dir.0.display()));
    let json: serde_json::Value = serde_json::from_str(&ended(c).1).unwrap();
    assert!(json["program"]["path"].as_str().unwrap().ends_with("/sh"), "{json}");
}

#[test]
fn what_is_broken_is_named_with_its_cure() {
    let dir = Folder::new();
    for (name, value) in [
        ("MPI_CONNECT_LIB", "/nowhere.so"),
        ("MPI_CONNECT_LIB", "/etc/passwd"),
        ("MPI_CONNECT_NAMING", "file:/proc/none"),
        ("MPI_CONNECT_NAMING", "file:/etc/passwd"),
        ("MPI_CONNECT_NAMING", "etcd://host:1"),
        ("MPI_CONNECT_NAMING", "tcp://127.0.0.1:1"),
        ("MPI_CONNECT_NAMING", "tcp://::1"),
        ("MPI_CONNECT_METADATA", "grid"),
        ("MPI_CONNECT_TIMEOUT", "soon"),
        ("MPI_CONNECT_PORTRANGE", "9-1"),
        ("MPI_CONNECT_IFACE", "nosuch0"),
        ("MPI_CONNECT_LANES", "shm;tcp"),
    ] {
        let (code, said) = doctor(&dir.0, &[(name, value)]);
        assert!(code == 1 && said.contains(" ! ") && said.contains("to mend it"), "{name}={value}: {code} {said}");
    }
    let (code, said) = doctor(&dir.0, &[("MPI_CONNECT_TIMEOT", "5")]);
    assert!(code == 0 && said.contains("MPI_CONNECT_TIMEOUT was perhaps meant"), "{said}");
}

/// A launcher that another program starts would be preloaded into itself.
#[test]
fn a_launcher_behind_a_wrapper_is_told_of() {
    let told = |words: &[&str]| {
        let mut c = command(&["run", "--print", "--"]);
        let o = c.args(words).output().unwrap();
        assert!(o.status.success(), "{}", text(&o));
        String::from_utf8(o.stderr).unwrap()
    };
    let said = told(&["env", "A=1", "mpirun.lam", "-np", "2", "./a"]);
    assert!(said.contains("put 'mpi-connect run --' directly before mpirun.lam"), "{said}");
    assert_eq!(told(&["env", "A=1", "./a"]), "");
}

/// What starts its command elsewhere takes no library along.
#[test]
fn what_starts_ranks_elsewhere_is_told_of() {
    let dir = Folder::new();
    let told = |name: &str, words: &[&str]| {
        let program = dir.0.join(name);
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut c = command(&["run", "--print", "--", program.to_str().unwrap()]);
        let o = c.args(words).output().unwrap();
        assert!(o.status.success(), "{}", text(&o));
        String::from_utf8(o.stderr).unwrap()
    };
    let said = told("ssh", &["node1", "mpirun", "-n", "4", "./air"]);
    assert!(
        said.starts_with("mpi-connect: the ranks will not have the library: ssh starts its command on another"),
        "{said}"
    );
    assert!(said.trim().ends_with("/ssh node1 mpi-connect run -- mpirun -n 4 ./air"), "{said}");
    for name in ["qsub", "sbatch"] {
        let said = told(name, &["job.sh"]);
        assert!(said.contains("put 'mpi-connect run --' into the script, directly before mpirun or srun"), "{said}");
    }
    assert!(told("docker", &["run", "image", "./air"]).contains("in a container"));
    assert_eq!(told("air", &[]), "");
}

/// Settings that mean nothing are told with the nearest right ones, and the job is started all the same.
#[test]
fn settings_that_mean_nothing_are_told_of() {
    let mut c = command(&["run", "--print", "--", "sh"]);
    c.envs([("MPI_CONNECT_TIMEOT", "5"), ("MPI_CONNECT_LANES", "shmm"), ("MPI_CONNECT_TUNE_TCP_SOCKETS", "99")]);
    c.envs([("MPI_CONNECT_TEST_SEED", "1"), ("MPI_CONNECT_ADOPT", "1")]);
    let o = c.output().unwrap();
    assert!(o.status.success());
    assert_eq!(
        String::from_utf8(o.stderr).unwrap(),
        "mpi-connect: MPI_CONNECT_LANES=shmm means nothing: 'shmm' is none of its words; shm, verbs, router, tcp, relay are expected, one or several \
         with commas between; 'shm' was perhaps meant\n\
         mpi-connect: MPI_CONNECT_TIMEOT means nothing; MPI_CONNECT_TIMEOUT was perhaps meant\n\
         mpi-connect: MPI_CONNECT_TUNE_TCP_SOCKETS=99 means nothing: a number from 1 to 16 is expected\n"
    );
}

/// A record of another release is shown as what it is.
#[test]
fn other_versions_are_shown() {
    let dir = Folder::new();
    let url = format!("file:{}", dir.0.display());
    let claim = open(&url, "").claim(&record("ocean")).unwrap();
    let mut bytes = fs::read(dir.0.join("ocean.job")).unwrap();
    drop(claim);
    bytes[8] = 1;
    fs::write(dir.0.join("ocean.job"), bytes).unwrap();
    let out = good(command(&["names", "--naming", &url]));
    let line: Vec<_> =
        out.lines().nth(1).unwrap_or_default().split("  ").map(str::trim).filter(|w| !w.is_empty()).collect();
    assert_eq!(line[..5], ["ocean", "job", "version 1", "-", "written by an older mpi_connect"], "{out}");
    let json: serde_json::Value = serde_json::from_str(&good(command(&["names", "--naming", &url, "--json"]))).unwrap();
    assert_eq!((&json[0]["state"], &json[0]["version"]), (&"other version".into(), &1.into()));
}

/// Two jobs that are joined are shown as that while both hold.
#[test]
fn couplings_are_shown() {
    let dir = Folder::new();
    let url = format!("file:{}", dir.0.display());
    let store = open(&url, "");
    let half = |name: &str, other: &str| {
        let half = naming::Record { coupled: Some(other.into()), ..record(name) };
        store.note(&half).unwrap()
    };
    let (air, ocean) = (half("air", "ocean"), half("ocean", "air"));
    let out = good(command(&["names", "--naming", &url]));
    assert!(out.lines().count() == 2 && out.contains("\nair - ocean  coupling  live   3 - 3  Some MPI"), "{out}");
    let json: serde_json::Value = serde_json::from_str(&good(command(&["names", "--naming", &url, "--json"]))).unwrap();
    assert_eq!(
        (&json[0]["kind"], &json[0]["jobs"][1], &json[0]["ranks"][0]),
        (&"coupling".into(), &"ocean".into(), &3.into())
    );
    drop(ocean);
    assert!(good(command(&["names", "--naming", &url])).starts_with("no names in"));
    drop(air);
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 0);
}

/// The likeliest reason why two jobs do not meet.
#[test]
fn a_folder_that_nobody_made_is_told_of_and_not_made() {
    let dir = Folder::new();
    let folder = dir.0.join("tpyo");
    let url = format!("file:{}", folder.display());
    let (code, said) = doctor(&dir.0, &[("MPI_CONNECT_NAMING", &url)]);
    assert!(code == 0 && said.contains("naming: there is no such folder yet"), "{said}");
    let said = good(command(&["names", "--naming", &url]));
    assert_eq!(said, format!("no names in {url}: there is no such folder yet\n"));
    assert!(!folder.exists());
}

#[test]
fn doctor_of_what_is_no_program() {
    let dir = Folder::new();
    let doctor = |name: &str| {
        let mut c = command(&["doctor", name]);
        c.env("MPI_CONNECT_NAMING", format!("file:{}", dir.0.display())).current_dir(&dir.0);
        ended(c)
    };
    let (code, said) = doctor("/etc/passwd");
    assert!(code == 1 && said.contains("no program") && !said.contains("what that starts"), "{said}");
    fs::write(dir.0.join("go"), "#!/bin/sh\n./a\n").unwrap();
    let (code, said) = doctor("./go");
    assert!(code == 0 && said.contains("what that starts has to be asked about"), "{said}");
}

#[test]
fn doctor_looks_for_every_launcher() {
    let dir = Folder::new();
    let (_, said) = doctor(&dir.0, &[]);
    for word in ["mpirun.openmpi", "mpirun.mpich", "mpiexec.mpich", "mpirun.lam"] {
        assert!(!is_here(word) || said.contains(&format!("/{word} ")), "{word}: {said}");
    }
}

/// A key is made, shown by its identifier, exchanged and found, and never written out.
#[test]
fn keys_are_shown_by_their_identifiers() {
    let folder = Folder::new();
    let path = folder.0.join("below/key");
    let setting = format!("file:{}", path.display());
    let key = |args: &[&str]| {
        let mut c = command(&[&["key"], args].concat());
        c.env("MPI_CONNECT_KEY", &setting);
        ended(c)
    };
    assert_eq!(key(&["path"]), (0, format!("{}\n", path.display())));
    let (code, said) = key(&["show"]);
    assert!(code == 1 && said.contains(path.to_str().unwrap()), "there is none, and it makes none: {said}");
    let (code, first) = key(&["new"]);
    assert!(code == 0 && first.contains("key: ") && !first.contains("accepted too"), "{first}");
    let (_, second) = key(&["new"]);
    assert!(second.contains("accepted too: ") && second != first, "{second}");
    assert_eq!(key(&["show"]).1, second);
    let secrets = fs::read_to_string(&path).unwrap();
    let secrets: Vec<&str> = secrets.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(secrets.len() == 2 && secrets.iter().all(|secret| !second.contains(secret)), "{second}");
    let doctor = |more: &[&str]| {
        let mut c = command(&[&["doctor", "-v"], more].concat());
        c.env("MPI_CONNECT_KEY", &setting).env("MPI_CONNECT_NAMING", format!("file:{}", folder.0.join("n").display()));
        ended(c).1
    };
    let identifier = second.lines().find_map(|line| line.strip_prefix("key: ")).unwrap();
    let said = doctor(&[]);
    assert!(said.contains(identifier) && said.contains("what leaves the host is encrypted"), "{said}");
    let said: serde_json::Value = serde_json::from_str(&doctor(&["--json"])).unwrap();
    assert_eq!(said["key"]["identifier"], identifier, "{said}");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let said = doctor(&[]);
    assert!(said.contains(" ! key: ") && said.contains("chmod 600"), "{said}");
    let (code, said) = key(&["show"]);
    assert!(code == 1 && said.contains("chmod 600"), "{said}");
    assert_eq!(ended(command(&["key", "show", "--key", "/no/such/form"])).0, 2);
    // A job gets it by name, from wherever the user stands.
    let mut c = command(&["run", "--print", "--key", "file:k", "--", "sh"]);
    c.current_dir(&folder.0);
    let (_, said) = ended(c);
    assert!(said.contains("MPI_CONNECT_KEY=file:/") && said.contains("/k"), "{said}");
}

/// An output that cannot be written is an error of each command that prints; one that nobody reads is not.
#[test]
fn an_output_that_cannot_be_written_is_told() {
    let folder = Folder::new();
    let naming = format!("file:{}", folder.0.join("names").display());
    let key = format!("file:{}", folder.0.join("k").display());
    let checkpoints = folder.0.to_str().unwrap();
    let prints: [&[&str]; 7] = [
        &["names", "--naming", &naming],
        &["names", "--json", "--naming", &naming],
        &["key", "path", "--key", &key],
        &["doctor"],
        &["doctor", "--json"],
        &["checkpoint", "ls", checkpoints],
        &["run", "--print", "--", "sh"],
    ];
    for words in prints {
        let mut full = command(words);
        full.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let (code, said) = ended_as(full);
        assert!(code == 1 && said.contains("the output cannot be written: No space left"), "{words:?}: {code}: {said}");
        // The end that reads is closed before anything is written.
        let (reads, writes) = std::io::pipe().unwrap();
        drop(reads);
        let mut closed = command(words);
        closed.stdout(writes);
        let (_, said) = ended_as(closed);
        assert!(!said.contains("cannot be written") && !said.contains("panicked"), "{words:?}: {said}");
    }
}

/// A command that fails has its own exit code also where nobody can be told why.
#[test]
fn a_refusal_that_cannot_be_written_keeps_its_exit_code() {
    let folder = Folder::new();
    let naming = format!("file:{}", folder.0.join("names").display());
    let nowhere = folder.0.join("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    let no_folder = format!("file:{nowhere}/key");
    let long = format!("air:{}", "x".repeat(4097));
    let fails: [(i32, &[&str]); 16] = [
        (127, &["run", "--", "no-such-launcher"]),
        (2, &["run", "--cores", "x", "--", "sh"]),
        (2, &["launch", nowhere]),
        (2, &["names", "--naming", "x"]),
        (1, &["ctl", "nobody", "lanes", "--naming", &naming]),
        (2, &["ctl", "nobody", "lanes", "--naming", "x"]),
        (1, &["top", "nobody", "--naming", &naming]),
        (2, &["cp", "a", "b"]),
        (2, &["cp", &long, "b"]),
        (1, &["checkpoint", "ls", nowhere]),
        (2, &["serve", "--key", "/no/such/form"]),
        (2, &["relay", "--key", "/no/such/form"]),
        (2, &["serve", "--key", &no_folder]),
        (2, &["relay", "--key", &no_folder]),
        (2, &["key", "show", "--key", "/no/such/form"]),
        (2, &["no-such-command"]),
    ];
    for (code, words) in fails {
        let (ends, said) = ended(command(words));
        assert!(ends == code && !said.is_empty(), "{words:?}: {ends}: {said}");
        let mut full = command(words);
        full.stderr(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let done = full.status().unwrap();
        assert_eq!(done.code(), Some(code), "{words:?}");
        let mut closed = command(words);
        closed.stderr(std::io::pipe().unwrap().1);
        let done = closed.status().unwrap();
        assert_eq!(done.code(), Some(code), "{words:?}");
    }
    // What is only told does not keep a command from going on.
    let mut c = command(&["run", "--", "sh", "-c", "exit 3"]);
    c.env("MPI_CONNECT_NO_SUCH_SETTING", "1").stderr(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    assert_eq!(c.status().unwrap().code(), Some(3));
}

/// The exit code of a command whose standard output is set, and what it says on standard error.
fn ended_as(mut c: Command) -> (i32, String) {
    let o = c.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    (o.status.code().unwrap(), text(&o))
}

#[test]
fn a_command_that_does_not_exist_is_told_which_do() {
    let (code, said) = ended(command(&["ctl", "air", "swich", "tcp"]));
    assert!(code == 2 && said.contains("'swich'") && said.contains("there are lanes, switch, hold, resume"), "{said}");
    let mut c = command(&["ctl", "air", "rest", "--json"]);
    let out = c.stdout(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("unexpected argument 'rest' found: there are lanes"), "{said}");
    let (code, said) = ended(command(&["lanes"]));
    assert!(code == 2 && said.contains("names, ctl, top"), "{said}");
}

/// A published port has a name among those of jobs, and no commands.
#[test]
fn a_port_is_told_as_that() {
    let dir = Folder::new();
    let url = format!("file:{}", dir.0.join("names").display());
    let _claim = open(&url, "").claim(&naming::Record { port: Some("a port".into()), ..record("svc15") }).unwrap();
    for args in [&["ctl", "svc15", "lanes", "--naming", &url][..], &["top", "svc15", "--once", "--naming", &url]] {
        let (code, said) = ended(command(args));
        assert!(code == 1 && said.contains("no job 'svc15'") && said.contains("that is a published port"), "{said}");
    }
}

/// Why nobody has a name: no folder, a dead job, or neither.
#[test]
fn a_name_that_nobody_has_is_told_with_the_reason() {
    let dir = Folder::new();
    let names = dir.0.join("names");
    let url = format!("file:{}", names.display());
    let look = || ended(command(&["ctl", "air", "lanes", "--naming", &url]));
    let (code, said) = look();
    assert!(code == 1 && said.contains("no job 'air'") && said.contains("there is no such folder yet"), "{said}");
    let claim = open(&url, "").claim(&naming::Record { pid: 77, host: "node1".into(), ..record("air") }).unwrap();
    // A process that dies gives nothing back: the kernel drops its lock, and the record stays.
    let files = || std::fs::read_dir(&names).unwrap().flatten().map(|file| file.path());
    let kept: Vec<_> = files().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    drop(claim);
    let (_, said) = look();
    assert!(said.contains("`mpi-connect names` shows those that are there"), "{said}");
    kept.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    let (code, said) = look();
    assert!(code == 1 && said.contains("its name is left over from process 77 on node1, which is dead"), "{said}");
}

#[test]
fn a_wrong_setting_of_the_names_is_a_wrong_command_line() {
    let words: [&[&str]; 5] = [
        &["names"],
        &["ctl", "air", "lanes"],
        &["ctl", "air", "lanes", "--json", "--watch"],
        &["top", "air", "--once"],
        &["cp", "air:x", "."],
    ];
    for words in words {
        let (code, said) = ended(command(&[words, &["--naming", "foo"]].concat()));
        assert!(code == 2 && said.contains("'foo' is no naming URL"), "{words:?}: {code}: {said}");
    }
    let (code, said) = ended(command(&["ctl", "air", "lanes", "--every", "2"]));
    assert!(code == 2 && said.contains("--watch"), "it says something of --watch alone: {said}");
}

/// The command, as this line of the shell starts it. Whoever runs the tests may ignore signals.
fn behind(line: &str, c: &Command) -> Command {
    let mut shell = Command::new("env");
    shell.args(["--default-signal=HUP,INT,TERM", "sh", "-c", line, "sh"]).arg(c.get_program()).args(c.get_args());
    for (name, value) in c.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// What `look` finds, in a minute at most.
fn awaited<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "{what}");
        sleep(Duration::from_millis(2));
    }
}

/// A copy that a signal ends tells by its status which one; what nohup has had ignored ends none.
#[test]
fn a_copy_that_is_ended_tells_the_signal() {
    let dir = Folder::new();
    let url = format!("file:{}", dir.0.join("names").display());
    // A leader that says nothing.
    let leader = TcpListener::bind("127.0.0.1:0").unwrap();
    leader.set_nonblocking(true).unwrap();
    let mut record = record("air");
    let contact = transports::registry::at_addresses([1; 16], [0; 16], &[leader.local_addr().unwrap()]);
    contact.encode(&mut record.leader);
    let _claim = open(&url, "").claim(&record).unwrap();
    let each = [
        ("exec \"$@\"", &[Signal::SIGINT][..], 130),
        ("exec \"$@\"", &[Signal::SIGTERM], 143),
        ("exec \"$@\"", &[Signal::SIGHUP], 129),
        ("trap '' HUP; exec \"$@\"", &[Signal::SIGHUP, Signal::SIGTERM], 143),
    ];
    for (script, signals, code) in each {
        let cp = command(&["cp", "air:x", ".", "--naming", &url, "--timeout", "1000"]);
        let mut c = behind(script, &cp);
        c.current_dir(&dir.0);
        let mut child = c.stderr(Stdio::piped()).spawn().unwrap();
        // When it dials, it waits for signals.
        let _line = awaited("a copy that dials", || leader.accept().ok());
        let pid = Pid::from_raw(child.id() as i32);
        signals.iter().for_each(|signal| kill(pid, *signal).unwrap());
        awaited("the end of a copy", || child.try_wait().unwrap());
        let done = child.wait_with_output().unwrap();
        let said = text(&done);
        let last = signals.last().unwrap();
        assert_eq!(done.status.code(), Some(code), "{said}");
        assert!(said.ends_with(&format!("ended by {last}; nothing of the file is left\n")), "{said}");
    }
}
