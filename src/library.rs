//! Where `libmpi_connect.so` lies. For `run` and `doctor`.

use base::settings::LIB;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

/// Where it is built, and where programs are compiled.
const FILE: &str = "libmpi_connect.so";
/// Where programs only run.
const VERSIONED: &str = concat!("libmpi_connect.so.", env!("CARGO_PKG_VERSION_MAJOR"));

#[derive(Debug, PartialEq, Eq)]
pub enum LibraryError {
    /// `MPI_CONNECT_LIB` leads to no file.
    Told(PathBuf),
    NotFound(Vec<PathBuf>),
    /// `LD_PRELOAD` separates by these characters.
    Unpreloadable(PathBuf),
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LibraryError::Told(p) => write!(f, "{LIB} leads to {}, which is no file", p.display()),
            LibraryError::NotFound(places) => {
                let places: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
                write!(f, "{FILE} is not in {}; say where it is with {LIB}", places.join(", "))
            }
            LibraryError::Unpreloadable(p) => {
                write!(f, "{} cannot be preloaded: its path has a space or a colon", p.display())
            }
        }
    }
}

/// The library that goes with this command.
pub fn find() -> Result<PathBuf, LibraryError> {
    let exe = env::current_exe().and_then(fs::canonicalize).unwrap_or_default();
    find_by(env::var_os(LIB).filter(|v| !v.is_empty()), exe.parent().unwrap_or(Path::new("/")))
}

/// What makes a program find that library by itself.
pub fn rpath() -> String {
    let folder = find().ok().and_then(|p| Some(p.parent()?.display().to_string()));
    format!("-Wl,-rpath,{}", folder.as_deref().unwrap_or("DIR"))
}

fn find_by(told: Option<OsString>, beside: &Path) -> Result<PathBuf, LibraryError> {
    if let Some(told) = told {
        let p = PathBuf::from(told);
        return if p.is_file() { usable(&p) } else { Err(LibraryError::Told(p)) };
    }
    // The last is Debian's.
    let debian = format!("../lib/{}-linux-gnu", env::consts::ARCH);
    let places = [beside.to_path_buf(), beside.join("../lib"), beside.join("../lib64"), beside.join(debian)];
    match places.iter().flat_map(|d| [d.join(FILE), d.join(VERSIONED)]).find(|p| p.is_file()) {
        Some(p) => usable(&p),
        None => Err(LibraryError::NotFound(places.to_vec())),
    }
}

/// The absolute path, if `LD_PRELOAD` can hold it.
pub fn usable(p: &Path) -> Result<PathBuf, LibraryError> {
    let p = fs::canonicalize(p).map_err(|_| LibraryError::Told(p.into()))?;
    let bad = |s: &OsStr| s.to_string_lossy().contains([' ', ':', '\t', '\n']);
    if bad(p.as_os_str()) { Err(LibraryError::Unpreloadable(p)) } else { Ok(p) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn told_beside_or_in_lib() {
        let dir = env::temp_dir().join(format!("library-{:016x}", u64::from_le_bytes(base::ident::random())));
        for d in ["bin", "lib64", "a b"] {
            fs::create_dir_all(dir.join(d)).unwrap();
        }
        let bin = dir.join("bin");
        assert!(matches!(find_by(None, &bin), Err(LibraryError::NotFound(p)) if p.len() == 4));
        fs::write(dir.join("lib64").join(VERSIONED), "").unwrap();
        assert_eq!(find_by(None, &bin), Ok(dir.join("lib64").join(VERSIONED)));
        fs::write(dir.join("lib64").join(FILE), "").unwrap();
        assert_eq!(find_by(None, &bin), Ok(dir.join("lib64").join(FILE)));
        fs::write(bin.join(FILE), "").unwrap();
        assert_eq!(find_by(None, &bin), Ok(bin.join(FILE)));
        let other = dir.join("lib64").join(FILE);
        assert_eq!(find_by(Some(other.clone().into()), &bin), Ok(other));
        assert!(matches!(find_by(Some("/nowhere.so".into()), &bin), Err(LibraryError::Told(_))));
        let spaced = dir.join("a b").join(FILE);
        fs::write(&spaced, "").unwrap();
        assert!(matches!(find_by(Some(spaced.into()), &bin), Err(LibraryError::Unpreloadable(_))));
        fs::remove_dir_all(dir).unwrap();
    }
}
