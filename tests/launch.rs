//! `mpi-connect launch` as a user runs it, with commands in place of launchers: what is printed, what is refused, and how it ends.

mod kit;

use kit::{ended, good, open, text};
use naming::Record;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let dir = std::env::temp_dir().join(format!("launch-{:016x}", u64::from_le_bytes(base::ident::random())));
        fs::create_dir(&dir).unwrap();
        Folder(fs::canonicalize(dir).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Stands in for the library: harmless, and surely loadable.
fn library() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|l| l.contains("/libc.so") || l.contains("/libc-")).unwrap();
    fs::canonicalize(&line[line.find('/').unwrap()..]).unwrap().to_str().unwrap().into()
}

fn launch(folder: &Path, manifest: &str, words: &[&str]) -> Command {
    fs::write(folder.join("coupled.toml"), manifest).unwrap();
    let mut c = kit::command(&["launch"]);
    c.args(words).arg("coupled.toml").current_dir(folder).env("MPI_CONNECT_LIB", library());
    c.env_remove("LD_PRELOAD").env("MPI_CONNECT_NAMING", format!("file:{}", folder.join("names").display()));
    c
}

/// A job of one process: what a shell does.
fn job(name: &str, script: &str, more: &str) -> String {
    format!("[job.{name}]\nlauncher = '{{program}}'\nranks = 1\nprogram = ['sh', '-c', '''{script}''']\n{more}\n")
}

#[test]
fn commands_are_shown() {
    let dir = Folder::new();
    let manifest = "run = 'case7'\n".to_owned() + &job("air", "true", "env = { A = 'b' }");
    let mut c = launch(&dir.0, &manifest, &["--dry-run"]);
    c.env("PMI_RANK", "3");
    let (folder, said) = (dir.0.display(), good(c));
    let line = said.lines().nth(1).unwrap();
    assert!(line.starts_with(&format!("cd {folder} && env -u PMI_RANK")), "{line}");
    let end = format!(" run --naming file:{folder}/names --run case7 --env A -- sh -c true");
    assert!(line.contains(" A=b ") && line.ends_with(&end), "{line}");
    // What is shown can be typed.
    let done = Command::new("sh").args(["-c", line]).env("MPI_CONNECT_LIB", library()).output().unwrap();
    assert!(done.status.success(), "{}", text(&done));
}

