//! The ways in which a program comes by its MPI and by the library: those that work, and those that are refused.

use c_tests::{Figure, Launch, Library, MPIS, Mpi, Scene, command, compile, compile_with, library};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// What a program is told whose calls do not come through the library.
const BYPASSED: &str = "did not pass through libmpi_connect.so";

/// The program that loads libraries; it is linked with no MPI.
fn host(mpi: &Mpi) -> PathBuf {
    compile_with(mpi, "host", Library::None, &["-Wl,--as-needed"])
}

/// The same work as a library for it.
fn plugin(mpi: &Mpi) -> PathBuf {
    compile_with(mpi, "loading", Library::Preloaded, &["-shared", "-fPIC"])
}

/// The MPI library that a file is linked with, as the dynamic linker finds it.
fn mpi_library(mpi: &Mpi, file: &Path) -> PathBuf {
    let listed = mpi.command(&["ldd".into(), file.display().to_string()]).output().expect("ldd");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let found = listed.lines().find_map(|line| {
        let (name, path) = line.trim().split_once(" => ")?;
        let is_mpi = ["libmpi.so", "libmpich.so", "libmpi_abi.so", "liblam.so"].iter().any(|n| name.starts_with(n));
        is_mpi.then(|| path.split_whitespace().next().expect("a path").into())
    });
    found.unwrap_or_else(|| panic!("{} has no MPI:\n{listed}", file.display()))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain text")
}

/// Two jobs of two ranks that must join and swap their values.
fn join(scene: &Scene, launches: [Launch; 2]) {
    let done = scene.pass(launches.map(|l| scene.start(l)), LIMIT);
    for d in &done {
        let mut got: Vec<_> = d.lines("GOT").collect();
        got.sort_unstable();
        scene.require(got == ["100 on 0 of 2", "101 on 1 of 2"], &format!("{} printed:\n{}", d.title, d.stdout));
    }
}

/// One job of two ranks, which must end with this text. All that it told.
fn refused(scene: &Scene, launch: Launch, text: &str) -> String {
    let [done] = scene.wait([scene.start(launch)], LIMIT);
    scene.require(!done.status.success(), "it ended well");
    scene.require(done.stderr.contains(text), &format!("it told:\n{}", done.stderr));
    done.stderr
}

/// As an extension module of an interpreter: the MPI is in local scope, and so is the program.
#[test]
fn mpi_in_local_scope() {
    for (a, b) in Mpi::ring() {
        let scene = Scene::new(format!("MPI in local scope: {} and {}", a.name, b.name));
        let plugin = plugin(a);
        let local = Launch::of(a, 2, host(a), Library::Preloaded, &[text(&plugin), "with", "air", "ocean"]);
        join(&scene, [local, Launch::new(b, 2, "loading", &["ocean", "air"])]);
    }
}

/// Another MPI is loaded before the program's own: each call goes to the one that its caller is linked with.
#[test]
fn two_mpis_in_one_process() {
    for (a, b) in Mpi::ring().filter(|(a, b)| a.abi != b.abi) {
        let scene = Scene::new(format!("{} loaded before {}", b.name, a.name));
        let (own, other) = (plugin(a), mpi_library(b, &plugin(b)));
        let arguments = [text(&other), text(&own), "with", "air", "ocean"];
        let local = Launch::of(a, 2, host(a), Library::Preloaded, &arguments);
        join(&scene, [local, Launch::new(a, 2, "loading", &["ocean", "air"])]);
    }
}

/// A language that looks functions up in the MPI's library goes past us: told so. In our library they are found.
#[test]
fn functions_looked_up_by_library() {
    for (a, b) in Mpi::ring() {
        let plugin = plugin(a);
        let (mpi, ours) = (mpi_library(a, &plugin), library());
        let launch = |how, library: &Path| {
            Launch::of(a, 2, host(a), how, &[text(&plugin), "with", "air", "ocean", text(library)])
        };
        let scene = Scene::new(format!("looked up in the MPI's library, {}", a.name));
        refused(&scene, launch(Library::Preloaded, &mpi), BYPASSED);
        drop(scene);
        let scene = Scene::new(format!("looked up in ours, {} and {}", a.name, b.name));
        join(&scene, [launch(Library::Linked, &ours), Launch::new(b, 2, "loading", &["ocean", "air"])]);
    }
}

/// Flags that put the MPI before the library.
fn wrong_order(mpi_library: &str) -> [&str; 2] {
    ["-Wl,--no-as-needed", mpi_library]
}

