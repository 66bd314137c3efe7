//! `mpi-connect doctor`: what the command sees, and what is wrong with it.
//!
//! Invariant: what is found is told once for people and once as data; nothing is left behind but the folder for names,
//! which the first job would make too.

mod report;

use crate::ask::{Linking, ask, version_line};
use crate::elf::ElfError;
use crate::key::{self, KeyOption};
use crate::launcher::FindError;
use crate::names::{self, columns};
use crate::program::{Bound, Program, is_ours, obstacle};
use crate::{launcher, library, mpis};
use base::NO_LIBRARY;
use base::settings::{self, ADOPT, IFACE, LOG, METADATA, NAMING, PORTS};
use naming::{OpenError, State, StoreError};
use report::{Grade, Report};
use serde_json::{Value, json};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::canonicalize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use transports::registry::listen_addresses;
use trust::{Encrypt, FileError, Ring};

#[derive(clap::Args)]
pub struct Args {
    /// Folders of MPIs that are not in PATH
    #[arg(long, value_name = "DIR")]
    prefix: Vec<PathBuf>,
    /// What was found, as data: for other programs to read
    #[arg(long)]
    json: bool,
    /// Also show what is in order
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    key: KeyOption,
    /// A program: what it is bound to, and whether it can be served
    program: Option<OsString>,
}

/// What is asked about by name is shown in any case.
const PROGRAM: &str = "program";

/// Whether nothing is broken.
pub fn doctor(args: &Args) -> bool {
    let mut r = Report::default();
    if let Some(word) = &args.program {
        program_section(&mut r, word);
    }
    library_section(&mut r);
    key_section(&mut r, &args.key);
    naming_section(&mut r, &args.key);
    launcher_section(&mut r);
    mpi_section(&mut r, &args.prefix);
    interface_section(&mut r);
    variable_section(&mut r);
    if args.json {
        r.print_json()
    } else {
        r.print(|section| args.verbose || section == PROGRAM)
    }
    !r.is_broken()
}

fn program_section(r: &mut Report, word: &OsStr) {
    r.title(PROGRAM);
    let (path, executable) = match launcher::find(word) {
        Ok(path) => (path, true),
        // A library that a program loads may be asked about too.
        Err(FindError::NotExecutable(path)) => (path, false),
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            return r.mend("give its path");
        }
    };
    r.line(Grade::Good, &path.display().to_string());
    r.put("program", json!({ "path": path, "libraries": [] }));
    let it = match Program::read(&path) {
        Ok(it) => it,
        Err(e @ (ElfError::Io(_) | ElfError::Damaged(_))) => {
            r.line(Grade::Broken, &e.to_string());
            return r.mend("see that it can be read, and starts");
        }
        Err(e @ ElfError::Script(_)) => {
            return r.line(Grade::Odd, &format!("{e}: what that starts has to be asked about"));
        }
        // A shell may make something of it.
        Err(e) if executable => return r.line(Grade::Odd, &e.to_string()),
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            return r.mend("ask about a program, or about a library that one loads");
        }
    };
    if let Some(obstacle) = obstacle(&path) {
        r.line(Grade::Broken, &obstacle.to_string());
        r.mend(&obstacle.mend());
    }
    if it.is_static() && !it.elf.contains_mpi {
        r.line(Grade::Odd, "linked statically: nothing can be preloaded into it, only into what it starts");
    }
    let libraries = it.bound.iter().map(|bound| match bound {
        Bound::Mpi(library, family) => json!({ "kind": "MPI", "path": library, "abi": family.map(|f| f.to_string()) }),
        Bound::Ours(library) => json!({ "kind": "MPI_Connect", "path": library }),
        Bound::Part(library) => json!({ "kind": "part of an MPI", "path": library }),
        Bound::Missing(library) => json!({ "kind": "missing", "path": library }),
    });
    r.put("program", json!({ "path": path, "libraries": libraries.collect::<Value>() }));
    let mut mpi = None;
    for bound in &it.bound {
        match bound {
            Bound::Mpi(library, family) => {
                let family = family.map_or("unknown".into(), |f| f.to_string());
                let also = if mpi.is_some() { "also loads" } else { "bound to" };
                let grade = if mpi.is_some() || family == "unknown" { Grade::Odd } else { Grade::Good };
                r.line(grade, &format!("{also} {}, ABI: {family}", library.display()));
                mpi = Some(library);
            }
            Bound::Ours(library) if it.by_run => {
                r.line(Grade::Odd, &format!("linked with {}, found by 'mpi-connect run' only", library.display()));
                r.mend(&format!("to start it without, link it with {} too", library::rpath()));
            }
            Bound::Ours(library) if mpi.is_none() => {
                r.line(Grade::Good, &format!("linked with {}", library.display()));
            }
            Bound::Ours(_) => {
                r.line(
                    Grade::Odd,
                    "linked with libmpi_connect.so behind its MPI: that works by 'mpi-connect run' only",
                );
                r.mend("link with -lmpi_connect before the MPI");
            }
            Bound::Part(library) if it.sees_no_mpi() => {
                let text = "is no MPI, or a part of one: a stand-in for serial programs, or a tool";
                r.line(Grade::Odd, &format!("{} {text}", library.display()));
            }
            Bound::Part(_) => {}
            Bound::Missing(library) => {
                r.line(Grade::Broken, &format!("its library {library} is not found"));
                r.mend(&match it.gains_rights {
                    true if is_ours(library) => format!("{NO_VARIABLES}: link it with {} too", library::rpath()),
                    true => format!("{NO_VARIABLES}: link it with -Wl,-rpath,DIR too, DIR being that library's folder"),
                    false => "set LD_LIBRARY_PATH as for running the program".into(),
                });
            }
        }
    }
    if it.lacks_mpi() {
        let (what, mend) = NO_LIBRARY.split_once(". ").unwrap_or((NO_LIBRARY, "link it with its MPI"));
        r.line(Grade::Broken, what);
        r.mend(mend);
    } else if it.sees_no_mpi() && !it.elf.uses_mpi {
        r.line(
            Grade::Odd,
            match (it.elf.stripped, it.is_static()) {
                (true, true) => "its symbols are stripped, so whether MPI is within cannot be seen",
                (true, false) => {
                    "calls no MPI of its libraries; it may load one that does. Its symbols are stripped, so whether MPI is \
                     within cannot be seen"
                }
                (false, _) => "calls no MPI itself; it may load a library that does",
            },
        );
    }
}

