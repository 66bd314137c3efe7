//! Calls on files that the nix crate does not have, and where the files of a user lie on this host.

#[cfg(target_os = "linux")]
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The folder of this user on this host, for names and keys without a setting. It is not in XDG_RUNTIME_DIR, which is removed at
/// logout while jobs still run, and which a login shell has and a batch job has not.
pub fn private_folder() -> PathBuf {
    // SAFETY: it reads a number of this process, and cannot fail.
    PathBuf::from(format!("/tmp/mpi-connect-{}", unsafe { libc::geteuid() }))
}

/// Reads the extended attribute `name` of a file into `to`, and returns its length in bytes. `None` if the file has
/// no such attribute, or if the attribute is longer than `to`.
pub fn attribute(path: &Path, name: &CStr, to: &mut [u8]) -> Option<usize> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // With a length of 0, the call would only return the length of the attribute.
    if to.is_empty() {
        return None;
    }
    // SAFETY: two terminated names, and a buffer of the length that is told.
    let n = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), to.as_mut_ptr().cast(), to.len()) };
    usize::try_from(n).ok()
}

/// Has the kernel begin to write this part of a file to the disk, which it would do later, or when the file is synced. Nothing is
/// waited for, and nothing is known to be on the disk; where there is no such call, nothing is done.
pub fn begin_to_write(file: &File, from: u64, length: u64) {
    #[cfg(target_os = "linux")]
    // SAFETY: a descriptor that is open, and numbers.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), from as i64, length as i64, libc::SYNC_FILE_RANGE_WRITE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file.as_raw_fd(), from, length);
}

/// How bytes have to lie, in memory and in this file, so that they may go past the kernel's cache. `None`: they cannot, or the file
/// system does not tell, as those over a network do not.
pub fn alignment(file: &File) -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: all bits zero are a value of this structure of numbers.
        let mut about: libc::statx = unsafe { std::mem::zeroed() };
        // SAFETY: a descriptor that is open, an empty name, and room for what is told.
        let told = unsafe {
            libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &raw mut about)
        };
        let align = about.stx_dio_mem_align.max(about.stx_dio_offset_align) as usize;
        (told == 0 && about.stx_mask & libc::STATX_DIOALIGN != 0 && align > 0).then_some(align)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        None
    }
}

/// Has what is written to this open file go past the kernel's cache, or through it again.
pub fn set_direct(file: &File, direct: bool) -> nix::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let mut flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
        flags.set(OFlag::O_DIRECT, direct);
        fcntl(file, FcntlArg::F_SETFL(flags)).map(drop)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        if direct { Err(nix::Error::EOPNOTSUPP) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    #[test]
    fn attributes_are_read() {
        let path = std::env::temp_dir().join(format!("attribute-{:016x}", u64::from_le_bytes(crate::ident::random())));
        std::fs::write(&path, "").unwrap();
        let mut to = [0; 4];
        assert_eq!(attribute(&path, c"user.colour", &mut to), None);
        let place = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: two terminated names, and a value of the length that is told.
        let set = unsafe { libc::setxattr(place.as_ptr(), c"user.colour".as_ptr(), c"red".as_ptr().cast(), 3, 0) };
        if set == 0 {
            assert_eq!(attribute(&path, c"user.colour", &mut to), Some(3));
            assert_eq!(&to, b"red\0");
            assert_eq!(attribute(&path, c"user.colour", &mut to[..2]), None, "longer than there is room for");
            assert_eq!(attribute(&path, c"user.colour", &mut []), None);
        } else {
            println!("NOT CHECKED: no attributes in {}: {}", path.display(), Error::last_os_error());
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(attribute(&path, c"user.colour", &mut to), None);
    }
}
