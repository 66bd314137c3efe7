//! The plug-in that calls libibverbs: where it is found, and its loading.
//!
//! Used when the transport is opened. Invariant: it is loaded only where the kernel lists an RDMA device, and stays loaded as
//! long as any object of it lives.

use base::rdma::{SYMBOL, Symbol, Table, VERSION};
use libloading::Library;
use std::ffi::CStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the kernel lists RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";
/// The file beside the library.
const FILE: &str = "libmpi_connect_verbs.so";

/// The table of functions, and the library that it is in.
#[derive(Clone)]
pub(super) struct Plugin {
    table: &'static Table,
    _library: Option<Arc<Library>>,
}

impl Deref for Plugin {
    type Target = Table;

    fn deref(&self) -> &Table {
        self.table
    }
}

impl Plugin {
    /// Loads it, from this path if one is given. The error is the reason why there is none.
    pub(super) fn load(path: Option<&str>) -> Result<Plugin, String> {
        let is_device = std::fs::read_dir(DEVICES).is_ok_and(|mut all| all.next().is_some());
        if !is_device {
            return Err("this host has no RDMA device".into());
        }
        let file = path.map(PathBuf::from).or_else(beside).ok_or("its plug-in is not found")?;
        // SAFETY: it is the project's own library, which runs no code when it is loaded.
        let library = unsafe { Library::new(&file) }.map_err(|e| e.to_string())?;
        // SAFETY: the symbol has this type in all versions.
        let table = unsafe { library.get::<Symbol>(SYMBOL.as_bytes()).map(|table| table()) };
        let table = table.map_err(|e| e.to_string())?;
        // SAFETY: null, or a table that stays as long as the library, of which at least the head is there in all versions.
        let table = unsafe { table.as_ref() }.ok_or("libibverbs cannot be loaded")?;
        if table.version != VERSION || table.size as usize != size_of::<Table>() {
            return Err(format!("{} is of another version of this library", file.display()));
        }
        Ok(Plugin { table, _library: Some(Arc::new(library)) })
    }

    /// This table, which is in no library.
    #[cfg(test)]
    pub(super) fn of(table: &'static Table) -> Plugin {
        Plugin { table, _library: None }
    }
}

/// The plug-in's file in the folder of the library that has this code.
fn beside() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: `info` can be written.
    let found = unsafe { libc::dladdr(beside as *const () as *const libc::c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of an object that is loaded.
    let own = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(Path::new(own.to_str().ok()?).with_file_name(FILE))
}