/// Why a program that gains rights finds no more than what it was linked with.
const NO_VARIABLES: &str = "LD_LIBRARY_PATH and LD_PRELOAD mean nothing to a program that gains rights";

fn library_section(r: &mut Report) {
    r.title("library");
    r.put("library", Value::Null);
    let path = match library::find() {
        Ok(p) => p,
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            r.mend("build it (cargo build --release), or set MPI_CONNECT_LIB to libmpi_connect.so");
            return;
        }
    };
    r.line(Grade::Good, &path.display().to_string());
    r.put("library", json!({ "path": path, "preloadable": null }));
    let Ok(probe) = launcher::find(OsStr::new("true")) else { return };
    // The loader complains on stderr of what it cannot preload, and goes on.
    match ask(&probe, &[], Linking::Preload(&path)) {
        Some(said) if said.trim().is_empty() => {
            r.put("library", json!({ "path": path, "preloadable": true }));
            r.line(Grade::Good, "can be preloaded");
        }
        said => {
            r.put("library", json!({ "path": path, "preloadable": false }));
            r.line(Grade::Broken, &format!("cannot be preloaded: {}", said.unwrap_or_default().trim()));
            r.mend("build it on this machine, for this machine");
        }
    }
}

fn key_section(r: &mut Report, option: &KeyOption) {
    r.title("key");
    let wish = Encrypt::from_env();
    let encrypt = wish.as_ref().ok().map(|wish| match wish {
        Encrypt::Always => "always",
        Encrypt::Network => "network",
        Encrypt::Never => "never",
    });
    if let Err(e) = wish {
        r.line(Grade::Broken, &format!("{e}; jobs and servers do not start so"));
        r.mend("set MPI_CONNECT_ENCRYPT to one of its words, or unset it");
    }
    let data = |path: Option<&Path>, ring: Option<&Ring>| {
        let (own, others) = ring.map(key::identifiers).unzip();
        json!({ "path": path, "identifier": own, "accepted_too": others, "encrypt": encrypt })
    };
    r.put("key", data(None, None));
    let mend = "set MPI_CONNECT_KEY=file:PATH to a file of your own with mode 0600, or see `mpi-connect key --help`";
    let file = match option.file() {
        Ok(file) => file,
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            return r.mend(mend);
        }
    };
    r.put("key", data(Some(file.path()), None));
    match file.read() {
        Ok(ring) => {
            r.put("key", data(Some(file.path()), Some(&ring)));
            r.line(Grade::Good, &format!("{}: {}", file.path().display(), key::told(&ring)));
            r.line(Grade::Good, "both sides of a connection need a key in common");
        }
        Err(FileError::Io(_, path, e)) if e.kind() == ErrorKind::NotFound => {
            r.line(Grade::Good, &format!("{}: none yet; the first job makes it", path.display()));
        }
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            r.mend(match e {
                FileError::Open(..) => {
                    "take the rights of others away (chmod 600), and make a new one if they may have it"
                }
                _ => mend,
            });
        }
    }
    match encrypt {
        Some("never") => r.line(Grade::Odd, "nothing is encrypted between hosts: MPI_CONNECT_ENCRYPT is never"),
        Some("always") => r.line(Grade::Good, "TCP is encrypted, within a host too"),
        Some(_) => r.line(Grade::Good, "what leaves the host is encrypted"),
        None => {}
    }
}

