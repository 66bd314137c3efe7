//! What a file says of itself to the dynamic linker, read without running it. For `program` and `mpis`.

use base::Family;
use object::elf::{DT_NEEDED, DT_SONAME, FileHeader64};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache};
use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// An executable or a library.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Elf {
    /// The dynamic linker that it asks for.
    pub interpreter: Option<String>,
    pub soname: Option<String>,
    pub needed: Vec<String>,
    /// Whether it leaves functions of MPI to its libraries.
    pub uses_mpi: bool,
    /// Whether it does not even start, or not come far, without them.
    pub needs_mpi: bool,
    /// Whether it loads libraries itself.
    pub loads: bool,
    /// Whether the symbols are gone that its libraries do not need, so that what is within cannot be told.
    pub stripped: bool,
    /// Whether its libraries may call its functions of MPI: it is one, or exports those that it was linked with.
    pub exports_mpi: bool,
    /// Whether it has a few of its functions only: a tool, or a stand-in for serial programs.
    pub exports_part: bool,
    /// Whether it has functions of MPI within, as far as its symbols are there.
    pub contains_mpi: bool,
    /// The mark of a family, by which its libraries are known.
    pub family: Option<Family>,
}

/// Why a file is not read.
#[derive(Debug)]
pub enum ElfError {
    Io(io::Error),
    /// A script: what runs it.
    Script(String),
    /// No executable of this kind of machine.
    Foreign,
    Damaged(object::read::Error),
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElfError::Io(e) => e.fmt(f),
            ElfError::Script(by) => write!(f, "a script for {by}"),
            ElfError::Foreign => f.write_str("no program of this kind of machine"),
            ElfError::Damaged(e) => write!(f, "a damaged program: {e}"),
        }
    }
}

impl Elf {
    pub fn read(path: &Path) -> Result<Elf, ElfError> {
        Elf::of(File::open(path).map_err(ElfError::Io)?)
    }

    /// What this file says, from its begin on.
    pub fn of(mut file: impl Read + Seek) -> Result<Elf, ElfError> {
        let mut head = [0; 256];
        let n = file.read(&mut head).map_err(ElfError::Io)?;
        match &head[..n] {
            [b'#', b'!', rest @ ..] => {
                let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
                return Err(ElfError::Script(String::from_utf8_lossy(line).trim().into()));
            }
            // 64 bits; the byte order shows in what follows.
            [0x7f, b'E', b'L', b'F', 2, ..] => {}
            _ => return Err(ElfError::Foreign),
        }
        let data = ReadCache::new(file);
        let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&data).map_err(ElfError::Damaged)?;
        let endian = elf.endian();
        let mut it = Elf::default();
        let headers = elf.elf_header().program_headers(endian, &data).map_err(ElfError::Damaged)?;
        for header in headers {
            if let Some(name) = header.interpreter(endian, &data).map_err(ElfError::Damaged)? {
                it.interpreter = Some(String::from_utf8_lossy(name).into());
            }
        }
        let table = elf.elf_dynamic_table().map_err(ElfError::Damaged)?;
        for entry in &table {
            let name = || table.string(entry).map(|s| String::from_utf8_lossy(s).into_owned());
            match entry.tag {
                DT_NEEDED => it.needed.push(name().map_err(ElfError::Damaged)?),
                DT_SONAME => it.soname = Some(name().map_err(ElfError::Damaged)?),
                _ => {}
            }
        }
        // A program may have an MPI_Init of its own above that of its MPI: a tool linked in.
        let is_init = |name: &str| name == "PMPI_Init";
        for symbol in elf.dynamic_symbols() {
            let Ok(name) = symbol.name() else { continue };
            match name {
                _ if symbol.is_undefined() => {
                    let conn = name.starts_with("MPI_Conn_") || name.starts_with("mpi_conn_");
                    let uses = !conn && ["MPI_", "PMPI_", "mpi_"].iter().any(|p| name.starts_with(p));
                    it.uses_mpi |= uses;
                    it.needs_mpi |= uses && !symbol.is_weak();
                    it.loads |= name == "dlopen";
                }
                _ if is_init(name) => it.exports_mpi = true,
                "MPI_Init" => it.exports_part = true,
                _ => {}
            }
        }
        let symbols = || elf.dynamic_symbols().filter(|s| !s.is_undefined()).filter_map(|s| s.name().ok());
        // An executable may have copies of a library's variables.
        let has = |mark: &CStr| it.interpreter.is_none() && symbols().any(|name| name.as_bytes() == mark.to_bytes());
        it.family = Family::of(has, || it.soname.clone());
        it.exports_part &= !it.exports_mpi;
        it.stripped = elf.symbols().next().is_none();
        it.contains_mpi = it.exports_mpi || elf.symbols().any(|s| !s.is_undefined() && s.name().is_ok_and(is_init));
        Ok(it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn this_program() {
        let it = Elf::read(Path::new("/proc/self/exe")).unwrap();
        assert!(it.interpreter.unwrap().starts_with("/lib"));
        assert!(it.needed.iter().any(|n| n == "libc.so.6"), "{:?}", it.needed);
        assert!(!it.uses_mpi && !it.needs_mpi && !it.contains_mpi && !it.stripped && it.family.is_none());
    }

    #[test]
    fn what_is_no_program() {
        let write = |bytes: &[u8]| -> PathBuf {
            let path = std::env::temp_dir().join(format!("elf-{:016x}", u64::from_le_bytes(base::ident::random())));
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let read = |bytes: &[u8]| {
            let path = write(bytes);
            let read = Elf::read(&path);
            std::fs::remove_file(path).unwrap();
            read.unwrap_err()
        };
        assert!(
            matches!(read(b"#!/usr/bin/env python3\nimport os"), ElfError::Script(s) if s == "/usr/bin/env python3")
        );
        assert!(matches!(read(b""), ElfError::Foreign));
        assert!(matches!(read(b"\x7fELF\x01\x01"), ElfError::Foreign));
        assert!(matches!(read(b"\x7fELF\x02\x01\x01 and no more"), ElfError::Damaged(_)));
        assert!(matches!(Elf::read(Path::new("/no/such")), Err(ElfError::Io(_))));
    }
}
