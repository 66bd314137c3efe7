//! Fortran: mpif.h, `use mpi`, `use mpi_f08`, on every MPI that has them, each beside a C program under another MPI.

use c_tests::{Figure, Launch, Library, MPIS, Mpi, Scene, WAYS, Way, compile, compile_fortran, library, user};
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The compiled program, or why there is none: then the compiler must find something missing, and says what.
pub(crate) fn program(mpi: &Mpi, way: &Way, name: &str, library: Library) -> Result<PathBuf, String> {
    let expected = way.is_in(mpi);
    match compile_fortran(mpi, way, name, library) {
        Ok(program) if expected => Ok(program),
        Err(said) if !expected => {
            // The MPI itself is there.
            compile(mpi, "native", Library::None);
            let reason = said.lines().find_map(|l| l.split_once("Error: ")).map_or("no compiler", |(_, what)| what);
            // Without the compiler's own place and its commentary.
            let reason = reason.split(" at (1)").next().unwrap_or(reason);
            Err(reason.split(" for reading").next().unwrap_or(reason).replace(['‘', '’', '\''], ""))
        }
        Ok(_) => panic!("{} has `{}` after all: add it to the table", mpi.name, way.name),
        Err(said) => panic!("{}, {}:\n{said}", mpi.name, way.name),
    }
}

/// Runs something in each cell that an MPI has, and prints all cells.
pub(crate) fn table(
    name: &str,
    title: &str,
    source: &str,
    library: Library,
    run: impl Fn(&'static Mpi, &'static Way, PathBuf) -> String,
) {
    let mut figure = Figure::new(name, title);
    let mut rows = vec![std::iter::once("").chain(WAYS.iter().map(|w| w.name)).map(String::from).collect::<Vec<_>>()];
    let mut reasons = Vec::new();
    for &mpi in MPIS.iter() {
        let mut row = vec![mpi.name.to_owned()];
        for way in &WAYS {
            row.push(match program(mpi, way, source, library) {
                Ok(program) => run(mpi, way, program),
                Err(reason) => {
                    reasons.push(format!("{}, {}: {reason}", mpi.name, way.name));
                    "-".into()
                }
            });
        }
        rows.push(row);
    }
    figure.table(&rows);
    for reason in reasons {
        figure.line(format!("- {reason}"));
    }
}

#[test]
fn fortran_with_c() {
    let title = "Fortran beside C under another MPI, 2 ranks each: values checked on both sides, all right";
    table("15-fortran", title, "half", Library::Linked, |mpi, way, program| {
        let other = if mpi.name.starts_with("openmpi") { "mpich4" } else { "openmpi4" };
        let other = Mpi::by_name(other).expect("an MPI of the table");
        let scene = Scene::new(format!("{} {} with C {}", way.name, mpi.name, other.name));
        let folder = scene.path("checkpoints").display().to_string();
        let open = scene.path("open");
        std::fs::create_dir(&open).expect("a folder of the scene");
        std::fs::write(open.join("sent"), "sent").expect("a file of the scene");
        user::give(&open);
        let opened = format!("{}:rw", open.display());
        let mirror = Launch::with(other, 2, "mirror", Library::Linked, &["ocean", "air"]);
        let jobs = [
            scene.start(Launch::of(mpi, 2, program, Library::Linked, &["air", "ocean", &folder])),
            scene.start(mirror.env("MPI_CONNECT_FILES", &opened)),
        ];
        let done = scene.pass(jobs, LIMIT);
        scene.require(done.iter().all(|d| d.checks() > 0), "both check something");
        let got = std::fs::read_to_string(scene.path("got")).unwrap_or_default();
        scene.require(got == "sent", &format!("the file has come: {got}"));
        done.iter().map(|d| d.checks()).sum::<u64>().to_string()
    });
}

/// MPI's own ports, from programs that know nothing of the library: as server and as client, beside another MPI.
#[test]
fn fortran_at_ports() {
    let title = "Fortran at MPI's ports, server and client, with Fortran of another MPI, 2 ranks each: values checked, all right";
    table("17-fortran-ports", title, "ports", Library::None, |mpi, way, program| {
        let other = Mpi::by_name(if mpi.name.starts_with("openmpi") { "mpich4" } else { "openmpi4" });
        let other = other.expect("an MPI of the table");
        let theirs = self::program(other, &WAYS[0], "ports", Library::None).expect("mpif.h is everywhere");
        let mut checks = 0;
        for (server, client) in [((mpi, &program), (other, &theirs)), ((other, &theirs), (mpi, &program))] {
            let scene = Scene::new(format!("ports: {}, server {}, client {}", way.name, server.0.name, client.0.name));
            let service = format!("port of {}", scene.folder.display());
            let start = |(mpi, program): (_, &PathBuf), role| {
                scene.start(Launch::of(mpi, 2, program.clone(), Library::Preloaded, &[role, &service]))
            };
            let done = scene.pass([start(server, "server"), start(client, "client")], LIMIT);
            scene.require(done.iter().all(|d| d.checks() > 0), "both check something");
            checks += done.iter().map(|d| d.checks()).sum::<u64>();
        }
        checks.to_string()
    });
}

/// Neither linked nor joined: the library is preloaded into a program with every sentinel that the MPI has.
#[test]
fn native_fortran_prints_the_same() {
    let title = "native Fortran programs with and without the library, 3 ranks: lines printed, all the same";
    table("62-native-fortran", title, "native", Library::None, |mpi, way, program| {
        let scene = Scene::new(format!("native {}, {}", way.name, mpi.name));
        let run = |launch| {
            let [done] = scene.pass([scene.start(launch)], LIMIT);
            done
        };
        let launch = |library| Launch::of(mpi, 3, program.clone(), library, &[]);
        let without = run(launch(Library::None));
        // Once by `run`, which may log; once by the launcher alone, which must say nothing at all.
        let by_run = run(launch(Library::Preloaded));
        let alone = run(launch(Library::None).preloading(vec![library()]));
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let wanted = sorted(&without.stdout);
        for with in [&by_run, &alone] {
            let got = sorted(&with.stdout);
            scene.require(got == wanted, &format!("output differs; without:\n{wanted:#?}\nwith:\n{got:#?}"));
        }
        scene.require(alone.stderr == without.stderr, "the library prints to stderr unasked");
        wanted.len().to_string()
    });
}

/// What every Fortran layer does with handles, also those that no compiler here can reach.
#[test]
fn handles_as_integers() {
    let mut figure = Figure::new("16-integers", "requests and groups as INTEGERs of Fortran and back: values checked");
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("INTEGERs, {} and {}", a.name, b.name));
        let jobs = [
            scene.start(Launch::new(a, 2, "integers", &["air", "ocean"])),
            scene.start(Launch::new(b, 2, "integers", &["ocean", "air"])),
        ];
        for (mpi, done) in [a, b].iter().zip(scene.pass(jobs, LIMIT)) {
            figure.line(format!("{}: {}", mpi.name, done.checks()));
        }
    }
}