fn naming_section(r: &mut Report, option: &KeyOption) {
    r.title("naming");
    r.put("naming", Value::Null);
    let store = match naming::default_url()
        .and_then(|url| naming::open_trusting(&url, &naming::default_run()?, || option.trust_known()))
    {
        Ok(s) => s,
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            return r.mend(match e {
                OpenError::Key(..) => "mend the key: see above",
                OpenError::Run(_) => "unset MPI_CONNECT_RUN, or set it to a name of 1 to 255 bytes",
                _ => "unset MPI_CONNECT_NAMING, or set it to file:DIR or tcp://HOST:PORT",
            });
        }
    };
    r.line(Grade::Good, &store.describe());
    let was_missing = env::var_os(NAMING).is_some_and(|v| !v.is_empty()) && names::is_missing(store.as_ref());
    let checked = store.check();
    let usable = checked.is_ok();
    match checked {
        Ok(notes) => {
            let is_folder = store.url().starts_with("file:");
            r.line(Grade::Good, if is_folder { "names can be claimed and are locked" } else { "names can be claimed" });
            notes.iter().for_each(|n| r.line(Grade::Odd, n));
            if was_missing {
                // The check has made it.
                let _ = store.url().strip_prefix("file:").map(std::fs::remove_dir);
                r.line(Grade::Odd, "there is no such folder yet: the first job that registers a name makes it");
                r.mend("see that it is the one that you mean, and that both jobs have the same");
            }
        }
        Err(e) => {
            r.line(Grade::Broken, &e.to_string());
            r.mend(match e {
                StoreError::Untrusted(_) => "give both sides the same key, MPI_CONNECT_ENCRYPT and release",
                StoreError::Unreachable(_) | StoreError::StoreAway(_) | StoreError::Refused(..) => {
                    "start 'mpi-connect serve' there, or set MPI_CONNECT_NAMING to a server that runs"
                }
                _ => "set MPI_CONNECT_NAMING=file:DIR to a folder of yours that both jobs see",
            });
        }
    }
    let mut counts = [None; 2];
    match store.list() {
        Ok(all) => {
            let [live, left] = [State::Live, State::LeftOver].map(|s| all.iter().filter(|(_, of)| *of == s).count());
            counts = [live, left].map(Some);
            let others = match all.len() - live - left {
                0 => String::new(),
                n => format!(", {n} of another version or user"),
            };
            r.line(Grade::Good, &format!("{live} live names, {left} left over{others}"));
        }
        Err(e) if usable => r.line(Grade::Odd, &e.to_string()),
        Err(_) => (),
    }
    let [live, left_over] = counts;
    r.put("naming", json!({ "url": store.url(), "usable": usable, "live": live, "left_over": left_over }));
}

fn launcher_section(r: &mut Report) {
    const WORDS: [&str; 12] = [
        "mpirun",
        "mpiexec",
        "orterun",
        "prterun",
        "mpirun.openmpi",
        "mpirun.mpich",
        "mpiexec.mpich",
        "mpiexec.hydra",
        "mpirun.lam",
        "srun",
        "aprun",
        "jsrun",
    ];
    r.title("launchers");
    let mut rows: Vec<[String; 3]> = Vec::new();
    let mut data = Vec::new();
    for word in WORDS {
        let Ok(path) = launcher::find(OsStr::new(word)) else { continue };
        let real = canonicalize(&path).unwrap_or_else(|_| path.clone());
        let text = ask(&path, &["--version"], Linking::Bare).unwrap_or_default();
        let (kind, version) = (launcher::recognise(&path).to_string(), version_line(&text));
        let said = format!("{kind}; {version}");
        data.push(json!({ "path": path, "file": real, "kind": kind, "version": version }));
        rows.push([path.display().to_string(), format!("-> {}", real.display()), said]);
    }
    r.put("launchers", data.into());
    match rows.is_empty() {
        true => r.line(Grade::Odd, "none in PATH; 'mpi-connect run' also starts plain programs"),
        false => columns(&rows).lines().for_each(|l| r.line(Grade::Good, l)),
    }
}