/// A path of a launcher counts from the job's directory, as that of a program does, wherever the command is called.
#[test]
fn a_launcher_is_found_from_the_jobs_directory() {
    let dir = Folder::new();
    let script = |folder: &Path, status: u8| {
        fs::create_dir_all(folder).unwrap();
        let file = folder.join("lau.sh");
        fs::write(&file, format!("#!/bin/sh\nshift; [ {status} = 0 ] && exec \"$@\"; exit {status}\n")).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script(&dir.0, 0);
    script(&dir.0.join("sub"), 5);
    fs::create_dir(dir.0.join("none")).unwrap();
    let manifest = |more: &str| job("air", "true", more).replace("'{program}'", "'./lau.sh {ranks} {program}'");
    let path = dir.0.join("coupled.toml");
    for (more, code) in [("", 0), ("directory = 'sub'", 5), ("directory = 'none'", 2)] {
        for from in [&*dir.0, Path::new("/")] {
            fs::write(&path, manifest(more)).unwrap();
            let mut c = kit::command(&["launch", path.to_str().unwrap()]);
            c.current_dir(from).env("MPI_CONNECT_LIB", library()).env_remove("LD_PRELOAD");
            c.env("MPI_CONNECT_NAMING", format!("file:{}", dir.0.join("names").display()));
            let (status, said) = ended(c);
            assert_eq!(status, code, "{more} {}: {said}", from.display());
            assert_eq!(said.contains("no program "), code == 2, "{said}");
        }
    }
}

#[test]
fn bad_manifests_are_refused_with_all_that_is_wrong() {
    let dir = Folder::new();
    let refused = |manifest: &str| {
        let (code, said) = ended(launch(&dir.0, manifest, &[]));
        assert_eq!(code, 2, "{said}");
        said
    };
    let said = refused("[job.air]\nrank = 2\nlauncher = 'mpirun.none'\nprogram = './none'\n");
    assert_eq!(
        said,
        "coupled.toml:1: job 'air': 'ranks' is missing, such as ranks = 2\n\
         coupled.toml:2: job 'air': there is no key 'rank'; 'ranks' was perhaps meant\n\
         mpi-connect: nothing is started: 2 problems in coupled.toml\n"
    );
    let said = refused("[job.air]\nranks = 2\nlauncher = 'mpirun.none'\nprogram = './none'\n");
    assert!(said.contains("coupled.toml:3: job 'air': launcher: no program 'mpirun.none' in PATH; "), "{said}");
    assert!(said.contains(&format!("there is no program ./none in {}", dir.0.display())), "{said}");
    let twice = [job("air", "true", ""), job("air", "true", "")].concat();
    assert!(refused(&twice).starts_with("coupled.toml:6: two jobs are called air; "), "{}", refused(&twice));
    let several = job("air", "true", "").replace("ranks = 1", "ranks = 4");
    assert!(refused(&several).contains("without a launcher one process is started, so ranks = 1"));
    let many = job("air", "true", "cores = 5000");
    assert!(refused(&many).contains("too many cores: 'air' 5000 make 5000, and "), "{}", refused(&many));
    // The key may be made; its folder is not.
    let keyed = |key: &str| format!("run = 'a'\nkey = 'file:{key}'\n") + &job("air", "true", "");
    let said = refused(&keyed("none/key"));
    assert!(said.starts_with(&format!("coupled.toml:2: key: there is no folder {}/none\n", dir.0.display())), "{said}");
    let text = good(launch(&dir.0, &keyed("key"), &["--dry-run"]));
    assert!(text.contains(&format!(" --key file:{}/key ", dir.0.display())), "{text}");
    let (code, said) = ended(kit::command(&["launch", "/nowhere.toml"]));
    assert!(code == 2 && said.contains("reading /nowhere.toml: "), "{code} {said}");
    assert_eq!(ended(kit::command(&["launch"])).0, 2);
}

/// Lines stay whole, say whose they are, and go where the job has written them.
#[test]
fn output_is_told_apart() {
    let dir = Folder::new();
    let manifest = [
        job("air", "seq 20000; printf end", "directory = '.'\nenv = { A = 'of the manifest' }"),
        job("ocean", "echo $A, $(pwd) >&2; printf error >&2", "env = { A = 'of the ocean' }\ndirectory = '/'"),
    ];
    let done = launch(&dir.0, &manifest.concat(), &[]).output().unwrap();
    let (out, err) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    assert!(done.status.success(), "{err}");
    let want: String = (1..=20000).map(|n| format!("[air 0] {n}\n")).chain(["[air 0] end\n".into()]).collect();
    assert!(out == want, "{} bytes", out.len());
    assert!(err.contains("[ocean 0] of the ocean, /\n") && err.contains("[ocean 0] error\n"), "{err}");
    assert!(err.ends_with("mpi-connect: all jobs have ended well\n"), "{err}");
}

/// Jobs do not notice that what they print cannot be written, or that nobody reads it; the command says the first, and fails by it.
#[test]
fn an_output_that_cannot_be_written_fails_the_launch() {
    let dir = Folder::new();
    let manifest = |code: u8| job("air", &format!("seq 100000 && touch done; echo bad >&2; exit {code}"), "");
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let closed = || std::io::pipe().unwrap().1;
    let ends = |c: &mut Command, want: i32| {
        let done = c.spawn().unwrap().wait_with_output().unwrap();
        let said = text(&done);
        assert_eq!(done.status.code(), Some(want), "{said}");
        fs::remove_file(dir.0.join("done")).expect("the job has run to its end");
        assert!(!said.contains("panicked"), "{said}");
        said
    };
    const TOLD: &str = "mpi-connect: the output cannot be written: No space left on device (os error 28)\n";
    for (words, code) in [(&[][..], 0), (&["--json"], 0), (&[], 3)] {
        let mut c = launch(&dir.0, &manifest(code), words);
        let said = ends(c.stdout(full()).stderr(Stdio::piped()), code.max(1).into());
        assert_eq!(said.matches(TOLD).count(), 1, "{said}");
        if words.is_empty() {
            assert!(said.contains("[air 0] bad\n") && !said.contains("have ended well\n"), "{said}");
        }
    }
    let mut c = launch(&dir.0, &manifest(0), &[]);
    ends(c.stdout(full()).stderr(full()), 1);
    let mut c = launch(&dir.0, &manifest(0), &[]);
    let said = ends(c.stdout(closed()).stderr(Stdio::piped()), 0);
    assert!(
        said.ends_with("[air 0] bad\nmpi-connect: air has ended\nmpi-connect: all jobs have ended well\n"),
        "{said}"
    );
    let mut c = launch(&dir.0, &manifest(0), &[]);
    ends(c.stdout(closed()).stderr(closed()), 0);
}

#[test]
fn events_are_objects() {
    let dir = Folder::new();
    let manifest = job("air", "echo it; exit 3", "restart = 'alone'\nrestarts = 1");
    let (code, said) = ended(launch(&dir.0, &manifest, &["--json"]));
    let events: Vec<serde_json::Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["started", "output", "exited", "restarting", "restarted", "output", "exited", "ended"],
        "{said}"
    );
    // The command can be typed.
    let command = events[0]["command"].as_str().unwrap();
    assert!(command.ends_with(" -- sh -c 'echo it; exit 3'"), "{command}");
    assert_eq!((code, &events[1]["line"], &events[1]["rank"]), (3, &"it".into(), &0.into()));
    assert_eq!((&events[2]["status"], &events[4]["attempt"], &events[7]["status"]), (&3.into(), &1.into(), &3.into()));
}

