//! `mpi-connect key`: makes, exchanges and shows the key; and the option `--key` of the commands that use one.
//!
//! Invariant: no key is ever written to a terminal, only identifiers of keys.

use crate::output;
use base::settings::KEY;
use naming::{Naming, OpenError};
use std::env;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use trust::{Encrypt, FileError, KeyFile, Ring, Trust};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    key: KeyOption,
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make a new key; the one before it is accepted too, until the next
    New {
        /// Forget the key before it: who has only that is refused
        #[arg(long)]
        replace: bool,
    },
    /// Show where the key is, and the identifiers of all keys that are accepted
    Show,
    /// Show where the key is
    Path,
}

/// The key that a command uses.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct KeyOption {
    /// The key, instead of MPI_CONNECT_KEY or the user's own
    #[arg(long = "key", value_name = "file:PATH", global = true)]
    setting: Option<String>,
}

impl KeyOption {
    /// As if the option were given so.
    pub fn of(setting: Option<String>) -> KeyOption {
        KeyOption { setting }
    }

    /// Where the key is.
    pub fn file(&self) -> Result<KeyFile, FileError> {
        KeyFile::find(self.setting.clone().or_else(|| env::var(KEY).ok()).as_deref())
    }

    /// The value of `MPI_CONNECT_KEY` that stands for the option, if it is given.
    pub fn value(&self) -> Result<Option<String>, FileError> {
        let Some(setting) = &self.setting else { return Ok(None) };
        Ok(Some(format!("file:{}", KeyFile::find(Some(setting))?.path().display())))
    }

    /// The keys, which are made if there are none; the folder of a file that the option names is there, or it is mistyped.
    pub fn trust(&self) -> Result<Arc<Trust>, FileError> {
        match &self.setting {
            Some(_) => {
                let file = self.file()?;
                if let Some(folder) = file.missing_folder() {
                    return Err(FileError::Folder(folder.into()));
                }
                Trust::from_file(file, Encrypt::from_env()?).map(Arc::new)
            }
            None => Trust::of_process(),
        }
    }

    /// The keys, for a command that speaks with what runs already: a file that the option names is there, or it is mistyped.
    pub fn trust_known(&self) -> Result<Arc<Trust>, FileError> {
        if self.setting.is_some() {
            self.file()?.read()?;
        }
        self.trust()
    }

    /// Opens a store of names, of no run.
    pub fn open(&self, url: &str) -> Result<Box<dyn Naming>, OpenError> {
        naming::open_trusting(url, "", || self.trust_known())
    }
}

/// The identifiers of keys, the own one first.
pub fn identifiers(ring: &Ring) -> (String, Vec<String>) {
    (ring.own().id().to_string(), ring.others().map(|key| key.id().to_string()).collect())
}

/// The same in words.
pub fn told(ring: &Ring) -> String {
    let (own, others) = identifiers(ring);
    if others.is_empty() { own } else { format!("{own}, and also {}", others.join(", ")) }
}

/// Why nothing can be shown, or made.
#[derive(Debug)]
pub enum Error {
    /// There is no key yet.
    None(PathBuf),
    File(FileError),
}

impl Error {
    /// Whether a setting is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::File(e) if e.is_setting())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::None(path) => write!(
                f,
                "there is no key at {} yet: the first job or naming server makes it, or `mpi-connect key new`",
                path.display()
            ),
            Error::File(e) => e.fmt(f),
        }
    }
}

impl From<FileError> for Error {
    fn from(e: FileError) -> Error {
        match e {
            FileError::Io(_, path, e) if e.kind() == io::ErrorKind::NotFound => Error::None(path),
            e => Error::File(e),
        }
    }
}

pub fn key(args: &Args) -> Result<(), Error> {
    let file = args.key.file()?;
    let text = match args.what {
        What::New { replace } => shown(&file, &file.renew(!replace).map_err(Error::File)?),
        What::Show => shown(&file, &file.read()?),
        What::Path => format!("{}\n", file.path().display()),
    };
    output::write(&text);
    Ok(())
}

fn shown(file: &KeyFile, ring: &Ring) -> String {
    let (own, others) = identifiers(ring);
    let others = others.iter().map(|id| format!("accepted too: {id}\n")).collect::<String>();
    format!("file: {}\nkey: {own}\n{others}", file.path().display())
}
