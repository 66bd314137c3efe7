//! The command `mpi-connect`, which starts jobs for this process.

use super::tie::Tie;
use crate::failure::{Class, Failure};
use crate::forward::origin;
use base::families;
use base::settings::{COMMAND, PARENT};
use base::spawn::Request;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

const NAME: &str = "mpi-connect";
const PRELOAD: &str = "LD_PRELOAD";

/// Starts the command with this request. It does not belong to this process: no signal of a terminal reaches it, and the program
/// does not meet it when it waits for its children.
pub fn start(request: &Request) -> Result<Tie, Failure> {
    let program = find()?;
    let fail =
        |e: io::Error| Failure::new(Class::Spawn, format!("starting {}: {e}{}", program.display(), base::mend(&e)));
    let (mut ours, theirs) = UnixStream::pair().map_err(fail)?;
    let mut command = Command::new(&program);
    command.arg("launch-spawned").env_remove(PARENT).stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0);
    match env::var_os(PRELOAD).map(|list| others(&list)) {
        Some(list) if !list.is_empty() => command.env(PRELOAD, list),
        _ => command.env_remove(PRELOAD),
    };
    // It starts another process, and is gone at once.
    let status = command.status().map_err(fail)?;
    if !status.success() {
        return Err(Failure::new(Class::Spawn, format!("{} has ended with {status}", program.display())));
    }
    let body = request.encode();
    let told = ours.write_all(&(body.len() as u32).to_le_bytes()).and_then(|()| ours.write_all(&body));
    told.and_then(|()| ours.set_nonblocking(true)).map_err(fail)?;
    Ok(Tie::new(ours))
}

/// What is preloaded into this process besides this library and its MPI, which are none of the job's.
fn others(list: &OsStr) -> OsString {
    let is_other = |path: &&[u8]| {
        let file = String::from_utf8_lossy(path.rsplit(|b| *b == b'/').next().unwrap_or_default()).into_owned();
        !path.is_empty() && !file.starts_with("libmpi_connect.so") && !families::is_library(&file)
    };
    let all: Vec<&[u8]> = list.as_bytes().split(|b| [b':', b' '].contains(b)).filter(is_other).collect();
    OsStr::from_bytes(&all.join(&b':')).to_owned()
}

fn find() -> Result<PathBuf, Failure> {
    if let Some(told) = env::var_os(COMMAND).filter(|told| !told.is_empty()) {
        let told = PathBuf::from(told);
        if told.is_file() {
            return Ok(told);
        }
        let text = format!("{COMMAND} leads to {}, which is no file", told.display());
        return Err(Failure::new(Class::Spawn, text));
    }
    let own = origin(find as *const () as *const _).map(|(path, _)| PathBuf::from(OsStr::from_bytes(path.to_bytes())));
    let own = own.and_then(|path| fs::canonicalize(path).ok()).unwrap_or_default();
    let beside = own.parent().unwrap_or(Path::new("/"));
    // As the command looks for the library, the other way round; the last is Debian's.
    let places = [beside.join(NAME), beside.join("../bin").join(NAME), beside.join("../../bin").join(NAME)];
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join(NAME));
    places.iter().cloned().chain(on_path).find(|place| place.is_file()).ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        let text =
            format!("there is no command {}, nor one in PATH; say where it is with {COMMAND}", looked.join(", "));
        Failure::new(Class::Spawn, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_gets_what_others_have_preloaded() {
        for (list, left) in [
            ("/a/libmpi_connect.so.0", ""),
            ("/a/libmpi_connect.so:/b/tool.so /c/libmpi.so.40", "/b/tool.so"),
            ("", ""),
            ("x.so:y.so", "x.so:y.so"),
        ] {
            assert_eq!(others(list.as_ref()), left, "{list}");
        }
    }
}
