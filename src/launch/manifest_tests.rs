use super::*;

const GOOD: &str = r#"
run = "case7"
naming = "file:names"
on-death = "keep"
grace = 2.5
restarts = 1

[job.ocean]
launcher = "mpirun.openmpi --mca 'btl self,vader'"
ranks = 2
program = ["./ocean", "name list"]
cores = "0-1"
restart = "checkpoint"

[job.air]
launcher = "lam-session mpirun.lam -np {ranks} {program}"
ranks = 3
program = "./air"
directory = "runs/air"
env = { OMP_NUM_THREADS = 4, MPI_CONNECT_LOG = "info" }
cores = 2
after = "ocean"
on-death = "end"
restart = "alone"
restarts = 7
"#;

#[test]
fn a_manifest_is_read() {
    let manifest = read(GOOD).unwrap();
    assert_eq!(
        (manifest.run.as_deref(), manifest.naming.as_deref(), manifest.grace),
        (Some("case7"), Some("file:names"), 2.5)
    );
    let [ocean, air] = &manifest.jobs[..] else { panic!("{:?}", manifest.jobs) };
    assert_eq!((ocean.name.as_str(), ocean.at.begin, ocean.ranks), ("ocean", 8, 2), "in the order of the text");
    assert_eq!(ocean.launcher, ["mpirun.openmpi", "--mca", "btl self,vader"]);
    assert_eq!(ocean.program, ["./ocean", "name list"]);
    assert_eq!((ocean.on_death, ocean.restart, ocean.restarts), (OnDeath::Keep, Some(Restart::Checkpoint), 1));
    assert_eq!((air.on_death, air.restart, air.restarts), (OnDeath::End, Some(Restart::Alone), 7));
    assert_eq!((air.cores.clone(), air.after.clone()), (Some(Cores::Some(2)), vec!["ocean".to_owned()]));
    assert_eq!(air.env["OMP_NUM_THREADS"], "4");
    let short = read("[job.air]\nlauncher = 'mpirun'\nranks = 1\nprogram = './air'\n").unwrap();
    assert_eq!((short.grace, short.jobs[0].on_death, short.jobs[0].restarts), (10.0, OnDeath::End, 3));
}

/// What is said of a manifest that is wrong: each line with its number.
fn said(text: &str) -> Vec<String> {
    read(text).unwrap_err().into_iter().map(|problem| format!("{}: {}", problem.line, problem.what)).collect()
}

/// A job with this in it.
fn with(line: &str) -> Vec<String> {
    said(&format!("[job.air]\nlauncher = 'mpirun'\nranks = 2\nprogram = './air'\n{line}\n"))
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let text = "runs = 'x'\ngrace = 'long'\n[job.air]\nlaucher = 'mpirun'\nranks = 0\nprogram = []\nslurm = 'node1'\n[job.ice]\n";
    assert_eq!(
        said(text),
        [
            "1: there is no key 'runs'; 'run' was perhaps meant",
            "2: grace = 'long': a number of seconds is expected",
            "3: job 'air': 'launcher' is missing, such as launcher = \"mpirun.openmpi\"",
            "4: job 'air': there is no key 'laucher'; 'launcher' was perhaps meant",
            "5: job 'air': ranks = 0: a number from 1 to 1000000 is expected",
            "6: job 'air': program: a program is expected, such as [\"./air\"]",
            "7: job 'air': slurm: a table is expected, such as { nodes = 1 }",
            "8: job 'ice': 'launcher' is missing, such as launcher = \"mpirun.openmpi\"",
            "8: job 'ice': 'program' is missing, such as program = [\"./air\", \"namelist\"]",
            "8: job 'ice': 'ranks' is missing, such as ranks = 2",
        ]
    );
}

#[test]
fn places_of_names_are_judged_and_control_characters_are_not_printed() {
    let naming = |url: &str| {
        said(&format!("naming = '{url}'\ngrace = -1\n[job.air]\nlauncher = 'mpirun'\nranks = 2\nprogram = './air'\n"))
    };
    for (url, what) in [("foo:bar", "'foo:bar' is no naming URL"), ("tcp://", ""), ("file:", "")] {
        let [first, second] = &naming(url)[..] else { panic!("{url}: {:?}", naming(url)) };
        assert!(first.starts_with("1: naming: ") && first.contains(what), "{first}");
        assert!(second.starts_with("2: grace"), "{second}");
    }
    assert!(naming("tcp://[::1]:7").len() == 1 && naming("file:a folder").len() == 1);
    let said = said("[job.\"a\\n\\u001b[1m\"]\nlauncher = 'mpirun'\nranks = 2\nprogram = './air'\n");
    assert!(said.iter().all(|line| line.contains("a\\n\\u{1b}[1m") && !line.contains(char::is_control)), "{said:?}");
}

