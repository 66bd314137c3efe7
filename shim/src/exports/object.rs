//! The symbols of a loaded object, read from memory. Unlike `dlsym`, this is allowed while the linker is at work.

use libc::{Elf64_Sym, c_int, c_void, dl_phdr_info};
use std::ffi::{CStr, c_char};

const DT_NEEDED: i64 = 1;
const DT_SONAME: i64 = 14;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const SHN_UNDEF: u16 = 0;

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// A program or library as the linker has mapped it. It is valid until the object is unloaded, so it is never kept.
pub struct Object {
    pub base: usize,
    headers: &'static [libc::Elf64_Phdr],
    dynamic: &'static [Dynamic],
    strings: *const c_char,
    symbols: *mut Elf64_Sym,
    hash: Hash,
}

/// The GNU hash table.
struct Hash {
    first: u32,
    shift: u32,
    bloom: &'static [u64],
    buckets: &'static [u32],
    chains: *const u32,
}

impl Object {
    /// All loaded objects with symbols, in the linker's order.
    pub fn loaded() -> Vec<Object> {
        unsafe extern "C" fn note(info: *mut dl_phdr_info, _size: usize, all: *mut c_void) -> c_int {
            // SAFETY: the linker gives a valid record; `all` is the vector given to dl_iterate_phdr.
            let (info, all) = unsafe { (&*info, &mut *all.cast::<Vec<Object>>()) };
            // SAFETY: as above.
            all.extend(unsafe { Object::read(info) });
            0
        }
        let mut all: Vec<Object> = Vec::new();
        // SAFETY: `note` matches the callback's type and `all` outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut all).cast()) };
        all
    }

    /// # Safety
    /// The record describes an object that stays loaded while the result is used.
    unsafe fn read(info: &dl_phdr_info) -> Option<Object> {
        let base = info.dlpi_addr as usize;
        // SAFETY: the object's own program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let segment = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
        let at = (base + segment.p_vaddr as usize) as *const Dynamic;
        let len = (0..segment.p_memsz as usize / size_of::<Dynamic>())
            // SAFETY: within the dynamic segment, which ends with a null entry.
            .find(|&i| unsafe { (*at.add(i)).tag } == 0)?;
        // SAFETY: as above.
        let dynamic = unsafe { std::slice::from_raw_parts(at, len) };
        // The linker has replaced offsets by addresses, except in objects whose dynamic segment is read-only.
        let find = |tag| dynamic.iter().find(|d| d.tag == tag).map(|d| d.value);
        let address = |tag| find(tag).map(|v| if v < base { base + v } else { v });
        // SAFETY: the linker's own table of a loaded object.
        let hash = unsafe { Hash::read(address(DT_GNU_HASH)?) };
        let strings = address(DT_STRTAB)? as *const c_char;
        let symbols = address(DT_SYMTAB)? as *mut Elf64_Sym;
        Some(Object { base, headers, dynamic, strings, symbols, hash })
    }

    fn string(&self, at: usize) -> &CStr {
        // SAFETY: an offset from the object's own tables into its strings.
        unsafe { CStr::from_ptr(self.strings.add(at)) }
    }

    /// Whether the object exports a name.
    pub fn has(&self, name: &CStr) -> bool {
        // SAFETY: the entry of a loaded object.
        self.symbol(name).is_some_and(|s| unsafe { (*s).st_shndx != SHN_UNDEF && (*s).st_value != 0 })
    }

    /// The symbol of a name that the object defines, or has defined before an edit.
    pub fn symbol(&self, name: &CStr) -> Option<*mut Elf64_Sym> {
        let wanted = gnu_hash(name.to_bytes());
        self.hash.candidates(wanted).find_map(|i| {
            // SAFETY: the hash table names only entries of the symbol table.
            let symbol = unsafe { self.symbols.add(i) };
            // SAFETY: as above.
            (self.string(unsafe { (*symbol).st_name } as usize) == name).then_some(symbol)
        })
    }

