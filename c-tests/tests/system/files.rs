//! Files of one job that another one fetches and puts there, while the first makes no call: sizes, paths, full disks, cut connections
//! and deaths; and the command that copies them.

use c_tests::faults::relay::{Blow, PORTS, Relay, rule};
use c_tests::net::{TwoHosts, or_skip};
use c_tests::{Figure, Job, Launch, Mpi, Scene, command, user, wait_until, width};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const CHUNK: usize = 1 << 20;
/// After so many bytes the pattern comes again.
const PERIOD: usize = 251 * 256;

/// Writes a file of this size with the pattern of `c-tests/c/files.c`.
fn write(path: &Path, size: usize) {
    let period: Vec<u8> = (0..PERIOD).map(|k| (k + k / 251) as u8).collect();
    let block = period.repeat(64);
    let mut file = fs::File::create(path).expect("a file of the scene");
    let mut left = size;
    while left > 0 {
        let piece = &block[..left.min(block.len())];
        file.write_all(piece).expect("room on the disk");
        left -= piece.len();
    }
    user::give(path);
}

fn folder(path: PathBuf) -> PathBuf {
    fs::create_dir_all(&path).expect("a folder of the scene");
    user::give(&path);
    path
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// The names in a folder of what is no whole file.
fn parts(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(".part")).collect()
}

/// A small file system of its own.
struct Small(PathBuf);

impl Small {
    /// `None`: it cannot be mounted here.
    fn new(path: PathBuf) -> Option<Small> {
        fs::create_dir(&path).expect("a folder of the scene");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m,mode=1777", "tmpfs"]).arg(&path).status();
        done.is_ok_and(|status| status.success()).then_some(Small(path))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A job that serves, and one that fetches with these words.
fn start(scene: &Scene, [air, ocean]: [&Mpi; 2], ranks: [usize; 2], open: &str, words: &[&str]) -> [Job; 2] {
    let end = text(&scene.path("end"));
    let serves = Launch::new(air, ranks[0], "files", &["air", "ocean", "serve", &end]).env("MPI_CONNECT_FILES", open);
    let arguments = [&["ocean", "air", words[0], &end], &words[1..]].concat();
    let fetches = Launch::new(ocean, ranks[1], "files", &arguments);
    [scene.start(serves.env("MPI_CONNECT_LOG", "info")), scene.start(fetches.env("MPI_CONNECT_LOG", "info"))]
}

#[test]
fn files_of_all_sizes_move_and_no_path_leads_out() {
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("files of {} for {}", a.name, b.name));
        let (open, inbox, local) = (scene.path("open"), scene.path("inbox"), scene.path("local"));
        for path in [&open, &inbox, &local, &open.join("sub"), &inbox.join("drawer"), &scene.path("far")] {
            folder(path.clone());
        }
        for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7, 40 * CHUNK + 5] {
            write(&open.join(format!("f{size}")), size);
        }
        write(&open.join("sub/deep"), 1000);
        write(&scene.path("secret"), 10);
        write(&scene.path("far/secret"), 10);
        symlink("../secret", open.join("up")).expect("a link");
        symlink("sub/deep", open.join("inside")).expect("a link");
        symlink(scene.path("secret"), open.join("away")).expect("a link");
        symlink(scene.path("far"), open.join("sub/far")).expect("a link");
        symlink(scene.path("far"), inbox.join("out")).expect("a link");
        nix::unistd::mkfifo(&open.join("pipe"), nix::sys::stat::Mode::from_bits_truncate(0o666)).expect("a pipe");
        user::give(&open.join("pipe"));
        let small = Small::new(scene.path("small"));
        let mut folders = format!("{}:ro;{}:rw", open.display(), inbox.display());
        if small.is_some() {
            folders += &format!(";{}:rw", scene.path("small").display());
        }
        let end = text(&scene.path("end"));
        let serves = Launch::new(a, 2, "files", &["air", "ocean", "serve", &end]).env("MPI_CONNECT_FILES", &folders);
        let fetches = Launch::new(b, 3, "files", &["ocean", "air", "edges", &end, &text(&local)]);
        let fetches = match &small {
            Some(small) => fetches.env("SMALL", &text(&small.0)),
            None => fetches,
        };
        scene.pass([scene.start(serves), scene.start(fetches)], LIMIT);
        for folder in [&open, &inbox, &local] {
            scene.require(parts(folder).is_empty(), &format!("no half of a file is left: {:?}", parts(folder)));
        }
        scene.require(!scene.path("new").exists() && !scene.path("far/new").exists(), "nothing is written outside");
        if let Some(small) = &small {
            scene.require(
                parts(&small.0).is_empty() && !small.0.join("full").exists(),
                "nothing is left on a full disk",
            );
        }
    }
}