#[test]
fn the_first_failure_is_the_exit_status_and_ends_the_others() {
    let dir = Folder::new();
    let lasting = job("ocean", "trap 'echo told; exit 5' TERM; while :; do sleep 0.05; done", "");
    let manifest = [job("air", "exit 3", ""), lasting].concat();
    let (code, said) = ended(launch(&dir.0, &manifest, &[]));
    assert!(code == 3 && said.contains("mpi-connect: all jobs are ended: air has died\n"), "{code} {said}");
    assert!(said.contains("mpi-connect: the first to fail was air, with status 3\n"), "{said}");
    // One that takes no notice is killed, with all that it has started.
    let deaf = job("ocean", "trap '' TERM; touch deaf; sleep 61 & sleep 62; wait", "");
    let manifest =
        ["grace = 0.3\n".into(), job("air", "until [ -e deaf ]; do sleep 0.02; done; kill -9 $$", ""), deaf].concat();
    let (code, said) = ended(launch(&dir.0, &manifest, &[]));
    assert!(code == 137 && said.contains("ocean has not ended in time: "), "{code} {said}");
    // With nobody to be ended, each goes its way.
    let manifest =
        ["on-death = 'keep'\n".into(), job("air", "exit 3", ""), job("ocean", "sleep 0.3; echo done", "")].concat();
    let (code, said) = ended(launch(&dir.0, &manifest, &[]));
    assert!(code == 3 && said.contains("[ocean 0] done\n"), "{code} {said}");
}

#[test]
fn who_comes_after_another_is_started_when_that_has_ended_well() {
    let dir = Folder::new();
    let manifest =
        [job("late", "cat sign", "after = 'first'"), job("first", "sleep 0.2; echo there > sign", "")].concat();
    let (code, said) = ended(launch(&dir.0, &manifest, &[]));
    assert!(code == 0 && said.contains("[late 0] there\n"), "{code} {said}");
}

