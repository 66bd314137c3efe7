//! The soname of a loaded library, whose file may have any name.

use std::ffi::{CStr, c_int, c_void};

/// An entry of a library's dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

const DT_NULL: i64 = 0;
const DT_STRTAB: i64 = 5;
const DT_SONAME: i64 = 14;

/// The soname of the loaded library that the linker knows by this path.
pub fn soname(path: &str) -> Option<String> {
    struct Asked<'a> {
        path: &'a str,
        found: Option<String>,
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, asked: *mut c_void) -> c_int {
        // SAFETY: the linker gives a valid record; `asked` is the struct given to dl_iterate_phdr.
        let (info, asked) = unsafe { (&*info, &mut *asked.cast::<Asked>()) };
        // SAFETY: a terminated name of the linker's.
        if info.dlpi_name.is_null() || unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes() != asked.path.as_bytes() {
            return 0;
        }
        // SAFETY: the record of a loaded library.
        asked.found = unsafe { of_record(info) };
        1
    }
    let mut asked = Asked { path, found: None };
    // SAFETY: `look` matches the callback's type and `asked` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut asked).cast()) };
    asked.found
}

/// # Safety
/// `info` is the linker's record of a loaded library.
unsafe fn of_record(info: &libc::dl_phdr_info) -> Option<String> {
    // SAFETY: the library's own program headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let section = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
    let mut entry = (info.dlpi_addr + section.p_vaddr) as *const Dynamic;
    let (mut names, mut soname) = (None, None);
    loop {
        // SAFETY: the dynamic section is mapped, and ends with DT_NULL.
        let Dynamic { tag, value } = unsafe { &*entry };
        match *tag {
            DT_NULL => break,
            // The linker has replaced the offset by an address.
            DT_STRTAB => names = Some(*value),
            DT_SONAME => soname = Some(*value),
            _ => {}
        }
        // SAFETY: not the last entry.
        entry = unsafe { entry.add(1) };
    }
    // SAFETY: the soname is a terminated string of the table of strings.
    let name = unsafe { CStr::from_ptr((names? + soname?) as *const _) };
    name.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    #[test]
    fn libraries_tell_their_names() {
        // SAFETY: all zeros is a valid record.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for writing; any address may be asked about.
        assert_ne!(unsafe { libc::dladdr(libc::getpid as *const _, &mut info) }, 0);
        // SAFETY: dladdr gave a terminated name.
        let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_str().expect("a path of plain text");
        assert_eq!(super::soname(path).as_deref(), Some("libc.so.6"));
        assert_eq!(super::soname("/no/such/library"), None);
    }
}