/// Linked behind the MPI, the library has only the added calls. Preloaded all the same, it works.
#[test]
fn linked_in_the_wrong_order() {
    for mpi in MPIS.iter() {
        let scene = Scene::new(format!("wrong order, {}", mpi.name));
        let own = mpi_library(mpi, &compile(mpi, "loading", Library::Preloaded));
        let program = compile_with(mpi, "loading", Library::Linked, &wrong_order(text(&own)));
        refused(&scene, Launch::of(mpi, 2, program.clone(), Library::Linked, &["air"]), BYPASSED);
        let by_run = Launch::of(mpi, 2, program, Library::Preloaded, &["air", "ocean"]);
        join(&scene, [by_run, Launch::new(mpi, 2, "loading", &["ocean", "air"])]);
    }
}

/// Links MPI into the program itself; `None` where its distribution has no archive.
fn compile_static(mpi: &Mpi, library: Library) -> Option<PathBuf> {
    // Behind the archive nothing is left for the compiler's own -lmpich to give.
    let whole = |archive, rest: &[&'static str]| {
        let mut flags = vec!["-Wl,--whole-archive", archive, "-Wl,--no-whole-archive", "-Wl,--no-as-needed"];
        flags.extend(rest);
        flags.push("-Wl,--as-needed");
        flags
    };
    let flags = match mpi.name {
        "mpich4" => whole("-l:libmpich.a", &["-lhwloc", "-lucp", "-lucs", "-lpthread"]),
        // This archive has two functions twice.
        "lam" => whole("-l:liblam.a", &["-Wl,-z,muldefs", "-lltdl", "-lutil", "-ldl"]),
        _ => return None,
    };
    Some(compile_with(mpi, "loading", library, &flags))
}

/// MPI within the executable: the library does no harm there, and says why it cannot help.
#[test]
fn mpi_linked_statically() {
    for mpi in MPIS.iter() {
        let Some(program) = compile_static(mpi, Library::Preloaded) else { continue };
        let scene = Scene::new(format!("MPI linked statically, {}", mpi.name));
        let linked = compile_static(mpi, Library::Linked).expect("as above");
        let by_run = Launch::of(mpi, 2, program, Library::Preloaded, &["air"]);
        let told = refused(&scene, by_run, "linked statically");
        for who in ["mpi-connect: ", "mpi_connect: MPI_Conn_register: "] {
            let says = told.lines().any(|l| l.starts_with(who) && l.contains("linked statically"));
            scene.require(says, &format!("{who}does not say why:\n{told}"));
        }
        let linked = Launch::of(mpi, 2, linked, Library::Linked, &["air"]);
        refused(&scene, linked, "mpi_connect: MPI_Conn_register: MPI is linked statically");
        // A program that asks for nothing of ours runs as ever.
        let native = compile_static(mpi, Library::None).expect("as above");
        let with = |preload| Launch::of(mpi, 2, native.clone(), Library::None, &[]).preloading(preload);
        let [without] = scene.pass([scene.start(with(Vec::new()))], LIMIT);
        let [with] = scene.pass([scene.start(with(vec![library()]))], LIMIT);
        scene.require(without.lines("ALONE").count() == 2, &format!("it printed:\n{}", without.stdout));
        scene.require(with.lines("ALONE").count() == 2 && with.stderr == without.stderr, "its output differs");
    }
}

/// A copy of the program that runs with the rights of the user of these tests, whoever starts it; `None` where both
/// are the same user.
fn privileged(scene: &Scene, program: &Path) -> Option<PathBuf> {
    let copy = scene.path("privileged");
    std::fs::copy(program, &copy).expect("a copy of the program");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).expect("a program of ours");
    c_tests::user::is_other().then_some(copy)
}

/// The dynamic linker preloads nothing into a program that gains rights. Linked with the library it joins its like:
/// its names belong to whoever it runs as.
#[test]
fn programs_that_gain_rights() {
    // The others do not start it: Open MPI's and LAM's daemons serve their own user only, and Intel's libraries are found
    // by LD_LIBRARY_PATH, which the dynamic linker ignores here.
    for mpi in MPIS.iter().filter(|m| m.name.starts_with("mpich")) {
        let scene = Scene::new(format!("setuid, {}", mpi.name));
        let Some(preloaded) = privileged(&scene, &compile(mpi, "loading", Library::Preloaded)) else {
            println!("NOT CHECKED: only root can make a program that gains rights");
            return;
        };
        let [done] = scene.pass([scene.start(Launch::of(mpi, 2, preloaded, Library::Preloaded, &["air"]))], LIMIT);
        scene.require(done.lines("ALONE").count() == 2, &format!("it printed:\n{}", done.stdout));
        scene.require(done.stderr.contains("gains rights"), &format!("`run` told:\n{}", done.stderr));
        let linked = privileged(&scene, &compile(mpi, "loading", Library::Linked)).expect("as above");
        let launch = |arguments: &[&str]| Launch::of(mpi, 2, linked.clone(), Library::Linked, arguments);
        join(&scene, [launch(&["air", "ocean"]), launch(&["ocean", "air"])]);
    }
}