/// Stands in for `ssh`: words behind the host are a shell's, with an environment of their own.
fn ssh(folder: &Path) -> String {
    let (home, path) = (env!("CARGO_TARGET_TMPDIR"), std::env::var("PATH").unwrap());
    let text = format!(
        "#!/bin/sh\necho \"to $1\" >&2\nshift\nexec env -i HOME={home}/home PATH={path} MPI_CONNECT_LIB={} sh -c \"$*\"\n",
        library()
    );
    fs::write(folder.join("ssh"), text).unwrap();
    fs::set_permissions(folder.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    format!("ssh = '{}/ssh'\n", folder.display())
}

#[test]
fn a_job_runs_on_another_host() {
    let dir = Folder::new();
    let place = ssh(&dir.0) + &format!("naming = 'file:{}/names'\n", dir.0.display());
    let script = "echo $A; pwd >&2; echo $PMI_RANK; printf end; exit 7";
    let there = job("air", script, "host = 'node1'\nenv = { A = 'it\"s' }");
    let mut c = launch(&dir.0, &[place.clone(), there, job("ocean", "sleep 20", "")].concat(), &[]);
    c.env("PMI_RANK", "3");
    let (code, said) = ended(c);
    let lines =
        ["[air 0] it\"s\n[air 0] \n[air 0] end\n", "[air] to node1\n", "mpi-connect: air has ended with status 7\n"];
    assert!(code == 7 && lines.iter().all(|line| said.contains(line)), "{code} {said}");
    assert!(said.contains(&format!("[air 0] {}\n", dir.0.display())), "{said}");
    // A line that is longer as an event than any line may be.
    let long = "head -c 1000000 /dev/zero | tr '\\0' '\\001'";
    let said = good(launch(&dir.0, &[place.clone(), job("air", long, "host = 'node1'")].concat(), &[]));
    assert_eq!(said.len(), "[air 0] ".len() + 1_000_000 + 1);
    // Signals go there, and so does the end.
    let deaf = "trap 'echo told' TERM; echo here; while :; do sleep 0.05; done";
    let manifest = [place, "grace = 0.4\n".into(), job("air", deaf, "host = 'node1'")].concat();
    let mut child = launch(&dir.0, &manifest, &[]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "[air 0] here");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(lines.next().unwrap(), "[air 0] told");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let refused = |more: &str| ended(launch(&dir.0, &job("air", "true", &format!("host = 'node1'\n{more}")), &[])).1;
    assert!(refused("cores = 2").contains("cores: on another host a list is needed, such as \"0-3\""));
    let mut c = launch(&dir.0, &job("air", "true", "host = 'node1'"), &[]);
    let (code, said) = ended({
        c.env_remove("MPI_CONNECT_NAMING");
        c
    });
    assert!(code == 2 && said.contains("jobs on several hosts need a place for names that all reach"), "{said}");
}

#[test]
fn a_script_for_slurm_is_written() {
    let dir = Folder::new();
    let ocean = job("ocean", "true", "slurm = { nodes = 1, partition = 'big' }");
    let manifest = ["slurm = { time = '10' }\n".to_owned(), job("air", "true", ""), ocean].concat();
    let said = good(launch(&dir.0, &manifest, &["--sbatch", "--run", "case7"]));
    let asked = "#SBATCH --job-name=coupled\n#SBATCH --signal=B:TERM@60\n#SBATCH --time=10\n#SBATCH --ntasks=1\n#SBATCH hetjob\n\
                 #SBATCH --time=10\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --partition=big\n\nexec ";
    let end = format!(" launch --run case7 {}/coupled.toml\n", dir.0.display());
    assert!(said.starts_with(&format!("#!/bin/bash\n{asked}")) && said.ends_with(&end), "{said}");
    let mut c = launch(&dir.0, &manifest, &["--sbatch"]);
    c.env_remove("MPI_CONNECT_NAMING");
    let (code, said) = ended(c);
    assert!(code == 2 && said.contains("need a place for names that all reach"), "{said}");
    // Elsewhere the same manifest runs as if it said nothing of it.
    let said = launch(&dir.0, &manifest, &[]).env_remove("SLURM_JOB_ID").output().unwrap();
    assert!(said.status.success() && text(&said).contains("this is no allocation of Slurm"), "{}", text(&said));
}

#[test]
fn nodes_of_an_allocation_are_divided() {
    let dir = Folder::new();
    let job = |name: &str| {
        job(name, "echo $@", "slurm = { nodes = 1 }").replace("'{program}'", "'env {program} {ranks} on {nodes}'")
    };
    let inside = |nodes: &str| {
        let mut c = launch(&dir.0, &[job("air"), job("ocean")].concat(), &[]);
        c.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", nodes).env_remove("SLURM_HET_SIZE");
        ended(c)
    };
    let (code, said) = inside("n[08-09]");
    assert!(code == 0 && said.contains("[air 0] on n08\n") && said.contains("[ocean 0] on n09\n"), "{code} {said}");
    let (code, said) = inside("n0");
    assert!(code == 2 && said.contains("too few nodes: 'air' 1, 'ocean' 1 make 2, and there are 1"), "{said}");
}

#[test]
fn cores_do_not_overlap() {
    let dir = Folder::new();
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned();
    if !allowed.contains([',', '-']) {
        return println!("NOT CHECKED: one core only");
    }
    let script = "grep Cpus_allowed_list /proc/self/status";
    let manifest = [job("air", script, "cores = 1"), job("ocean", script, "cores = 1")].concat();
    let said = good(launch(&dir.0, &manifest, &[]));
    let mut cores: Vec<&str> = said.lines().filter_map(|line| line.split_whitespace().last()).collect();
    cores.sort();
    cores.dedup();
    assert!(cores.len() == 2 && cores.iter().all(|core| core.parse::<u32>().is_ok()), "{said}");
}

/// Is killed if the test ends before it.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `--status` of it has this text, which is returned whole.
fn status_with(of: &str, what: &str) -> String {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let said = text(&kit::command(&["launch", "--status", of]).output().unwrap());
        if said.contains(what) {
            return said;
        }
        assert!(Instant::now() < until, "{said}");
    }
}

