//! Names that the MPI lacks are not offered by the library either.

use crate::functions::{self, Function};
use c_tests::{Done, Figure, Launch, Library, MPIS, Scene, compile_tool, compile_with, library, root};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// Drops the MPI, of which the program calls nothing.
const WITHOUT_MPI: &[&str] = &["-Wl,--as-needed"];
const WITH_MPI: &[&str] = &["-DGAPS_WITH_MPI"];

/// All names that the library can offer, one a line.
fn write_names(to: &Path) -> usize {
    let table = std::fs::read_to_string(root().join("shim/api/functions.txt")).expect("the table");
    let sections = functions::parse(&table).expect("a table without faults");
    let exported = sections.iter().filter(|s| s.way.is_exported()).flat_map(|s| &s.functions);
    let names: Vec<String> = exported.map(Function::c_name).flat_map(|name| [format!("P{name}"), name]).collect();
    std::fs::write(to, names.join("\n")).expect("the scene's folder");
    names.len()
}

/// The program sees the same names with the library as without: by dlsym at its start, and by the weak references of a
/// library that it loads late.
#[test]
fn lacking_names_stay_lacking() {
    let mut figure =
        Figure::new("62-names", "names of the table that a program finds by dlsym, with and without the library");
    for &mpi in MPIS.iter() {
        for (title, flags) in [("with its MPI", WITH_MPI), ("loading its MPI late", WITHOUT_MPI)] {
            let scene = Scene::new(format!("names of {}, a program {title}", mpi.name));
            let names = scene.path("names");
            let all = write_names(&names);
            let program = compile_with(mpi, "gaps", Library::None, flags);
            let plugin = compile_tool(mpi, "gaps_plugin", "plugin");
            let run = |preload| {
                let arguments = [names.to_str().expect("plain text"), plugin.to_str().expect("plain text")];
                let launch = Launch::of(mpi, 1, program.clone(), Library::None, &arguments).preloading(preload);
                let [done] = scene.pass([scene.start(launch)], LIMIT);
                done
            };
            let (without, with) = (run(vec![]), run(vec![library()]));
            let differing: Vec<_> = with.stdout.lines().filter(|l| !without.stdout.contains(*l)).take(9).collect();
            scene.require(with.stdout == without.stdout, &format!("with the library: {differing:#?}"));
            let seen = |done: &Done| done.lines("start").filter(|l| l.ends_with(" seen")).count();
            scene.require(seen(&with) > 100 || flags == WITHOUT_MPI, "most names are there");
            // What was bound before the library could act is there, and says so.
            let late = with.stdout.contains("start MPI_Isendrecv_replace_c lacking") && flags == WITH_MPI;
            let said = with.stderr.lines().filter(|l| *l == "EARLY unsupported").count();
            scene.require(said == usize::from(late), &format!("early references: {}", with.stderr));
            figure.line(format!("{}, a program {title}: {} of {all}", mpi.name, seen(&with)));
        }
    }
}

/// In a process without an MPI the library says nothing, starts nothing and offers none of MPI's names.
#[test]
fn inert_without_an_mpi() {
    let look = "import ctypes, os; d = ctypes.CDLL(None); names = ['MPI_Init', 'PMPI_Send', 'MPI_Send_c']; \
                print([n for n in names if hasattr(d, n)], hasattr(d, 'MPI_Conn_register'), \
                len(os.listdir('/proc/self/task')))";
    let done = Command::new("python3").args(["-c", look]).env("LD_PRELOAD", library()).output().expect("python3");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "[] True 1\n");
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
}
