//! Why an etcd cannot be used from the start. The texts also say what can be done about it.

use std::fmt::{Display, Formatter, Result as Formatted};
use std::io;
use std::path::PathBuf;

/// Why a store cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// This is no URL of an etcd: why.
    Url(String, &'static str),
    /// This file could not be read.
    File(PathBuf, io::Error),
    /// This file has no certificate, or no key.
    Pem(PathBuf, &'static str),
    /// A user's name and password have to be on two lines of this file, which other users can read (its mode), or which is not so.
    User(PathBuf, Option<u32>),
    /// Certificates or a password are given, and the URL is `etcd://`, without TLS.
    Plain(&'static str),
}

impl Display for OpenError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        match self {
            OpenError::Url(url, why) => {
                write!(f, "'{url}' is no URL of an etcd: {why}; write etcd://HOST:PORT,HOST:PORT, or etcds:// for TLS")
            }
            OpenError::File(path, e) => write!(f, "reading {}: {e}", path.display()),
            OpenError::Pem(path, what) => write!(f, "{} has no {what} in the form of PEM", path.display()),
            OpenError::User(path, Some(mode)) => {
                let path = path.display();
                write!(f, "other users can read {path} (mode {mode:o}), which has a password; chmod 600 it")
            }
            OpenError::User(path, None) => {
                write!(
                    f,
                    "{} does not have a user's name on its first line and the password on its second",
                    path.display()
                )
            }
            OpenError::Plain(what) => write!(f, "{what} is of no use without TLS; write etcds:// instead of etcd://"),
        }
    }
}

impl std::error::Error for OpenError {}
