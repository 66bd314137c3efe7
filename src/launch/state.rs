//! Launches that run: a folder of each, with a socket that tells what becomes of it and takes the order to stop.
//!
//! Invariant: the folder is the user's alone, so whoever reaches the socket may give orders.

use serde_json::{Value, json};
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SOCKET: &str = "socket";
/// Has what is always true of the launch, for when it does not answer.
const LASTING: &str = "lasting";
/// How long the other side may take for a line.
const PATIENCE: Duration = Duration::from_secs(5);
/// How old a folder is, at least, that a killed launch has left.
const STALE: Duration = Duration::from_secs(60);

/// The folder of all launches of this user on this host.
fn all() -> PathBuf {
    base::file::private_folder().join("launch")
}

/// The folder of one, and its socket.
pub struct Own {
    pub folder: PathBuf,
    pub listener: UnixListener,
    /// Those who wait for the end.
    waiting: Vec<UnixStream>,
}

impl Own {
    /// `lasting`: what is told of it all the time.
    pub fn make(id: &str, lasting: &Value) -> io::Result<Own> {
        for folder in [base::file::private_folder(), all()] {
            make_private(&folder)?;
        }
        let folder = all().join(id);
        make_private(&folder)?;
        fs::write(folder.join(LASTING), lasting.to_string())?;
        let listener = UnixListener::bind(folder.join(SOCKET))?;
        listener.set_nonblocking(true)?;
        Ok(Own { folder, listener, waiting: Vec::new() })
    }

    /// Answers who has come. True: the launch is to stop.
    pub fn answer(&mut self, status: &Value) -> bool {
        let mut stop = false;
        while let Ok((stream, _)) = self.listener.accept() {
            let asked = ask_line(&stream);
            let Ok(mut to) = stream.try_clone() else { continue };
            if to.write_all(format!("{status}\n").as_bytes()).is_ok() && asked.as_deref() == Some("stop") {
                stop = true;
                self.waiting.push(stream);
            }
        }
        stop
    }

    /// Tells those who wait how it ended, and leaves nothing.
    pub fn end(self, status: u8) {
        for mut stream in self.waiting {
            let _ = stream.write_all(format!("{}\n", json!({ "status": status })).as_bytes());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn make_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let meta = fs::symlink_metadata(folder)?;
    if !meta.is_dir() || meta.uid() != nix::unistd::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("{} is not a private folder of this user", folder.display())));
    }
    Ok(())
}

fn ask_line(stream: &UnixStream) -> Option<String> {
    stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(PATIENCE))).ok()?;
    let mut line = String::new();
    BufReader::new(stream.take(64)).read_line(&mut line).ok()?;
    Some(line.trim().to_owned())
}

/// One that runs, as it tells of itself.
pub struct Launch {
    pub(super) socket: PathBuf,
    pub told: Value,
}

impl Launch {
    pub fn text(&self, key: &str) -> &str {
        self.told[key].as_str().unwrap_or_default()
    }

    /// Its run, if it is in one.
    pub fn run(&self) -> Option<String> {
        Some(self.text("run")).filter(|run| !run.is_empty()).map(|run| format!("run {run}"))
    }

    pub fn process(&self) -> String {
        format!("process {}", self.told["pid"])
    }

    /// What people call it: its manifest, its run, its process.
    pub fn title(&self) -> String {
        let who: Vec<String> = self.run().into_iter().chain([self.process()]).collect();
        format!("{} ({})", self.text("manifest"), who.join(", "))
    }

    /// Whether a launch of another host, or a process that has called MPI_Comm_spawn, is to end it.
    pub fn is_of_another(&self) -> bool {
        self.told["there"] == true || self.told["spawned"] == true
    }

    /// Whether it has not answered in time.
    pub fn is_silent(&self) -> bool {
        self.told["answers"] == false
    }

    /// Tells it to stop, and waits for its end.
    pub fn stop(&self) -> io::Result<()> {
        // One that is about to end takes no more orders, and is gone then.
        self.order_stop().or_else(|e| if UnixStream::connect(&self.socket).is_err() { Ok(()) } else { Err(e) })
    }

    fn order_stop(&self) -> io::Result<()> {
        let stream = UnixStream::connect(&self.socket)?;
        (&stream).write_all(b"stop\n")?;
        // It closes the connection when all is over.
        (&stream).read_to_end(&mut Vec::new()).map(drop)
    }
}

/// Those that run, of this manifest or run if one is named. What a killed one has left is removed.
pub fn running(of: Option<&str>) -> Vec<Launch> {
    let entries = fs::read_dir(all()).into_iter().flatten();
    let mut found: Vec<Launch> = entries
        .filter_map(|entry| {
            let folder = entry.ok()?.path();
            let socket = folder.join(SOCKET);
            let stream = match UnixStream::connect(&socket) {
                Ok(stream) => stream,
                Err(e) => {
                    // One that is just being made does not listen yet.
                    let age = fs::metadata(&folder).and_then(|meta| meta.modified()).ok()?.elapsed().ok()?;
                    if e.kind() == io::ErrorKind::ConnectionRefused && age > STALE {
                        let _ = fs::remove_dir_all(&folder);
                    }
                    return None;
                }
            };
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            (&stream).write_all(b"status\n").ok()?;
            let mut line = String::new();
            let told = match BufReader::new(&stream).read_line(&mut line) {
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    let lasting = fs::read_to_string(folder.join(LASTING)).ok()?;
                    let mut told = serde_json::from_str::<Value>(&lasting).ok()?;
                    (told["answers"], told["jobs"]) = (json!(false), json!([]));
                    told
                }
                got => got.ok().and_then(|_| serde_json::from_str(&line).ok())?,
            };
            Some(Launch { socket, told })
        })
        .collect();
    let path = of.and_then(|of| fs::canonicalize(of).ok()).map(|path| path.display().to_string());
    let is_meant = |launch: &Launch| {
        let is_named =
            |of: &str| launch.text("run") == of || of.parse::<u64>().is_ok_and(|pid| launch.told["pid"] == pid);
        of.is_none_or(|of| is_named(of) || path.as_deref() == Some(launch.text("manifest")))
    };
    found.retain(is_meant);
    found.sort_by(|a, b| a.text("run").cmp(b.text("run")));
    found
}