/// A run may have jobs that others have started, called as ours are: only what ours do is told.
#[test]
fn names_of_other_jobs_of_the_run_are_not_told() {
    let dir = Folder::new();
    let manifest = "run = 'case7'\n".to_owned() + &job("air", "echo $$; while [ ! -e end ]; do sleep 0.02; done", "");
    let mut child = Started(launch(&dir.0, &manifest, &["--json"]).stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut events = lines.map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
    let output = events.find(|event| event["event"] == "output").unwrap();
    let rank = output["line"].as_str().unwrap().parse::<u32>().unwrap();
    let store = open(&format!("file:{}", dir.0.join("names").display()), "case7");
    let claim = |name: &str, pid: u32, other: Option<(&str, u64)>| {
        let (coupled, incarnation) = other.map_or((None, 0), |(name, number)| (Some(name.into()), number));
        store.claim(&Record { incarnation, pid, coupled, host: naming::host(), ..Record::new(name) }).unwrap()
    };
    let other = std::process::id();
    let mut held = vec![claim("air", other, None), claim("ice", other, None)];
    held.extend([claim("air", other, Some(("ice", 1))), claim("ice", other, Some(("air", 1)))]);
    held.push(claim("wind", rank, None));
    let registered = events.next().unwrap();
    assert_eq!((&registered["event"], &registered["name"]), (&"registered".into(), &"wind".into()), "{registered}");
    held.extend([claim("wind", rank, Some(("air", 2))), claim("air", other, Some(("wind", 2)))]);
    let joined = events.next().unwrap();
    assert_eq!(
        (&joined["event"], &joined["jobs"]),
        (&"joined".into(), &serde_json::json!(["air", "wind"])),
        "{joined}"
    );
    fs::write(dir.0.join("end"), "").unwrap();
    assert_eq!(events.last().unwrap()["status"], 0);
}

/// A launch whose output nobody reads is told to end, and ends.
#[test]
fn a_launch_that_nobody_reads_obeys() {
    let dir = Folder::new();
    let manifest = ["grace = 0.3\n".into(), job("air", "trap '' TERM; while :; do seq 100000; done", "")].concat();
    let mut c = launch(&dir.0, &manifest, &[]);
    let mut child = Started(c.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let path = dir.0.join("coupled.toml");
    let path = path.to_str().unwrap();
    status_with(path, "1 of 1");
    // As much as is kept for the reader has come when the job has to wait: its processor time stands still.
    let time = |pid: u32| {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .unwrap()
            .split(' ')
            .skip(13)
            .take(2)
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let (mut last, mut same, until) = (time(child.0.id()), 0, Instant::now() + Duration::from_secs(60));
    while same < 5 && Instant::now() < until {
        status_with(path, "1 of 1");
        let now = time(child.0.id());
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    kill(Pid::from_raw(child.0.id() as i32), Signal::SIGTERM).unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while child.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it goes on");
        std::thread::yield_now();
    }
    assert_eq!(child.0.wait().unwrap().code(), Some(143));
}

/// Two launches of one run are told apart by their processes; one that is stopped is shown, and not stopped in vain.
#[test]
fn launches_are_named_by_their_processes() {
    let dir = Folder::new();
    let run = format!("run-{}", dir.0.file_name().unwrap().to_str().unwrap());
    let manifest = format!("run = '{run}'\n") + &job("air", "while :; do sleep 0.05; done", "");
    let start = || Started(launch(&dir.0, &manifest, &[]).stderr(Stdio::null()).spawn().unwrap());
    let mut two = [start(), start()];
    let numbers = [0, 1].map(|k: usize| two[k].0.id().to_string());
    numbers.iter().for_each(|number| drop(status_with(number, "1 of 1")));
    let (code, said) = ended(kit::command(&["launch", "--stop", &run]));
    assert!(code == 2 && numbers.iter().all(|number| said.contains(&format!("{number} (run {run})"))), "{code} {said}");
    let pid = Pid::from_raw(two[0].0.id() as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    let (code, said) = ended(kit::command(&["launch", "--stop", &numbers[0]]));
    assert!(code == 1 && said.contains(&format!("the launch of process {pid} does not answer")), "{code} {said}");
    // What it was started with is known all the same.
    let path = dir.0.join("coupled.toml").display().to_string();
    for of in [&run, &path] {
        let (code, said) = ended(kit::command(&["launch", "--stop", of]));
        assert!(
            code == 2 && numbers.iter().all(|number| said.contains(&format!("{number} (run {run})"))),
            "{code} {said}"
        );
    }
    let said = good(kit::command(&["launch", "--status", &path]));
    let line = format!("{path} (run {run}, process {pid}) does not answer: it may be stopped (kill -CONT {pid})\n");
    assert!(said.contains(&line) && said.contains("1 of 1"), "{said}");
    kill(pid, Signal::SIGCONT).unwrap();
    for (child, number) in two.iter_mut().zip(&numbers) {
        good(kit::command(&["launch", "--stop", number]));
        // That of the job, which SIGTERM has ended.
        assert_eq!(child.0.wait().unwrap().code(), Some(143));
    }
}

/// The order to stop is the reason of the end also where the job ends well by it.
#[test]
fn a_launch_that_is_stopped_has_not_ended_well() {
    let dir = Folder::new();
    let manifest = job("air", "trap 'exit 0' TERM; while :; do sleep 0.05; done", "");
    let path = dir.0.join("coupled.toml");
    let path = path.to_str().unwrap();
    for json in [&[][..], &["--json"]] {
        let mut c = launch(&dir.0, &manifest, json);
        let child = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        status_with(path, "1 of 1");
        good(kit::command(&["launch", "--stop", path]));
        let done = child.wait_with_output().unwrap();
        let said = text(&done);
        assert_eq!(done.status.code(), Some(143), "{said}");
        let words =
            if json.is_empty() { "mpi-connect: ended by launch --stop\n" } else { r#""event":"ended","status":143"# };
        assert!(said.contains(words), "{said}");
    }
}

/// The same where the order was given on the host of a job that another one has started there.
#[test]
fn a_job_that_is_stopped_on_its_host_has_not_ended_well() {
    let dir = Folder::new();
    let naming = format!("file:{}/names", dir.0.display());
    let place = ssh(&dir.0) + &format!("naming = '{naming}'\n");
    let script = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    let manifest = [place, job("air", script, "host = 'node1'")].concat();
    let child = launch(&dir.0, &manifest, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let process = loop {
        let told = kit::command(&["launch", "--status", "--json"]).output().unwrap().stdout;
        let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
        let is_there = |launch: &&serde_json::Value| {
            launch["there"] == true && launch["naming"] == naming.as_str() && launch["jobs"][0]["ranks_begun"] == 1
        };
        if let Some(there) = told.as_array().unwrap().iter().find(is_there) {
            break there["pid"].to_string();
        }
        assert!(Instant::now() < until, "{told}");
        std::thread::sleep(Duration::from_millis(20));
    };
    good(kit::command(&["launch", "--stop", &process]));
    let done = child.wait_with_output().unwrap();
    let said = text(&done);
    assert_eq!(done.status.code(), Some(143), "{said}");
    assert!(said.contains("air was stopped on its host; its status is 143\n") && !said.contains("well"), "{said}");
}

/// A launch within a launch, with a job that takes no notice: nothing is left of either.
#[test]
fn a_launch_within_a_launch_ends_with_it() {
    let dir = Folder::new();
    fs::write(
        dir.0.join("inner.toml"),
        job("deep", "trap '' TERM INT; echo $$ > deep; while :; do sleep 0.05; done", ""),
    )
    .unwrap();
    let inner = format!("exec {} launch inner.toml", env!("CARGO_BIN_EXE_mpi-connect"));
    let manifest = ["grace = 0.3\n".into(), job("outer", &inner, "")].concat();
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let _ = fs::remove_file(dir.0.join("deep"));
        let mut child = Started(launch(&dir.0, &manifest, &[]).stderr(Stdio::null()).spawn().unwrap());
        let until = Instant::now() + Duration::from_secs(60);
        let deep = loop {
            if let Ok(pid) = fs::read_to_string(dir.0.join("deep")).unwrap_or_default().trim().parse::<u32>() {
                break pid;
            }
            assert!(Instant::now() < until);
        };
        kill(Pid::from_raw(child.0.id() as i32), signal).unwrap();
        child.0.wait().unwrap();
        while Path::new(&format!("/proc/{deep}/root/")).exists() {
            assert!(Instant::now() < until, "{signal}: the inner job is left");
        }
    }
}

#[test]
fn nothing_runs_and_nothing_is_stopped() {
    for word in ["--status", "--stop"] {
        let (code, said) = ended(kit::command(&["launch", word, "no-such-run"]));
        assert!(
            code == 1 && said == "mpi-connect: no launch of no-such-run is running on this host\n",
            "{code} {said}"
        );
    }
    assert_eq!(good_status().trim(), "[]");
}

fn good_status() -> String {
    let o = kit::command(&["launch", "--status", "--json", "no-such-run"]).output().unwrap();
    text(&o)
}
