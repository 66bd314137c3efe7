//! The arguments of MPI_Comm_spawn and MPI_Comm_spawn_multiple, as what the command is asked for.

use super::soft;
use crate::abi;
use crate::failure::{Class, Failure};
use crate::forward::Handle;
use crate::port::info::Info;
use base::protocol::spawn::MAX_SPAWN;
use base::spawn::{Program, Request};
use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

const LAUNCHER: &str = "mpi_connect_launcher";
const MANIFEST: &str = "mpi_connect_manifest";
const JOB: &str = "mpi_connect_job";
/// What keys of this library's begin with, whoever mistypes the rest.
const OWN: &str = "mpi_connect_";

/// What is asked for, but for the port.
pub struct Call {
    pub request: Request,
    pub timeout: Option<Duration>,
}

/// One command, as the program passes it.
#[derive(Clone, Copy)]
pub struct Command {
    /// A string, or null.
    pub name: usize,
    /// An array of strings with a null pointer at its end, or null.
    pub argv: usize,
    pub most: c_int,
    pub info: Handle,
}

/// Whether this library is to start them.
pub fn is_asked(commands: &[Command]) -> bool {
    commands.iter().any(|command| !own_keys(Info::of(command.info)).is_empty())
}

/// The keys that are meant for this library.
fn own_keys(info: Info) -> Vec<String> {
    info.all().into_iter().map(|(key, _)| key).filter(|key| key.starts_with(OWN)).collect()
}

/// How many processes are asked for, and so error codes.
pub fn number(commands: &[Command]) -> usize {
    commands.iter().map(|command| command.most.max(0) as usize).sum()
}

fn bad(text: impl Into<String>) -> Failure {
    Failure::new(Class::Arg, text)
}

fn spawn(text: impl Into<String>) -> Failure {
    Failure::new(Class::Spawn, text)
}

impl Call {
    /// # Safety
    /// The commands are the program's.
    pub unsafe fn of(commands: &[Command]) -> Result<Call, Failure> {
        let mut request = Request::default();
        let mut timeout = None;
        for command in commands {
            let info = Info::of(command.info);
            let known = [LAUNCHER, MANIFEST, JOB];
            if let Some(key) = own_keys(info).iter().find(|key| !known.contains(&key.as_str())) {
                return Err(spawn(format!("{key}: there is no such key, but {}", known.join(", "))));
            }
            // SAFETY: the caller's promise.
            request.programs.push(unsafe { program(command, info) }?);
            timeout = timeout.or(info.timeout()?);
            let Request { launcher, manifest, job, host, .. } = &mut request;
            for (key, of) in [(LAUNCHER, launcher), (MANIFEST, manifest), (JOB, job), ("host", host)] {
                let Some(value) = info.get(key) else { continue };
                if of.as_ref().is_some_and(|other| *other != value) {
                    return Err(spawn(format!(
                        "{key}: the processes of one call share MPI_COMM_WORLD, so all of its commands are started alike; \
                         call MPI_Comm_spawn for each"
                    )));
                }
                *of = Some(value);
            }
        }
        if commands.is_empty() {
            return Err(bad("there is no command"));
        }
        Ok(Call { request, timeout })
    }
}

/// How many of a command are started.
fn ranks(most: c_int, info: Info) -> Result<u32, Failure> {
    let asked = u32::try_from(most).ok().filter(|n| *n > 0);
    let asked = asked.ok_or_else(|| bad(format!("maxprocs is {most}: a number from 1 on is expected")))?;
    match info.get("soft") {
        None => Ok(asked),
        Some(list) => soft::best(&list, asked)
            .ok_or_else(|| spawn(format!("soft: '{list}' has no number of processes from 1 to {asked}"))),
    }
}

/// Of each process that is asked for, whether it is one of those that are started.
pub fn started(commands: &[Command]) -> Vec<bool> {
    let of = |command: &Command| {
        let started = ranks(command.most, Info::of(command.info)).unwrap_or(0);
        (0..command.most.max(0) as u32).map(move |at| at < started)
    };
    commands.iter().flat_map(of).collect()
}

unsafe fn program(command: &Command, info: Info) -> Result<Program, Failure> {
    let Command { name, argv, most, .. } = *command;
    let ranks = ranks(most, info)?;
    let mut words = vec![match name {
        // So does LAM's Fortran layer pass a blank one.
        0 => String::new(),
        // SAFETY: the caller's string.
        name => unsafe { word(name) }?.trim().to_owned(),
    }];
    for at in 0.. {
        if argv == 0 {
            break;
        }
        // SAFETY: the caller's array, up to its end.
        let next = unsafe { (argv as *const usize).add(at).read() };
        if next == 0 {
            break;
        }
        // SAFETY: the caller's string.
        words.push(unsafe { word(next) }?);
    }
    if words.iter().map(|word| word.len() + 8).sum::<usize>() > MAX_SPAWN / 2 {
        return Err(spawn("the arguments are longer than a command line may be"));
    }
    Ok(Program { words, ranks, directory: info.get("wdir"), path: info.get("path") })
}

/// # Safety
/// `at` is a terminated string.
unsafe fn word(at: usize) -> Result<String, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(at as *const c_char) };
    text.to_str().map(str::to_owned).map_err(|_| bad("a command or an argument is not UTF-8"))
}

/// The commands of MPI_Comm_spawn_multiple.
///
/// # Safety
/// The arrays are the program's, of this length. Those of names and of arguments may be null.
pub unsafe fn several(count: c_int, [names, argvs, most, infos]: [usize; 4]) -> Vec<Command> {
    if most == 0 || infos == 0 {
        return Vec::new();
    }
    let width = abi::get().family.handle_bytes;
    let one = |at: usize| {
        // SAFETY: the caller's promise.
        unsafe {
            let argv = if argvs == 0 { 0 } else { (argvs as *const usize).add(at).read() };
            let name = if names == 0 { 0 } else { (names as *const usize).add(at).read() };
            Command {
                name,
                argv,
                most: (most as *const c_int).add(at).read(),
                info: abi::load_handle(infos + at * width),
            }
        }
    };
    (0..count.max(0) as usize).map(one).collect()
}