#[test]
fn two_jobs_of_one_name_are_refused() {
    let job = "[job.air]\nlauncher = 'mpirun'\nranks = 2\nprogram = './air'\n";
    assert_eq!(said(&format!("{job}{job}")), ["5: two jobs are called air; every job needs a name of its own"]);
    assert_eq!(with("ranks = 3"), ["5: this key is there already: ranks = 3"]);
}

#[test]
fn values_are_judged() {
    for (line, what) in [
        ("cores = '3-1'", "cores: a number of cores or a list of them is expected, such as 2 or \"0-3,8\""),
        ("cores = 0", "cores = 0: a number from 1 to 1000000 is expected"),
        ("after = ['ocean']", "after = \"ocean\": there is no such job"),
        ("after = ['air']", "after = \"air\": that is this job itself"),
        ("restart = 'always'", "restart = 'always': \"checkpoint\" or \"alone\" is expected"),
        ("on-death = 'restart'", "on-death = 'restart': \"end\" or \"keep\" is expected"),
        ("env = ['A=1']", "env: a table is expected, such as { OMP_NUM_THREADS = \"4\" }"),
        ("env = { 'A=B' = '1' }", "env: \"A=B\" is no name of a variable"),
        ("env = { \"A\\u0000\" = '1' }", "env: \"A\\0\" is no name of a variable"),
        ("env = { C = \"n\\u0000x\" }", "env.C: no value of a variable has a NUL"),
        (
            "env = { MPI_CONNECT_TIMEOT = '5' }",
            "MPI_CONNECT_TIMEOT means nothing; MPI_CONNECT_TIMEOUT was perhaps meant",
        ),
        (
            "env = { MPI_CONNECT_RUN = 'x' }",
            "MPI_CONNECT_RUN is the same for all jobs: it stands above them, not in env",
        ),
        ("host = '-v'", "host = \"-v\": the name of a host is expected"),
        ("directory = 7", "directory = 7: a text is expected"),
        ("slurm = { nodes = 0 }", "slurm: nodes = 0: a number from 1 to 1000000 is expected"),
        ("slurm = { node = 1 }", "slurm: there is no key 'node'; 'nodes' was perhaps meant"),
        ("slurm = { partition = 'a b' }", "slurm: partition = 'a b': one word is expected"),
        (
            "slurm = { options = ['mem=0'] }",
            "slurm: options = ['mem=0']: a list of options, such as [\"--mem=0\"], is expected",
        ),
    ] {
        assert_eq!(with(line), [format!("5: job 'air': {what}")]);
    }
    let launcher =
        |launcher: &str| said(&format!("[job.air]\nranks = 2\nprogram = './air'\nlauncher = {launcher:?}\n")).concat();
    assert!(launcher("mpirun 'a").contains("a quote is not closed: mpirun 'a"));
    assert!(
        launcher("mpirun -n {rank} {program}")
            .contains("{rank}: only {ranks}, {nodes}, and {program} as a word, are filled in")
    );
    assert!(launcher("mpirun -n {ranks}").contains("it has {ranks} and no {program}"));
    assert!(launcher(" ").contains("the launcher is empty"));
    let hosts = with("slurm = { nodes = 1 }\nhost = 'node1'");
    assert_eq!(hosts, ["6: job 'air': a job with slurm runs inside its allocation: it has no host"]);
    assert_eq!(said("run = 'x'"), ["0: there is no job: each is a table, [job.air]"]);
    assert_eq!(said("job = 3"), ["1: job: tables are expected, such as [job.air]"]);
    assert!(said("[job.air").concat().contains("[job.air"), "the line is shown");
    assert!(said("[job.'a/b']").concat().contains("has no '/'"));
    assert_eq!(said("key = 'x'\n[job]\n"), ["1: key = \"x\": file:PATH is expected"]);
}

#[test]
fn jobs_that_wait_for_each_other_are_refused() {
    let job = |name: &str, after: &str| {
        format!("[job.{name}]\nlauncher = 'mpirun'\nranks = 2\nprogram = './x'\nafter = '{after}'\n")
    };
    let text = [job("air", "ocean"), job("ocean", "ice"), job("ice", "ocean")].concat();
    assert_eq!(said(&text), ["1: these jobs wait for each other (after), and none can begin: air, ocean, ice"]);
}

#[test]
fn words_are_those_of_a_shell() {
    for (line, all) in [
        ("a  b\tc", Some(vec!["a", "b", "c"])),
        ("a 'b c' \"d 'e\" f\\ g", Some(vec!["a", "b c", "d 'e", "f g"])),
        ("'' a''b", Some(vec!["", "ab"])),
        ("", Some(vec![])),
        ("'a", None),
        ("a\\", None),
    ] {
        assert_eq!(words(line), all.map(|all| all.into_iter().map(str::to_owned).collect()), "{line}");
    }
}