/// What `mpi-connect doctor PROGRAM` says of it, and whether it finds something broken.
fn doctor(mpi: &Mpi, program: &Path) -> (bool, String) {
    let words = [text(&command()), "doctor", text(program)].map(String::from);
    let done = mpi.command(&words).output().expect("mpi-connect");
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    let section = told.lines().skip_while(|l| *l != "program").skip(1).take_while(|l| l.starts_with(' '));
    (section.clone().any(|l| l.starts_with(" !")), section.map(|l| format!("{l}\n")).collect())
}

#[test]
fn doctor_knows_what_a_program_is_bound_to() {
    let mut figure = Figure::new("64-doctor", "what `mpi-connect doctor PROGRAM` sees");
    for mpi in MPIS.iter() {
        let bound = format!("bound to {}, ABI: {}\n", mpi_library(mpi, &plugin(mpi)).display(), mpi.abi);
        let wrong = compile_with(mpi, "loading", Library::Linked, &wrong_order(text(&mpi_library(mpi, &plugin(mpi)))));
        for (program, more) in [
            (compile(mpi, "loading", Library::Preloaded), ""),
            (plugin(mpi), ""),
            (compile(mpi, "loading", Library::Linked), "linked with "),
            (wrong, "behind its MPI"),
        ] {
            let (broken, told) = doctor(mpi, &program);
            assert!(!broken && told.contains(&bound) && told.contains(more), "{}:\n{told}", program.display());
        }
        let (_, told) = doctor(mpi, &host(mpi));
        assert!(told.contains("calls no MPI itself"), "{told}");
        if let Some(program) = compile_static(mpi, Library::None) {
            let (broken, told) = doctor(mpi, &program);
            assert!(broken && told.contains("linked statically into this program"), "{}:\n{told}", mpi.name);
        }
        figure.line(format!("{}: {}", mpi.name, bound.trim_end()));
    }
}

/// In shells and launchers nothing happens: no word, no thread, and few instructions beyond loading.
#[test]
fn inert_without_mpi() {
    let run = |preload: bool| {
        let mut command = Command::new("valgrind");
        command.args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "bash",
            "-c",
            "grep Threads /proc/$$/status; true",
        ]);
        command.env_remove("LD_PRELOAD");
        if preload {
            command.env("LD_PRELOAD", library());
        }
        let done = command.output().expect("valgrind");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        let (own, said): (Vec<_>, Vec<_>) = told.lines().partition(|l| l.starts_with("=="));
        assert!(done.status.success() && said.is_empty(), "{told}");
        assert_eq!(String::from_utf8_lossy(&done.stdout), "Threads:\t1\n");
        let count = own.iter().find_map(|l| l.split_once("Collected : ")?.1.trim().parse::<i64>().ok());
        count.unwrap_or_else(|| panic!("no count:\n{told}"))
    };
    let (without, with) = (run(false), run(true));
    let mut figure = Figure::new("63-inert", "instructions of a shell that starts and ends");
    figure.line(format!("without {without}, preloaded {with}: {:+}", with - without));
}

/// Serial programs are linked with a stand-in for MPI that has a few of its names: that is nothing of ours.
#[test]
fn stand_in_for_mpi_is_left_alone() {
    let scene = Scene::new("a serial program with a stand-in for MPI");
    let source = c_tests::root().join("c-tests/c/stub.c");
    let (stub, program) = (scene.path("libstub.so"), scene.path("serial"));
    let gcc = |words: &[&str]| assert!(Command::new("gcc").args(words).status().expect("gcc").success());
    gcc(&["-shared", "-fPIC", "-DSTUB", text(&source), "-o", text(&stub)]);
    gcc(&[text(&source), "-o", text(&program), text(&stub)]);
    let run = Command::new(&program).env("LD_PRELOAD", library()).output().expect("the program");
    let printed = String::from_utf8_lossy(&run.stdout);
    scene.require(printed == "rank 7 codes 0\n", &format!("it printed {printed:?}"));
    scene.require(run.stderr.is_empty(), &String::from_utf8_lossy(&run.stderr));
}
