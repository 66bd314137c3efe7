//! Opens what a path names below a folder, and nothing else, whatever links lie on the way.
//!
//! By openat2(2). Where the kernel has none, name after name is opened, and no link is followed.

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

/// How often a path is resolved anew when something was renamed meanwhile.
const TRIES: usize = 16;

/// The kernel has no openat2(2), or does not let us.
static LACKS: AtomicBool = AtomicBool::new(false);

/// Whether a path goes down only: names, and perhaps dots.
pub fn goes_down(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        && path.components().any(|part| matches!(part, Component::Normal(_)))
}

/// Opens it. `path` goes down.
pub fn open(folder: impl AsFd, path: &Path, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
    if !goes_down(path) {
        return Err(Errno::EXDEV.into());
    }
    if !LACKS.load(Ordering::Relaxed) {
        let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let mode = if flags.contains(OFlag::O_CREAT) { mode } else { Mode::empty() };
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode).resolve(resolve);
        for _ in 0..TRIES {
            match openat2(folder.as_fd(), path, how) {
                // Something was renamed on the way, so the kernel is not sure.
                Err(Errno::EAGAIN | Errno::EINTR) => (),
                // A filter of system calls may say that it is not permitted.
                Err(Errno::ENOSYS | Errno::EPERM) => break,
                opened => return Ok(opened?),
            }
        }
    }
    let opened = walk(folder, path, flags, mode);
    if opened.is_ok() {
        LACKS.store(true, Ordering::Relaxed);
    }
    opened
}

/// As [`open`], name after name.
fn walk(folder: impl AsFd, path: &Path, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
    let mut names: Vec<_> = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let Some(last) = names.pop() else { return Err(Errno::EXDEV.into()) };
    let fixed = OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let mut at: Option<OwnedFd> = None;
    for name in names {
        let flags = fixed | OFlag::O_PATH | OFlag::O_DIRECTORY;
        at = Some(step(at.as_ref(), &folder, name, flags, Mode::empty())?);
    }
    step(at.as_ref(), &folder, last, flags | fixed, mode)
}

fn step(at: Option<&OwnedFd>, folder: impl AsFd, name: Component<'_>, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
    let opened = match at {
        Some(at) => openat(at, name.as_os_str(), flags, mode),
        None => openat(folder, name.as_os_str(), flags, mode),
    };
    Ok(opened?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::tests::Scratch;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn folder(path: &Path) -> OwnedFd {
        nix::fcntl::open(path, OFlag::O_PATH | OFlag::O_DIRECTORY, Mode::empty()).unwrap()
    }

    /// Both ways agree on what is outside.
    #[test]
    fn nothing_outside_is_opened() {
        let scratch = Scratch::new();
        let open_to_others = scratch.path("open");
        fs::create_dir_all(open_to_others.join("deep")).unwrap();
        fs::write(scratch.path("secret"), "secret").unwrap();
        fs::write(open_to_others.join("deep/good"), "good").unwrap();
        symlink(scratch.path("secret"), open_to_others.join("absolute")).unwrap();
        symlink("../secret", open_to_others.join("relative")).unwrap();
        symlink("..", open_to_others.join("up")).unwrap();
        symlink("/proc/self/root", open_to_others.join("magic")).unwrap();
        let folder = folder(&open_to_others);
        let secret = scratch.path("secret");
        let up =
            ["../secret", "deep/../../secret", "absolute", "relative", "up/secret", "magic/etc/passwd", "/etc/passwd"];
        for path in up.into_iter().chain([secret.to_str().unwrap(), "", ".", "/"]) {
            assert!(open(&folder, Path::new(path), OFlag::O_RDONLY, Mode::empty()).is_err(), "{path}");
            if goes_down(Path::new(path)) {
                assert!(walk(&folder, Path::new(path), OFlag::O_RDONLY, Mode::empty()).is_err(), "{path}");
            }
        }
        for path in ["deep/good", "./deep/good", "deep/./good", "deep//good"] {
            open(&folder, Path::new(path), OFlag::O_RDONLY, Mode::empty()).unwrap();
            walk(&folder, Path::new(path), OFlag::O_RDONLY, Mode::empty()).unwrap();
        }
        // A link that stays inside is followed where the kernel sees to it.
        symlink("deep/good", open_to_others.join("inside")).unwrap();
        assert!(walk(&folder, Path::new("inside"), OFlag::O_RDONLY, Mode::empty()).is_err());
    }
}
