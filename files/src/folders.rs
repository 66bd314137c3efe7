//! The folders that a job has opened to others, and how a path leads into one of them.
//!
//! A path that begins at the root is looked for in the folder of which it is a part; any other one in each folder, in the
//! order of the setting.

use crate::beneath;
use crate::error::{Error, Kind};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// A folder that is open to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// Whether files may be written into it.
    pub is_writable: bool,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Folders(Vec<Folder>);

impl Folders {
    /// These folders; those that are no absolute paths are below the current one.
    pub fn new(folders: impl IntoIterator<Item = (PathBuf, bool)>) -> Folders {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let all = folders.into_iter().map(|(path, is_writable)| Folder { path: absolute(path), is_writable });
        Folders(all.collect())
    }

    /// The folders in which a path may lie, with what is left of it.
    fn of<'a>(&'a self, path: &'a Path) -> Result<Vec<(&'a Folder, &'a Path)>, Error> {
        let denied = |text| Err(Error::here(Kind::Denied, text));
        let shown = path.display();
        if self.0.is_empty() {
            return denied(format!("'{shown}' cannot be reached: no folder is open to others (MPI_CONNECT_FILES)"));
        }
        if path.as_os_str().is_empty() || path.as_os_str().as_bytes().contains(&0) {
            return Err(Error::here(Kind::NotAFile, "the path names no file"));
        }
        let mut found: Vec<(&Folder, &Path)> = if path.is_absolute() {
            let inside = |folder: &'a Folder| Some((folder, path.strip_prefix(&folder.path).ok()?));
            self.0.iter().filter_map(inside).collect()
        } else {
            self.0.iter().map(|folder| (folder, path)).collect()
        };
        let is_open_one = |rest: &Path| rest.components().all(|part| part == Component::CurDir);
        if found.iter().any(|(_, rest)| is_open_one(rest)) {
            return Err(Error::here(Kind::NotAFile, format!("'{shown}' is a folder")));
        }
        found.retain(|(_, rest)| beneath::goes_down(rest));
        if path.is_absolute() {
            // Of two folders of which one is below the other, the inner one's rights count.
            found.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.path.components().count()));
            found.truncate(1);
        }
        if found.is_empty() && path.components().any(|part| part == Component::ParentDir) {
            return denied(format!("'{shown}': a path with '..' is refused"));
        }
        if found.is_empty() {
            return denied(format!("'{shown}' lies in no folder that is open to others"));
        }
        Ok(found)
    }

    /// Opens a file to be read.
    pub fn open(&self, path: &[u8]) -> Result<File, Error> {
        let path = Path::new(OsStr::from_bytes(path));
        self.first(path, |folder, rest| {
            let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
            beneath::open(folder, rest, flags, Mode::empty()).map(File::from)
        })
        .and_then(|file| {
            let about = file.metadata().map_err(|e| Error::of(&e, path.display()))?;
            if about.is_file() {
                Ok(file)
            } else {
                Err(Error::here(Kind::NotAFile, format!("'{}' is no file", path.display())))
            }
        })
    }

    /// Opens the folder into which a file is to be written, and gives the file's own name.
    pub fn to_write(&self, path: &[u8]) -> Result<(OwnedFd, OsString), Error> {
        let path = Path::new(OsStr::from_bytes(path));
        let all = self.of(path)?;
        let no_file = || Error::here(Kind::NotAFile, format!("'{}' names no file", path.display()));
        let writable: Vec<_> = all.into_iter().filter(|(folder, _)| folder.is_writable).collect();
        if writable.is_empty() {
            let text = format!("'{}' lies in a folder that is open for reading alone", path.display());
            return Err(Error::here(Kind::ReadOnly, text));
        }
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(no_file());
        }
        let name = path.file_name().ok_or_else(no_file)?.to_owned();
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        first(path, writable, |folder, rest| match rest.parent().filter(|parent| beneath::goes_down(parent)) {
            Some(parent) => beneath::open(folder, parent, flags, Mode::empty()),
            // The folder itself, to which its owner may have made a link.
            None => Ok(nix::fcntl::openat(folder, ".", flags | OFlag::O_CLOEXEC, Mode::empty())?),
        })
        .map(|parent| (parent, name))
    }

    /// What `open` makes of the first folder that has it.
    fn first<T>(&self, path: &Path, open: impl Fn(&OwnedFd, &Path) -> std::io::Result<T>) -> Result<T, Error> {
        first(path, self.of(path)?, open)
    }
}

