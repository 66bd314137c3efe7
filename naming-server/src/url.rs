//! URLs of stores, and the settings that give them.
//!
//! Invariant: opening a store of names in a folder touches nothing; folders are made and checked when they are used. Opening one
//! at servers reads the key, which is made if there is none.

use crate::Naming;
use crate::error::OpenError;
use crate::file::FileStore;
use crate::private;
use crate::record::{NameError, check_run, run_of};
use crate::tcp::{Address, TcpStore};
use base::settings::{NAMING, RUN};
use std::env;
use std::path::PathBuf;
use std::sync::Arc;
use trust::{FileError, Trust};

/// Opens `file:DIR` (also `file:///DIR`, or a DIR relative to the working directory), or `tcp://HOST:PORT` of one or several
/// servers with commas between. Its names are of no run.
pub fn open(url: &str) -> Result<Box<dyn Naming>, OpenError> {
    open_run(url, "")
}

/// As [`open`], for the names of one run; empty for none.
pub fn open_run(url: &str, run: &str) -> Result<Box<dyn Naming>, OpenError> {
    open_trusting(url, run, Trust::of_process)
}

/// As [`open_run`], with these keys instead of this process's. They are asked for only if the store needs them.
pub fn open_trusting(
    url: &str,
    run: &str,
    trust: impl FnOnce() -> Result<Arc<Trust>, FileError>,
) -> Result<Box<dyn Naming>, OpenError> {
    check_run(run).map_err(OpenError::Run)?;
    Ok(match Place::parse(url)? {
        Place::Folder(folder) => Box::new(FileStore::new(folder).of_run(run)),
        Place::Servers(servers) => {
            let trust = trust().map_err(|e| OpenError::Key(url.into(), e))?;
            Box::new(TcpStore::new(&servers, &trust).of_run(run))
        }
    })
}

/// Whether this is a URL of a store.
pub fn check_url(url: &str) -> Result<(), OpenError> {
    Place::parse(url).map(drop)
}

/// Where names are kept.
enum Place {
    Folder(PathBuf),
    Servers(Vec<Address>),
}

impl Place {
    fn parse(url: &str) -> Result<Place, OpenError> {
        let unknown = || OpenError::Unknown(url.into());
        let (scheme, rest) = url.split_once(':').ok_or_else(unknown)?;
        match scheme {
            "file" => folder(url, rest).map(Place::Folder),
            "tcp" => Address::parse_url(rest).map(Place::Servers).map_err(|e| OpenError::Address(url.into(), e)),
            "etcd" => Err(OpenError::NotYet(url.into())),
            _ => Err(unknown()),
        }
    }
}

fn folder(url: &str, rest: &str) -> Result<PathBuf, OpenError> {
    let dir = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => return Err(OpenError::Host(url.into())),
        None => rest,
    };
    if dir.is_empty() {
        return Err(OpenError::NoFolder);
    }
    // By its parts, since a path may begin with two slashes, and a URL of it would name a host.
    let dir = std::path::absolute(dir).map_err(|e| OpenError::Relative(url.into(), e))?;
    Ok(dir.components().collect())
}

/// The value of `MPI_CONNECT_NAMING`, or the URL of the user's private folder if that is empty or not set.
pub fn default_url() -> Result<String, OpenError> {
    match env::var(NAMING) {
        Ok(url) if !url.is_empty() => Ok(url),
        Err(env::VarError::NotUnicode(_)) => Err(OpenError::NotUtf8),
        _ => Ok(private_url()),
    }
}

/// The URL of the user's private folder, which other hosts do not see.
pub fn private_url() -> String {
    format!("file:{}", private::folder().display())
}

/// The run that `MPI_CONNECT_RUN` names; empty for none.
pub fn default_run() -> Result<String, OpenError> {
    match env::var(RUN) {
        Ok(setting) => run_of(&setting).map(str::to_owned).map_err(OpenError::Run),
        Err(env::VarError::NotUnicode(_)) => Err(OpenError::Run(NameError::NotUtf8)),
        Err(env::VarError::NotPresent) => Ok(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(url: &str) -> String {
        open(url).map(|n| n.describe()).unwrap_or_else(|e| format!("{e}"))
    }

    #[test]
    fn forms_of_file_urls() {
        assert_eq!(described("file:/a/b"), "file:/a/b");
        assert_eq!(described("file:///a/b"), "file:/a/b");
        let cwd = env::current_dir().unwrap();
        assert_eq!(described("file:x"), format!("file:{}/x", cwd.display()));
        assert_eq!(described("file:./x"), format!("file:{}/x", cwd.display()));
        // Of two slashes at the begin of a path, a URL would make a host.
        assert_eq!(described("file:////a//b/"), "file:/a/b");
        assert_eq!(described("file:////"), "file:/");
    }

    #[test]
    fn what_is_no_store_says_what_is() {
        for url in ["etcd://a,b", "/tmp/x", "tmp", "", "http://x", "file:", "file://", "file://host/x"] {
            let text = described(url);
            assert!(text.contains("file:") && text.contains("DIR"), "{url}: {text}");
        }
        assert!(matches!(open("etcd://host"), Err(OpenError::NotYet(_))));
    }
}