    /// The soname, by which programs that are linked with the object ask for it.
    pub fn soname(&self) -> Option<&CStr> {
        self.dynamic.iter().find(|d| d.tag == DT_SONAME).map(|d| self.string(d.value))
    }

    /// Whether the object was linked with a library of this name.
    pub fn needs(&self, library: &CStr) -> bool {
        self.dynamic.iter().any(|d| d.tag == DT_NEEDED && self.string(d.value) == library)
    }

    fn segment_of(&self, address: usize) -> Option<&libc::Elf64_Phdr> {
        self.headers.iter().find(|h| {
            let start = self.base + h.p_vaddr as usize;
            h.p_type == libc::PT_LOAD && (start..start + h.p_memsz as usize).contains(&address)
        })
    }

    pub fn contains(&self, code: *const ()) -> bool {
        self.segment_of(code as usize).is_some()
    }

    /// Runs `edit` while the segment with the symbols is writable. If the system forbids that, `edit` is not run.
    pub fn with_writable_symbols(&self, edit: impl FnOnce()) {
        let Some(segment) = self.segment_of(self.symbols as usize) else { return };
        // SAFETY: asks for a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let start = self.base + segment.p_vaddr as usize;
        let from = start & !(page - 1);
        let bytes = start + segment.p_memsz as usize - from;
        let flag = |bit: u32, prot: c_int| if segment.p_flags & bit != 0 { prot } else { 0 };
        let before = flag(4, libc::PROT_READ) | flag(2, libc::PROT_WRITE) | flag(1, libc::PROT_EXEC);
        // SAFETY: whole pages of this object; what they allowed stays allowed.
        if unsafe { libc::mprotect(from as *mut c_void, bytes, before | libc::PROT_WRITE) } == 0 {
            edit();
            // SAFETY: as above.
            unsafe { libc::mprotect(from as *mut c_void, bytes, before) };
        }
    }
}

impl Hash {
    /// # Safety
    /// `at` is the GNU hash table of a loaded object.
    unsafe fn read(at: usize) -> Hash {
        // SAFETY: four words, then filter, buckets and chains, as the format has it.
        unsafe {
            let words = at as *const u32;
            let (buckets, first, filter, shift) = (*words, *words.add(1), *words.add(2), *words.add(3));
            let bloom = words.add(4).cast::<u64>();
            let start = bloom.add(filter as usize).cast::<u32>();
            Hash {
                first,
                shift,
                bloom: std::slice::from_raw_parts(bloom, filter as usize),
                buckets: std::slice::from_raw_parts(start, buckets as usize),
                chains: start.add(buckets as usize),
            }
        }
    }

    /// The indices of the symbols that have this hash.
    fn candidates(&self, hash: u32) -> impl Iterator<Item = usize> {
        let word = self.bloom.get(hash as usize / 64 % self.bloom.len().max(1)).copied().unwrap_or(0);
        let maybe = word >> (hash % 64) & word >> ((hash >> self.shift) % 64) & 1 != 0;
        let first = if maybe { self.buckets.get(hash as usize % self.buckets.len().max(1)) } else { None };
        let mut next = first.copied().filter(|&i| i >= self.first);
        std::iter::from_fn(move || {
            let i = next?;
            // SAFETY: a chain runs on until an entry with its lowest bit set.
            let entry = unsafe { *self.chains.add((i - self.first) as usize) };
            next = (entry & 1 == 0).then_some(i + 1);
            Some((i, entry))
        })
        .filter(move |(_, entry)| entry | 1 == hash | 1)
        .map(|(i, _)| i as usize)
    }
}

fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

/// Whether the executable itself defines a name, and does not only refer to it.
pub fn in_program(name: &CStr) -> bool {
    // SAFETY: allowed at any time.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as *const ();
    Object::loaded().iter().any(|o| o.contains(entry) && o.has(name))
}