fn first<T>(
    path: &Path,
    folders: Vec<(&Folder, &Path)>,
    make: impl Fn(&OwnedFd, &Path) -> std::io::Result<T>,
) -> Result<T, Error> {
    let mut last = None;
    for (folder, rest) in folders {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = open(&folder.path, flags, Mode::empty()).map_err(std::io::Error::from);
        match opened.and_then(|opened| make(&opened, rest)) {
            Ok(made) => return Ok(made),
            Err(e) => {
                let error = Error::below(&e, path.display());
                if error.kind != Kind::NoSuchFile {
                    return Err(error);
                }
                last.get_or_insert(error);
            }
        }
    }
    Err(last.unwrap_or_else(|| Error::here(Kind::NoSuchFile, format!("there is no '{}'", path.display()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::tests::Scratch;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn kind<T>(result: Result<T, Error>) -> Option<Kind> {
        result.err().map(|e| e.kind)
    }

    #[test]
    fn a_path_leads_into_the_folder_that_has_it() {
        let scratch = Scratch::new();
        let place = |name: &str| scratch.path(name);
        for folder in ["a/sub", "b", "a/inner"] {
            fs::create_dir_all(place(folder)).unwrap();
        }
        fs::write(place("b/x"), "b").unwrap();
        fs::write(place("a/sub/y"), "y").unwrap();
        fs::write(place("outside"), "o").unwrap();
        let folders = Folders::new([(place("a"), false), (place("b"), true), (place("a/inner"), true)]);
        let text = |path: &Path| -> Option<String> {
            let mut text = String::new();
            folders.open(path.as_os_str().as_bytes()).ok()?.read_to_string(&mut text).unwrap();
            Some(text)
        };
        for (path, content) in [("x", "b"), ("sub/y", "y"), ("./sub/y", "y")] {
            assert_eq!(text(Path::new(path)).as_deref(), Some(content), "{path}");
        }
        assert_eq!(text(&place("a/sub/y")).as_deref(), Some("y"));
        assert_eq!(kind(folders.open(place("outside").as_os_str().as_bytes())), Some(Kind::Denied));
        assert_eq!(kind(folders.open(b"../outside")), Some(Kind::Denied));
        assert_eq!(kind(folders.open(place("a/../outside").as_os_str().as_bytes())), Some(Kind::Denied));
        let said = |path: &[u8]| folders.open(path).unwrap_err().text;
        assert_eq!(said(b"sub/../y"), "'sub/../y': a path with '..' is refused");
        symlink(place("outside"), place("b/out")).unwrap();
        symlink("loop", place("b/loop")).unwrap();
        // Where the kernel does not see to links, none is followed.
        let leads_out = ["leads out of the folder that is open", "is not followed"]
            .map(|end| format!("'out': a link on the way {end}"));
        assert!(leads_out.contains(&said(b"out")), "{}", said(b"out"));
        assert_eq!(said(b"loop"), "'loop': a link on the way is not followed");
        assert_eq!(kind(folders.open(b"none")), Some(Kind::NoSuchFile));
        assert_eq!(kind(folders.open(b"sub")), Some(Kind::NotAFile));
        assert_eq!(kind(folders.open(place("a").as_os_str().as_bytes())), Some(Kind::NotAFile));
        assert_eq!(kind(folders.to_write(b".")), Some(Kind::NotAFile));
        assert_eq!(kind(folders.open(b"")), Some(Kind::NotAFile));
        assert_eq!(kind(folders.open(b"a\0b")), Some(Kind::NotAFile));
        assert_eq!(kind(Folders::default().open(b"x")), Some(Kind::Denied));
        // The first folder that is open for writing takes what is new.
        assert_eq!(folders.to_write(b"new").unwrap().1, "new");
        assert_eq!(kind(folders.to_write(place("a/new").as_os_str().as_bytes())), Some(Kind::ReadOnly));
        assert!(folders.to_write(place("a/inner/new").as_os_str().as_bytes()).is_ok());
        assert_eq!(kind(folders.to_write(b"none/new")), Some(Kind::NoSuchFile));
        assert_eq!(kind(folders.to_write(b"new/")), Some(Kind::NotAFile));
        assert_eq!(kind(folders.to_write(b"..")), Some(Kind::Denied));
        assert_eq!(kind(Folders::new([(place("a"), false)]).to_write(b"new")), Some(Kind::ReadOnly));
    }
}
