//! The ways in which a program comes by its MPI and by the library: those that work, and those that are refused.

use base::families::is_library;
use c_tests::{Figure, Launch, Library, MPIS, Mpi, Scene, command, compile, compile_with, library, make, root};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
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
pub fn mpi_library(mpi: &Mpi, file: &Path) -> PathBuf {
    let listed = mpi.command(&["ldd".into(), file.display().to_string()]).output().expect("ldd");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let found = listed.lines().find_map(|line| {
        let (name, path) = line.trim().split_once(" => ")?;
        is_library(name).then(|| path.split_whitespace().next().expect("a path").into())
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
    for (a, b) in Mpi::ring().filter(|(a, b)| a.family != b.family) {
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
pub fn wrong_order(mpi_library: &str) -> [&str; 2] {
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
pub fn compile_static(mpi: &Mpi, name: &str, library: Library) -> Option<PathBuf> {
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
    Some(compile_with(mpi, name, library, &flags))
}

/// MPI within the executable: the library does no harm there, and says why it cannot help.
#[test]
fn mpi_linked_statically() {
    for mpi in MPIS.iter() {
        let Some(program) = compile_static(mpi, "loading", Library::Preloaded) else { continue };
        let scene = Scene::new(format!("MPI linked statically, {}", mpi.name));
        let linked = compile_static(mpi, "loading", Library::Linked).expect("as above");
        let by_run = Launch::of(mpi, 2, program, Library::Preloaded, &["air"]);
        let told = refused(&scene, by_run, "linked statically");
        for who in ["mpi-connect: ", "] MPI_Conn_register: "] {
            let says = told.lines().any(|l| l.contains(who) && l.contains("linked statically"));
            scene.require(says, &format!("{who}does not say why:\n{told}"));
        }
        let linked = Launch::of(mpi, 2, linked, Library::Linked, &["air"]);
        refused(&scene, linked, "] MPI_Conn_register: MPI is linked statically");
        // A program that asks for nothing of ours runs as ever.
        let native = compile_static(mpi, "loading", Library::None).expect("as above");
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
        // Without a path of its own it would not find the library: the advice leads to one that starts.
        let rpath = format!("-Wl,-rpath,{}", text(folder()));
        scene.require(done.stderr.contains(&rpath), &format!("`run` told:\n{}", done.stderr));
        let pathless = privileged(&scene, &without_path(mpi)).expect("as above");
        for library_path in ["", text(folder())] {
            let (broken, told) = doctor_with(mpi, &pathless, &[("LD_LIBRARY_PATH", library_path)]);
            scene.require(broken && told.contains(&rpath), &format!("doctor told:\n{told}"));
        }
        let linked = privileged(&scene, &compile(mpi, "loading", Library::Linked)).expect("as above");
        let (broken, told) = doctor(mpi, &linked);
        scene.require(!broken, &format!("doctor told:\n{told}"));
        let launch = |arguments: &[&str]| Launch::of(mpi, 2, linked.clone(), Library::Linked, arguments);
        join(&scene, [launch(&["air", "ocean"]), launch(&["ocean", "air"])]);
    }
}

/// What `mpi-connect doctor PROGRAM` says of it, and whether it finds something broken.
fn doctor(mpi: &Mpi, program: &Path) -> (bool, String) {
    doctor_with(mpi, program, &[])
}

fn doctor_with(mpi: &Mpi, program: &Path, environment: &[(&str, &str)]) -> (bool, String) {
    let words = [text(&command()), "doctor", text(program)].map(String::from);
    let done = mpi.command(&words).envs(environment.iter().copied()).output().expect("mpi-connect");
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    // What is in order of it; then its problems, among others, each with its mend below it.
    let below = |head| told.lines().skip_while(move |l| *l != head).skip(1).take_while(|l| l.starts_with(' '));
    let mut is_of_it = false;
    let problems = below("problems").filter(|l| {
        let begins = l.starts_with(" ! ") || l.starts_with(" ? ");
        is_of_it = if begins { l[3..].starts_with("program: ") } else { is_of_it };
        is_of_it
    });
    let all: Vec<_> = below("program").chain(problems).collect();
    (all.iter().any(|l| l.starts_with(" !")), all.iter().map(|l| format!("{l}\n")).collect())
}

/// The folder of the library under test.
fn folder() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| library().parent().expect("a folder").into());
    &FOLDER
}

/// Linked with the library, which it does not find by itself.
fn without_path(mpi: &Mpi) -> PathBuf {
    let search = format!("-L{}", text(folder()));
    compile_with(mpi, "loading", Library::Preloaded, &["-Wl,--no-as-needed", &search, "-lmpi_connect"])
}

/// Runs a command that must end well. What it printed.
fn good(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("plain text")
}

/// Compiles as a user does, with these flags behind the source.
fn compile_by_hand(mpi: &Mpi, source: &Path, output: &Path, flags: &[&str]) -> PathBuf {
    let [compiler, last] = mpi.compiler();
    let mut command = Command::new(&compiler[0]);
    good(command.args(&compiler[1..]).arg(source).arg("-o").arg(output).args(flags).args(last));
    output.to_owned()
}

/// What was built is installed without cargo, which root may not have, and a program that is linked as the README says
/// starts by itself.
#[test]
fn installed_and_linked_by_pkg_config() {
    let scene = Scene::new("installed");
    let prefix = scene.path("installed");
    make(&["install", &format!("PREFIX={}", text(&prefix))]);
    let mut config = Command::new("pkg-config");
    config.args(["--cflags", "--libs", "mpi_connect"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = good(&mut config);
    let flags: Vec<&str> = flags.split_whitespace().collect();
    for (a, b) in Mpi::some_couples() {
        let [air, ocean] = [a, b].map(|mpi| {
            let source = root().join("c-tests/c/loading.c");
            let program = compile_by_hand(mpi, &source, &scene.path(mpi.name), &flags);
            let (broken, told) = doctor(mpi, &program);
            let found = format!("linked with {}", text(&prefix.join("lib/libmpi_connect.so")));
            scene.require(!broken && told.contains(&found), &format!("doctor told:\n{told}"));
            program
        });
        let launch = |mpi, program, names: &[&str]| Launch::of(mpi, 2, program, Library::Linked, names);
        join(&scene, [launch(a, air, &["air", "ocean"]), launch(b, ocean, &["ocean", "air"])]);
    }
}

/// A program that finds the library only where it is preloaded is served there.
#[test]
fn found_by_run_only() {
    for (a, b) in Mpi::some_couples() {
        let scene = Scene::new(format!("found by run only, {} and {}", a.name, b.name));
        let [air, ocean] = [a, b].map(|mpi| {
            let program = without_path(mpi);
            let (broken, told) = doctor(mpi, &program);
            let tells = told.contains("by 'mpi-connect run' only") && told.contains(&format!("ABI: {}\n", mpi.family));
            scene.require(!broken && tells, &format!("doctor told:\n{told}"));
            program
        });
        let launch = |mpi, program, names: &[&str]| Launch::of(mpi, 2, program, Library::Preloaded, names);
        join(&scene, [launch(a, air, &["air", "ocean"]), launch(b, ocean, &["ocean", "air"])]);
    }
}

/// Where the linker has dropped the MPI, or has it from an archive behind the library: `doctor` says what MPI_Init says.
#[test]
fn without_an_mpi_library() {
    let scene = Scene::new("no MPI library");
    let source = scene.path("plain.c");
    let text_of_it = "#include <mpi.h>\nint main(void) { MPI_Init(0, 0); return MPI_Finalize(); }\n";
    std::fs::write(&source, text_of_it).expect("the scene's folder");
    for mpi in MPIS.iter() {
        let (search, path) = (format!("-L{}", text(folder())), format!("-Wl,-rpath,{}", text(folder())));
        let flags = [&search, &path, "-Wl,--as-needed", "-lmpi_connect"];
        let mut programs = vec![compile_by_hand(mpi, &source, &scene.path(mpi.name), &flags)];
        if mpi.name == "mpich4" {
            let archive = ["-l:libmpich.a", "-lhwloc", "-lucp", "-lucs", "-lpthread", "-Wl,--as-needed"];
            let flags: Vec<&str> = [&search, &path, "-lmpi_connect"].into_iter().chain(archive).collect();
            programs.push(compile_by_hand(mpi, &source, &scene.path("archive"), &flags));
        }
        for program in programs {
            let (broken, told) = doctor(mpi, &program);
            let done = mpi.command(&[text(&program).into()]).output().expect("the program");
            let fails = String::from_utf8_lossy(&done.stderr).into_owned();
            let both = |words: &str| told.contains(words) && fails.contains(words);
            let same = both("this program has no MPI library") && both("The linker drops one that seems unused: ");
            scene.require(broken && same && !done.status.success(), &format!("{}:\n{told}{fails}", mpi.name));
        }
    }
}

/// What is stripped does not show whether MPI is within, unless its libraries are to find it there.
#[test]
fn stripped_programs() {
    let scene = Scene::new("stripped");
    let stripped = scene.path("stripped");
    for mpi in MPIS.iter() {
        let Some(program) = compile_static(mpi, "loading", Library::None) else { continue };
        good(Command::new("strip").arg("-o").arg(&stripped).arg(program));
        let (broken, told) = doctor(mpi, &stripped);
        scene.require(broken != told.contains("cannot be seen"), &format!("{}:\n{told}", mpi.name));
    }
}

/// Intel's own teller of versions takes no such option.
#[test]
fn doctor_tells_versions() {
    for mpi in MPIS.iter() {
        let Some(folder) = mpi.folder() else { continue };
        let words = [text(&command()), "doctor", "-v", "--prefix", text(&folder)].map(String::from);
        let told = good(&mut mpi.command(&words));
        let bin = format!("{}/", text(&folder.join("bin")));
        let line = told.lines().find_map(|l| l.trim().strip_prefix(&bin)).unwrap_or_default();
        let known = ["Open MPI v", "MPICH Version: ", "Intel(R) MPI Library"];
        assert!(known.iter().any(|k| line.contains(k)), "{}: {line}\n{told}", mpi.name);
    }
}

#[test]
fn doctor_knows_what_a_program_is_bound_to() {
    let mut figure = Figure::new("64-doctor", "what `mpi-connect doctor PROGRAM` sees");
    for mpi in MPIS.iter() {
        let bound = format!("bound to {}, ABI: {}\n", mpi_library(mpi, &plugin(mpi)).display(), mpi.family);
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
        if let Some(program) = compile_static(mpi, "loading", Library::None) {
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
    let (broken, told) = doctor(MPIS[0], &program);
    scene.require(!broken && told.contains("no MPI, or a part of one"), &format!("doctor told:\n{told}"));
}

/// LAM's allocator is not safe where there are threads, so it does not serve where the library is.
#[test]
fn an_mpi_with_an_allocator_of_its_own_gets_the_c_librarys() {
    for mpi in MPIS.iter() {
        let early = compile_with(mpi, "heap", Library::None, &["-shared", "-fPIC", "-DEARLY"]);
        let program = compile_with(mpi, "heap", Library::None, &["-Wl,--no-as-needed", text(&early)]);
        let mut words = mpi.session();
        words.extend(["env".into(), format!("LD_PRELOAD={}", library().display()), program.display().to_string()]);
        let done = mpi.command(&words).output().expect("the program");
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success() && printed.contains("FINE"), "{}: {printed}{done:?}", mpi.name);
    }
}