/// The size of the large file: of 4 GiB at full width.
fn large() -> usize {
    width::otherwise(192 << 20, 4 << 30, "files of 4 GiB")
}

/// Both models exchange messages while a file moves, and all their connections are cut twice.
#[test]
fn a_file_moves_while_both_exchange_and_connections_are_cut() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::large(format!("a large file of {} for {}, cut twice", a.name, b.name));
        let Some(hosts) = or_skip(TwoHosts::apart()) else { return };
        hosts.nft(0, &rule()).unwrap_or_else(|e| panic!("{e}"));
        let relay = Relay::new(&hosts.namespace(0));
        let (open, local) = (folder(scene.path("open")), folder(scene.path("local")));
        write(&open.join("out.nc"), large());
        let end = text(&scene.path("end"));
        let start = |mpi, mine, theirs| {
            let words = [mine, theirs, "flow", &end, "out.nc", &text(&local.join("got.nc"))];
            let launch = Launch::new(mpi, 2, "files", &words)
                .env("MPI_CONNECT_LANES", "tcp")
                .env("MPI_CONNECT_IFACE", "127.0.0.1")
                .env("MPI_CONNECT_PORTRANGE", &format!("{}-{}", PORTS[0], PORTS[1]))
                .env("MPI_CONNECT_LOG", "info")
                .env("MPI_CONNECT_FILES", &format!("{}:ro", open.display()));
            scene.start(launch.within(&hosts.on(0)))
        };
        let jobs = [start(a, "air", "ocean"), start(b, "ocean", "air")];
        let mut cuts = 0;
        // A part of the file is there, and it is not whole.
        let is_moving = || !parts(&local).is_empty();
        // It is opened when it is looked at, and on each connection; then more of it has come.
        let opened = || jobs[0].complained().matches("a file is read by another job").count();
        let is_over = || scene.path("end").exists();
        for cut in 0..2 {
            wait_until(LIMIT, || opened() >= 2 + cut || is_over());
            let before = changed(&local);
            wait_until(LIMIT, || changed(&local) > before || is_over());
            let hit = relay.tell(Blow::Cut, 1, LIMIT);
            cuts += usize::from(is_moving() && hit > 0);
        }
        let [_, ocean] = scene.pass(jobs, Duration::from_secs(300));
        let same = Command::new("cmp").arg(open.join("out.nc")).arg(local.join("got.nc")).status();
        scene.require(same.is_ok_and(|status| status.success()), "the file is the same");
        let anew = ocean.stderr.lines().filter(|line| line.contains("another connection is made")).count();
        scene.require(cuts == 2 && anew >= 2, &format!("it was cut twice, not {cuts} times, and went on {anew} times"));
        let number =
            |word: &str| ocean.lines(word).next().and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        let (took, turns) = (number("FETCHED").unwrap_or(0.0), number("TURNS").unwrap_or(0.0));
        scene.require(turns > 20.0, &format!("messages went on meanwhile: {turns}"));
        println!("-- {} MiB in {took} ms through a relay, cut twice; {turns} turns of messages", large() >> 20);
    }
}

/// When more was written of the part in a folder: it has its whole size at once.
fn changed(folder: &Path) -> Option<std::time::SystemTime> {
    let name = parts(folder).pop()?;
    fs::metadata(folder.join(name)).ok()?.modified().ok()
}

