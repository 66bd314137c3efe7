//! The families of MPI implementations, one for each ABI, and how their libraries are recognised: by the library, which
//! looks at what a program is linked with, and by the command, which says it beforehand. No other file has these names.
//!
//! What differs for programs is in `shim/src/abi/` and `shim/api/constants.txt`.

use std::ffi::CStr;
use std::fmt;

/// A family of MPI implementations that share an ABI, in the order of the columns of `constants.txt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// MPICH, Intel MPI and others with the ABI of MPICH.
    Mpich,
    /// Open MPI and its derivatives.
    OpenMpi,
    /// The ABI of the MPI-5 standard, which several MPIs have beside their own.
    Standard,
    /// LAM/MPI.
    Lam,
}

/// What is known of a family.
struct Known {
    name: &'static str,
    /// A variable that the libraries of this family have, and those of no other.
    mark: Option<&'static CStr>,
    /// What its libraries call themselves, where no variable tells: an MPI may come with two ABIs.
    sonames: &'static [&'static str],
    /// How the files of its libraries are called, up to the version.
    files: &'static [&'static str],
}

impl Family {
    /// Every family, in the order of the columns.
    pub const ALL: [Family; 4] = [Family::Mpich, Family::OpenMpi, Family::Standard, Family::Lam];

    const fn known(self) -> &'static Known {
        match self {
            Family::Mpich => &Known {
                name: "MPICH",
                mark: None,
                sonames: &["libmpi.so.12", "libmpich.so.12"],
                files: &["libmpi.so", "libmpich.so"],
            },
            Family::OpenMpi => {
                &Known { name: "Open MPI", mark: Some(c"ompi_mpi_comm_world"), sonames: &[], files: &["libmpi.so"] }
            }
            Family::Standard => {
                &Known { name: "standard", mark: None, sonames: &["libmpi_abi.so.1"], files: &["libmpi_abi.so"] }
            }
            Family::Lam => {
                &Known { name: "LAM", mark: Some(c"lam_mpi_comm_world"), sonames: &[], files: &["liblam.so"] }
            }
        }
    }

    /// The name for messages.
    pub const fn name(self) -> &'static str {
        self.known().name
    }

    /// Whether a library is of this family, where a variable tells: `has` says whether the library has it.
    pub fn marks(self, has: impl FnOnce(&'static CStr) -> bool) -> bool {
        self.known().mark.is_some_and(has)
    }

    /// The family of a library: by the variables that it has, else by its soname. `None` if neither is known.
    pub fn of(has: impl Fn(&'static CStr) -> bool, soname: impl FnOnce() -> Option<String>) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.marks(&has)).or_else(|| {
            let soname = soname()?;
            Family::ALL.into_iter().find(|family| family.known().sonames.contains(&soname.as_str()))
        })
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a file name is that of an MPI library.
pub fn is_library(file: &str) -> bool {
    Family::ALL.iter().flat_map(|family| family.known().files).any(|begin| file.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_apart() {
        let of = |mark: &str, soname: &str| {
            let soname = Some(soname.to_owned()).filter(|name| !name.is_empty());
            Family::of(|symbol| symbol.to_bytes() == mark.as_bytes(), || soname)
        };
        for family in Family::ALL {
            let known = family.known();
            assert_eq!(known.sonames.is_empty(), known.mark.is_some(), "{family} is known by one of them");
            for soname in known.sonames {
                assert_eq!(of("", soname), Some(family));
                assert!(known.files.iter().any(|begin| soname.starts_with(begin)), "{soname}");
            }
            if let Some(mark) = known.mark {
                // The soname does not matter, since MPICH's libraries have the same names.
                let mark = mark.to_str().expect("plain text");
                assert!(["", "libmpi.so.12", "libmpi.so.40"].iter().all(|soname| of(mark, soname) == Some(family)));
            }
        }
        assert_eq!(of("", "libmpi.so.40"), None);
        assert_eq!(of("", ""), None);
    }

    #[test]
    fn libraries_are_told_by_their_files() {
        assert!(["libmpi.so", "libmpi.so.40.30.4", "libmpich.so.12", "liblam.so.4"].iter().all(|f| is_library(f)));
        assert!(["libmpi_cxx.so.40", "libmpi_connect.so", "mpirun", "libmpifort.so"].iter().all(|f| !is_library(f)));
    }
}
