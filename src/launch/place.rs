//! Where a launch is: what a plan is made from besides the manifest.

use super::slurm::Allocation;
use crate::launcher::{FindError, Kind};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

/// What is known of the place where the jobs are started.
pub struct Place<'a> {
    /// The manifest's folder, from which relative paths count.
    pub folder: &'a Path,
    /// This command.
    pub command: String,
    pub naming: String,
    /// Where names are kept if nobody says where: on this host alone.
    pub private: String,
    pub key: Option<String>,
    pub run: String,
    /// The cores that this process may use.
    pub cores: BTreeSet<usize>,
    /// That of Slurm in which this process is.
    pub allocation: Option<Allocation>,
    /// The names of the variables that are set here.
    pub variables: Vec<String>,
    /// The launcher that a word means, with this PATH.
    pub recognise: fn(&OsStr, &OsStr) -> Result<Kind, FindError>,
}