/// Who serves dies in the middle; a file that changes or vanishes meanwhile.
#[test]
fn what_goes_wrong_in_the_middle_is_told_and_leaves_nothing() {
    for (a, b) in Mpi::some_couples() {
        for fate in ["dies", "changes", "vanishes"] {
            let scene = Scene::large(format!("a file of {} for {}: it {fate}", a.name, b.name));
            let (open, local) = (folder(scene.path("open")), folder(scene.path("local")));
            let file = open.join("out.nc");
            write(&file, 512 << 20);
            let opened = format!("{}:ro", open.display());
            let words = ["get", "out.nc", &text(&local.join("got.nc"))];
            let jobs = start(&scene, [a, b], [1, 1], &opened, &words);
            let is_moving = || !parts(&local).is_empty();
            scene.require(wait_until(LIMIT, is_moving), "it begins");
            match fate {
                "dies" => scene.kill("serve"),
                "changes" => {
                    let mut file = fs::File::options().append(true).open(&file).expect("the file");
                    file.write_all(b"more").expect("room");
                }
                _ => fs::remove_file(&file).expect("the file"),
            }
            let [_, ocean] = scene.wait(jobs, LIMIT);
            let got = ocean.lines("GOT").next().unwrap_or_default().to_owned();
            let (is_there, told) = (local.join("got.nc").exists(), !got.starts_with("0"));
            match fate {
                "dies" => scene.require(told && !is_there && got.contains("PEER_GONE"), &got),
                "changes" => scene.require(told && !is_there && got.contains("has changed"), &got),
                // Who has it open reads it to its end; a connection that is made later finds it no more.
                _ => scene.require(told != is_there, &got),
            }
            scene.require(parts(&local).is_empty(), &format!("no half of a file is left: {:?}", parts(&local)));
        }
    }
}

fn cp(scene: &Scene, words: &[&str]) -> Output {
    let mut all = user::prefix();
    all.push(command().display().to_string());
    all.extend(["cp", "--naming", &scene.naming()].map(String::from));
    all.extend(words.iter().map(|word| word.to_string()));
    let key = format!("file:{}", scene.key().display());
    Command::new(&all[0]).args(&all[1..]).env("MPI_CONNECT_KEY", key).output().expect("mpi-connect")
}

/// Turns in which `mpi-connect cp` is measured.
const TURNS: usize = 5;

/// What a bare connection takes for the bytes of a file: they are read at one end, and forgotten at the other.
fn by_socket(source: &Path) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let mut to = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    let mut from = listener.accept().expect("a connection").0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut room = vec![0; CHUNK];
            while from.read(&mut room).expect("a connection") > 0 {}
        });
        let mut file = fs::File::open(source).expect("a file of the scene");
        std::io::copy(&mut file, &mut to).expect("a connection");
        drop(to);
    });
}

/// Writes what each way gave in each turn, and what share of the slower of the disk and the connection.
fn show(size: usize, mut speeds: [Vec<f64>; 4]) {
    let names = [
        "mpi-connect cp air:out.nc ., until it is on the disk",
        "mpi-connect cp out.nc air:, until it is there",
        "a copy on the same disk, until it is there",
        "the same over a bare connection, into memory",
    ];
    speeds.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
    let median = |n: usize| speeds[n][TURNS / 2];
    let bound = median(2).min(median(3));
    let title = format!("A file of {} MiB, in MB/s: median and spread of {TURNS} turns", size >> 20);
    let mut figure = Figure::new("66-files", title);
    let rows = names.iter().enumerate().map(|(n, name)| {
        let spread = format!("{:.0} to {:.0}", speeds[n][0], speeds[n][TURNS - 1]);
        let share = if n < 2 { format!("{:.2} of what bounds it", median(n) / bound) } else { String::new() };
        vec![name.to_string(), format!("{:.0}", median(n)), spread, share]
    });
    figure.table(&rows.collect::<Vec<_>>());
}