fn mpi_section(r: &mut Report, prefixes: &[PathBuf]) {
    r.title("MPIs");
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut unknown = Vec::new();
    let mut data = Vec::new();
    for library in mpis::libraries(prefixes) {
        data.push(json!({ "path": library.path, "abi": library.family.map(|f| f.to_string()) }));
        let path = library.path.display().to_string();
        match library.family {
            Some(family) => rows.push([path, format!("ABI: {family}")]),
            None => unknown.push(path),
        }
    }
    r.put("mpi_libraries", data.into());
    columns(&rows).lines().for_each(|l| r.line(Grade::Good, l));
    for path in &unknown {
        r.line(Grade::Odd, &format!("{path}: an ABI that this version does not know"));
    }
    if rows.is_empty() && unknown.is_empty() {
        r.line(Grade::Odd, "no library found; those of a folder DIR are shown by --prefix DIR");
    }
    let mut data = Vec::new();
    // The program that only this MPI has, and what beside it tells the version.
    for (word, teller, args) in [
        ("ompi_info", "ompi_info", ["--version"].as_slice()),
        ("mpichversion", "mpichversion", &[]),
        ("impi_info", "mpiexec.hydra", &["--version"]),
    ] {
        let given = prefixes.iter().map(|p| p.join("bin").join(word));
        for path in launcher::find(OsStr::new(word)).into_iter().chain(given).filter(|p| p.is_file()) {
            let path = path.with_file_name(teller);
            let version = version_line(&ask(&path, args, Linking::Bare).unwrap_or_default());
            r.line(Grade::Good, &format!("{}: {version}", path.display()));
            data.push(json!({ "path": path, "version": version }));
        }
    }
    r.put("mpi_versions", data.into());
}

fn interface_section(r: &mut Report) {
    r.title("interfaces");
    let setting = env::var(IFACE).ok().filter(|v| !v.trim().is_empty());
    match listen_addresses(setting.as_deref()) {
        Ok(all) => {
            let loopback_alone = all.iter().all(|a| a.ip().is_loopback());
            let all: Vec<String> = all.iter().map(|a| a.ip().to_string()).collect();
            r.put("interfaces", json!({ "setting": setting, "addresses": all }));
            r.line(Grade::Good, &format!("ranks listen on {}", all.join(", ")));
            if loopback_alone {
                let why = if setting.is_some() { IFACE } else { "no interface of this host leads to another" };
                r.line(Grade::Good, &format!("so only jobs on this host can join ({why})"));
            }
        }
        Err(e) => {
            r.put("interfaces", json!({ "setting": setting, "addresses": [] }));
            r.line(Grade::Broken, &format!("{IFACE}: {e}"));
            r.mend(&format!("set {IFACE} to one of the interfaces that 'ip address' shows, or to all"));
        }
    }
}

fn variable_section(r: &mut Report) {
    r.title("variables");
    let mut rows = vec![["NAME", "VALUE", "DEFAULT", "MEANING"].map(String::from)];
    for s in settings::ALL {
        let value = env::var_os(s.name).map_or("-".into(), |v| v.to_string_lossy().into_owned());
        rows.push([s.name.into(), value, s.default.into(), s.meaning.into()]);
    }
    let settings = settings::ALL.iter().map(|s| {
        let value = env::var_os(s.name).map(|v| v.to_string_lossy().into_owned());
        json!({ "name": s.name, "value": value, "default": s.default, "meaning": s.meaning })
    });
    r.put("settings", settings.collect());
    columns(&rows).lines().for_each(|l| r.line(Grade::Good, l));
    for (name, value) in env::vars_os() {
        let [name, value] = [name, value].map(|text| text.to_string_lossy().into_owned());
        // Those two are judged by use.
        let Some(what) = settings::complaint(&name, &value).filter(|_| ![NAMING, METADATA].contains(&name.as_str()))
        else {
            continue;
        };
        // A job starts all the same.
        if settings::is_unknown(&name) || [LOG, ADOPT, PORTS].contains(&name.as_str()) {
            r.line(Grade::Odd, &what);
        } else {
            r.line(Grade::Broken, &what);
        }
        if !settings::is_unknown(&name) {
            r.mend(&format!("unset {name}, or give it a value of that form"));
        }
    }
    if let Err(e) = naming::metadata_from_env() {
        r.line(Grade::Broken, &format!("{METADATA}: {e}"));
        r.mend(&format!("unset {METADATA}, or set it to key=value, with commas between"));
    }
}
