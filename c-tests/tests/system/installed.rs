//! What `make install` puts there: all of it goes again, and CMake finds it.

use c_tests::{Launch, Library, Mpi, Scene, make, root};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Everything below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut all: Vec<_> = entries.map(|e| e.expect("a readable folder").path()).collect();
    let deeper: Vec<_> = all.iter().filter(|p| !p.is_symlink()).flat_map(|p| below(p)).collect();
    all.extend(deeper);
    all.sort();
    all
}

/// Nothing stays in a folder of one's own. In one that others use, all of theirs and the folders of every system.
#[test]
fn uninstall_removes_what_install_put() {
    let scene = Scene::new("installed, and removed");
    let destination = scene.path("root");
    let to = format!("DESTDIR={}", destination.display());
    let prefixes = ["/opt/mpi-connect", "/usr/local"];
    for prefix in prefixes {
        let folder = destination.join(&prefix[1..]);
        for kept in ["bin", "include", "lib", "share"] {
            std::fs::create_dir_all(folder.join(kept)).expect("the scene's folder");
        }
        let theirs = folder.join("lib/libmpi.so");
        if prefix == "/usr/local" {
            std::fs::write(&theirs, "").expect("the scene's folder");
        }
        let before = below(&folder);
        make(&["install", &to, &format!("PREFIX={prefix}")]);
        let installed = below(&folder);
        for needed in [
            "bin/mpi-connect",
            "lib/libmpi_connect.so",
            "lib/libmpi_connect.so.0",
            "include/mpi_connect.h",
            "share/doc/mpi-connect/coverage.md",
        ] {
            scene.require(folder.join(needed).is_file(), &format!("{needed} is not installed: {installed:?}"));
        }
        make(&["uninstall", &to, &format!("PREFIX={prefix}")]);
        let left = if prefix == "/usr/local" { before } else { Vec::new() };
        assert_eq!(below(&folder), left, "left by `make uninstall PREFIX={prefix}`");
    }
}

/// What a program asks the dynamic linker for, in order.
fn needed(program: &Path) -> Vec<String> {
    let read = Command::new("readelf").arg("-d").arg(program).output().expect("readelf");
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let names = text.lines().filter(|l| l.contains("(NEEDED)"));
    names.filter_map(|l| Some(l.split_once('[')?.1.split_once(']')?.0.to_owned())).collect()
}

/// The examples in C and in Fortran, with the library named before the MPI, behind it, and by a part of the program.
const PROJECT: &str = r#"cmake_minimum_required(VERSION 3.17)
project(orders C Fortran)
find_package(MPI REQUIRED COMPONENTS C Fortran)
find_package(MPI_Connect 0.1 REQUIRED)
foreach(model air ocean)
    add_executable(${model}-first ${EXAMPLES}/c/${model}.c)
    target_link_libraries(${model}-first PRIVATE MPI_Connect::MPI_Connect ${MPI_C_LIBRARIES})
    add_executable(${model}-last ${EXAMPLES}/c/${model}.c)
    target_link_libraries(${model}-last PRIVATE ${MPI_C_LIBRARIES} MPI_Connect::MPI_Connect)
    foreach(order first last)
        target_include_directories(${model}-${order} PRIVATE ${MPI_C_INCLUDE_DIRS})
    endforeach()
    add_library(${model}-part STATIC ${EXAMPLES}/c/${model}.c)
    target_link_libraries(${model}-part PRIVATE MPI::MPI_C MPI_Connect::MPI_Connect)
    add_executable(${model}-by-part empty.c)
    target_link_libraries(${model}-by-part PRIVATE MPI::MPI_C ${model}-part)
    add_executable(${model}-fortran ${EXAMPLES}/fortran-f08/${model}.f90 ${MPI_Connect_F08_SOURCES})
    target_link_libraries(${model}-fortran PRIVATE ${MPI_Fortran_LIBRARIES} MPI_Connect::MPI_Connect)
    target_include_directories(${model}-fortran PRIVATE ${MPI_Fortran_INCLUDE_DIRS})
    set_target_properties(${model}-fortran PROPERTIES Fortran_MODULE_DIRECTORY ${CMAKE_BINARY_DIR}/${model}-modules)
endforeach()
"#;

/// Whatever order a project writes, and also for a linker that leaves out what seems unused, the library comes first; and
/// what is built so runs.
#[test]
fn cmake_puts_it_before_the_mpi() {
    let scene = Scene::new("find_package(MPI_Connect)");
    let prefix = scene.path("installed");
    make(&["install", &format!("PREFIX={}", prefix.display())]);
    let project = scene.path("project");
    std::fs::create_dir(&project).expect("the scene's folder");
    std::fs::write(project.join("CMakeLists.txt"), PROJECT).expect("the scene's folder");
    std::fs::write(project.join("empty.c"), "").expect("the scene's folder");
    let pair = ["openmpi4", "mpich4"].map(|name| Mpi::by_name(name).expect("in the table"));
    for mpi in pair {
        let build = scene.path(mpi.name);
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&project).arg("-B").arg(&build);
        configure.arg(format!("-DEXAMPLES={}", root().join("examples").display()));
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        configure.arg(format!("-DMPI_C_COMPILER={}", mpi.compiler()[0][0]));
        configure.arg(format!("-DMPI_Fortran_COMPILER={}", mpi.fortran()[0][0]));
        configure.arg("-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed");
        for command in [&mut configure, Command::new("cmake").arg("--build").arg(&build)] {
            let done = command.output().expect("cmake");
            let said = [done.stdout, done.stderr].concat();
            assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
        }
    }
    for kind in ["first", "last", "by-part", "fortran"] {
        let [air, ocean] = [("air", pair[0]), ("ocean", pair[1])].map(|(model, mpi)| {
            let program = scene.path(mpi.name).join(format!("{model}-{kind}"));
            let libraries = needed(&program);
            let right = libraries[0] == "libmpi_connect.so.0" && libraries[1..].iter().any(|l| l.starts_with("libmpi"));
            scene.require(right, &format!("{model}-{kind} needs {libraries:?}"));
            Launch::of(mpi, 2, program, Library::Linked, &[])
        });
        let done = scene.pass([scene.start(air), scene.start(ocean)], LIMIT);
        let all: String = done.iter().map(|d| d.stdout.as_str()).collect();
        for line in ["air 1: the ocean has 19.437 degrees", "ocean 1: 19.437 degrees"] {
            scene.require(all.contains(line), &format!("{kind}: nobody printed: {line}"));
        }
    }
}