/// `mpi-connect cp`, both ways, while the job computes; and what it costs beside a copy on the same disk.
#[test]
fn the_command_copies_from_and_to_a_job() {
    for (a, b) in Mpi::some_couples().take(1) {
        let scene = Scene::large(format!("copies from and to a job of {}", a.name));
        let (open, inbox, local) = (scene.path("open"), scene.path("inbox"), scene.path("local"));
        [&open, &inbox, &local].into_iter().for_each(|path| drop(folder(path.clone())));
        let size = large();
        write(&open.join("out.nc"), size);
        let opened = format!("{}:ro;{}:rw", open.display(), inbox.display());
        let jobs = start(&scene, [a, b], [1, 1], &opened, &["serve"]);
        scene.require(wait_until(LIMIT, || scene.path("air-serves").exists()), "it serves");
        let source = open.join("out.nc");
        let same =
            |other: &Path| Command::new("cmp").arg(&source).arg(other).status().is_ok_and(|status| status.success());
        let sync = |path: &Path| drop(fs::File::open(path).and_then(|file| file.sync_all()));
        let mut speeds = [const { Vec::new() }; 4];
        let mut timed = |n: usize, what: &mut dyn FnMut()| {
            let begun = Instant::now();
            what();
            speeds[n].push(size as f64 / 1e6 / begun.elapsed().as_secs_f64());
        };
        for _ in 0..TURNS {
            // Else who comes first finds the disk busy with what was written and removed before.
            nix::unistd::syncfs(fs::File::open(&source).expect("a file of the scene")).expect("the disk");
            let (fetched, put, plain) = (local.join("out.nc"), inbox.join("out.nc"), scene.path("copied"));
            timed(0, &mut || {
                let done = cp(&scene, &["--progress", "air:out.nc", &text(&local)]);
                let said = String::from_utf8_lossy(&done.stderr).into_owned();
                scene.require(done.status.success() && said.contains("100% of") && said.contains("MB/s"), &said);
            });
            timed(1, &mut || {
                let done = cp(&scene, &[&text(&source), "air:"]);
                let said = String::from_utf8_lossy(&done.stderr).into_owned();
                scene.require(done.status.success() && said.is_empty(), &said);
            });
            timed(2, &mut || {
                fs::copy(&source, &plain).expect("room on the disk");
                sync(&plain);
            });
            timed(3, &mut || by_socket(&source));
            scene.require(same(&fetched) && same(&put), "both copies are the same");
            [fetched, put, plain].iter().for_each(|path| fs::remove_file(path).expect("a copy"));
        }
        show(size, speeds);
        for (words, code, why) in [
            (["air:none", "."], 1, "'none'"),
            (["air:out.nc", "nodir/"], 1, "'nodir/': there is no such folder"),
            (["air:../key", "."], 1, "a path with '..' is refused"),
            (["ice:out.nc", "."], 1, "no job 'ice'"),
            (["a", "b"], 2, "has to be a file of a job"),
        ] {
            let done = cp(&scene, &words);
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            scene.require(done.status.code() == Some(code) && said.contains(why), &format!("{words:?}: {said}"));
        }
        let serving = scene.processes("serve");
        let signal = |signal| serving.iter().all(|pid| kill(Pid::from_raw(*pid), signal).is_ok());
        scene.require(!serving.is_empty() && signal(Signal::SIGSTOP), "they serve");
        let begun = Instant::now();
        let done = cp(&scene, &["--timeout", "2", "air:out.nc", &text(&local)]);
        let (took, said) = (begun.elapsed().as_secs_f32(), String::from_utf8_lossy(&done.stderr).into_owned());
        scene.require(signal(Signal::SIGCONT), "they are there");
        scene.require(said.contains("nothing has moved for 2 s"), &said);
        scene.require(took < 10.0, &format!("it took {took} s with a limit of 2"));
        fs::write(scene.path("end"), "").expect("a sign");
        scene.pass(jobs, LIMIT);
        scene.require(parts(&local).is_empty() && parts(&inbox).is_empty(), "no half of a file is left");
    }
}
