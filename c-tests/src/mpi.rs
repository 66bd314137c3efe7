//! The table of MPIs to run against. `$P` in a word stands for the folder of one that came as a wheel.

use crate::places::{root, script};
use crate::{user, width};
use base::Family;
use std::panic::Location;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

/// How one MPI compiles and launches.
#[derive(Debug)]
pub struct Mpi {
    pub name: &'static str,
    /// A sign of two or three letters, for tables.
    pub sign: &'static str,
    /// The ABI that its programs are built for.
    pub family: Family,
    /// The folder below that of all wheels; none for a package of the system.
    wheel: Option<&'static str>,
    compiler: &'static [&'static str],
    /// What ends a compiler's command line.
    libraries: &'static [&'static str],
    /// The Fortran compiler, and what ends its command line. Whether it finds an MPI is for the tests to see.
    fortran: &'static [&'static str],
    fortran_libraries: &'static [&'static str],
    launcher: &'static [&'static str],
    /// What the launcher itself needs in its environment.
    environment: &'static [(&'static str, &'static str)],
    /// How the launcher is told of a variable for the ranks alone.
    pub rank_variable: fn(&str, &str) -> Vec<String>,
}

/// More ranks than cores, and two jobs that do not know of each other: binding would put both on one core.
const CROWDED: [&str; 3] = ["--oversubscribe", "--bind-to", "none"];
const INTEL: &[(&str, &str)] =
    &[("I_MPI_ROOT", "$P"), ("LD_LIBRARY_PATH", "$P/lib"), ("FI_PROVIDER_PATH", "$P/lib"), ("I_MPI_PIN", "0")];

fn dash_x(name: &str, value: &str) -> Vec<String> {
    vec!["-x".into(), format!("{name}={value}")]
}

fn genv(name: &str, value: &str) -> Vec<String> {
    vec!["-genv".into(), name.into(), value.into()]
}

static MPICH4: Mpi = Mpi {
    name: "mpich4",
    sign: "M4",
    family: Family::Mpich,
    wheel: None,
    compiler: &["mpicc.mpich"],
    libraries: &[],
    fortran: &["mpif90.mpich"],
    fortran_libraries: &[],
    launcher: &["mpirun.mpich"],
    environment: &[],
    rank_variable: genv,
};

static OPENMPI4: Mpi = Mpi {
    name: "openmpi4",
    sign: "O4",
    family: Family::OpenMpi,
    wheel: None,
    compiler: &["mpicc.openmpi"],
    libraries: &[],
    fortran: &["mpif90.openmpi"],
    fortran_libraries: &[],
    launcher: &["mpirun.openmpi", CROWDED[0], CROWDED[1], CROWDED[2]],
    environment: &[],
    rank_variable: dash_x,
};

static MPICH5: Mpi = Mpi {
    name: "mpich5",
    sign: "M5",
    family: Family::Mpich,
    wheel: Some("mpich"),
    compiler: &["$P/bin/mpicc"],
    libraries: &[],
    fortran: &["gfortran", "-I$P/include", "-L$P/lib"],
    fortran_libraries: &["-lmpi"],
    launcher: &["$P/bin/mpiexec"],
    environment: &[],
    rank_variable: genv,
};

static MPICH5_ABI: Mpi = Mpi {
    name: "mpich5-abi",
    sign: "M5a",
    family: Family::Standard,
    wheel: Some("mpich"),
    compiler: &["$P/bin/mpicc_abi"],
    libraries: &[],
    fortran: &["gfortran", "-I$P/include", "-L$P/lib"],
    fortran_libraries: &["-lmpi_abi"],
    launcher: &["$P/bin/mpiexec"],
    environment: &[],
    rank_variable: genv,
};

static OPENMPI5: Mpi = Mpi {
    name: "openmpi5",
    sign: "O5",
    family: Family::OpenMpi,
    wheel: Some("openmpi"),
    compiler: &["$P/bin/mpicc"],
    libraries: &[],
    fortran: &["gfortran", "-I$P/include", "-L$P/lib"],
    fortran_libraries: &["-lmpi"],
    launcher: &["$P/bin/mpirun", CROWDED[0], CROWDED[1], CROWDED[2]],
    // This build's one-sided component over UCX fails without a network of its kind.
    environment: &[("OMPI_MCA_osc", "^ucx")],
    rank_variable: dash_x,
};

static INTEL_OWN: Mpi = Mpi {
    name: "impi",
    sign: "I",
    family: Family::Mpich,
    wheel: Some("impi"),
    compiler: &["gcc", "-I$P/include", "-L$P/lib"],
    libraries: &["-lmpi"],
    fortran: &["gfortran", "-I$P/include", "-I$P/include/mpi/gfortran/12.4.0", "-L$P/lib"],
    fortran_libraries: &["-lmpifort", "-lmpi"],
    launcher: &["$P/bin/mpiexec.hydra"],
    environment: INTEL,
    rank_variable: genv,
};

static INTEL_ABI: Mpi = Mpi {
    name: "impi-abi",
    sign: "Ia",
    family: Family::Standard,
    wheel: Some("impi"),
    compiler: &["gcc", "-DMPI_ABI", "-I$P/include", "-L$P/lib"],
    libraries: &["-lmpi_abi"],
    fortran: &["gfortran", "-I$P/include/mpi/mpi_5", "-L$P/lib"],
    fortran_libraries: &["-lmpifort_abi", "-lmpi_abi"],
    launcher: &["$P/bin/mpiexec.hydra"],
    environment: INTEL,
    rank_variable: genv,
};

/// Its daemon is started for each job, and ends with it.
static LAM: Mpi = Mpi {
    name: "lam",
    sign: "L",
    family: Family::Lam,
    wheel: None,
    compiler: &["mpicc.lam"],
    libraries: &[],
    fortran: &["mpif77.lam"],
    fortran_libraries: &[],
    launcher: &["mpirun.lam"],
    // Without it MPI_Init fails under any preload: "Bad address".
    environment: &[("LD_BIND_NOW", "1")],
    rank_variable: dash_x,
};

/// All of them, each beside one of another family.
static ALL: [&Mpi; 8] = [&OPENMPI4, &MPICH4, &LAM, &INTEL_OWN, &OPENMPI5, &MPICH5_ABI, &MPICH5, &INTEL_ABI];

/// Every test of one job runs over these: all, or those named in `MPI_CONNECT_TEST_MPIS`.
pub static MPIS: LazyLock<Vec<&'static Mpi>> = LazyLock::new(|| match std::env::var("MPI_CONNECT_TEST_MPIS") {
    Ok(names) if !names.is_empty() => names
        .split([',', ' '])
        .map(|name| Mpi::by_name(name).unwrap_or_else(|| panic!("MPI_CONNECT_TEST_MPIS: no MPI named {name}")))
        .collect(),
    _ => ALL.to_vec(),
});

impl Mpi {
    pub fn by_name(name: &str) -> Option<&'static Mpi> {
        ALL.into_iter().find(|m| m.name == name)
    }

    /// One that is on the PATH: the first of a family, `openmpi` or `mpich`, as `scripts/find-mpi` sees it.
    pub fn on_path(family: &str) -> Option<&'static Mpi> {
        let like = match family {
            "openmpi" => &OPENMPI4,
            "mpich" => &MPICH4,
            _ => return None,
        };
        let found = Command::new(root().join("scripts/find-mpi")).arg(family).output().ok()?;
        let text = String::from_utf8(found.stdout).ok().filter(|_| found.status.success())?;
        // Once or twice in a process's life.
        let mut lines = String::leak(text).lines();
        let (compiler, launcher) = (lines.next()?, lines.next()?);
        let launcher: Vec<&str> = [launcher].into_iter().chain(like.launcher[1..].iter().copied()).collect();
        let name = String::leak(family.to_owned());
        Some(Box::leak(Box::new(Mpi { name, compiler: vec![compiler].leak(), launcher: launcher.leak(), ..*like })))
    }

    /// The names of all, for those who must choose.
    pub fn names() -> Vec<&'static str> {
        ALL.iter().map(|m| m.name).collect()
    }

    /// Every ordered pair: both ways round, and each with itself.
    pub fn pairs() -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
        MPIS.iter().flat_map(|a| MPIS.iter().map(move |b| (*a, *b)))
    }

    /// Every ordered pair at full width; otherwise each MPI once on either side.
    pub fn wide() -> Vec<(&'static Mpi, &'static Mpi)> {
        let what = format!("all {} pairs of MPIs", MPIS.len() * MPIS.len());
        width::otherwise(Mpi::ring().collect(), Mpi::pairs().collect(), &what)
    }

    /// A ring of pairs: each MPI once on either side, beside one of another family.
    pub fn ring() -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
        Self::ring_of(1)
    }

    /// A ring in which each is beside the one that comes so many places later. Tests of several kinds of cases take
    /// another ring for each kind: as many different pairs.
    pub fn ring_of(places: usize) -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
        let later = MPIS.iter().cycle().skip(places % MPIS.len());
        MPIS.iter().zip(later).map(|(a, b)| (*a, *b))
    }

    /// Whether it has MPI_Mprobe, which came with MPI-3.
    pub fn has_matched_probes(&self) -> bool {
        self.family != Family::Lam
    }

    /// As few pairs as have each MPI in one of them.
    pub fn couples() -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
        Self::ring().step_by(2)
    }

    /// Half of the couples, for what depends little on the MPI. The place of the call decides which half, so that over all tests each
    /// MPI has its share. At full width all.
    #[track_caller]
    pub fn some_couples() -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
        let all: Vec<_> = Self::couples().collect();
        let first = Location::caller().line() as usize % all.len().clamp(1, 2);
        let half = all.iter().copied().skip(first).step_by(2).collect();
        width::otherwise(half, all, "the other half of the couples, of what depends little on the MPI").into_iter()
    }

    /// Where `scripts/provision` puts what comes as wheels.
    pub fn wheels() -> PathBuf {
        std::env::var_os("MPI_CONNECT_MPIS").map_or_else(|| root().join(".mpis"), PathBuf::from)
    }

    /// The folder of the wheel that it came in.
    pub fn folder(&self) -> Option<PathBuf> {
        self.wheel.map(|wheel| Self::wheels().join(wheel))
    }

    fn word(&self, word: &str) -> String {
        match self.folder() {
            Some(folder) => word.replace("$P", folder.to_str().expect("a path of plain text")),
            None => word.into(),
        }
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        words.iter().map(|w| self.word(w)).collect()
    }

    /// The words of the C compiler, and those that come last.
    pub fn compiler(&self) -> [Vec<String>; 2] {
        [self.words(self.compiler), self.words(self.libraries)]
    }

    /// The words of the Fortran compiler, and those that come last.
    pub fn fortran(&self) -> [Vec<String>; 2] {
        [self.words(self.fortran), self.words(self.fortran_libraries)]
    }

    /// What must stand in front of a command that runs programs of this MPI.
    pub fn session(&self) -> Vec<String> {
        if self.name == "lam" { vec![script("lam-session")] } else { Vec::new() }
    }

    /// What starts so many ranks, up to the program's name. `before` goes in front of the launcher itself.
    pub fn launcher(&self, before: &[String], options: &[String], ranks: usize) -> Vec<String> {
        let mut words = self.session();
        words.extend_from_slice(before);
        words.extend(self.words(self.launcher));
        words.extend_from_slice(options);
        words.extend(["-np".into(), ranks.to_string()]);
        words
    }

    /// What a launcher, or a rank without one, needs in its environment.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut all: Vec<_> = self.environment.iter().map(|(n, v)| (*n, self.word(v))).collect();
        if self.name.starts_with("openmpi") && !user::is_other() {
            all.extend(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|n| (n, "1".into())));
        }
        all
    }

    /// Whether its launcher keeps files named after its process number in the temporary folder. Open MPI 5's, when
    /// killed, leaves them, and refuses to start where it finds those of an earlier process.
    pub fn keeps_files(&self) -> bool {
        self.name.starts_with("openmpi")
    }

    /// A command of several words, as the user of all jobs.
    pub fn command(&self, words: &[String]) -> Command {
        let mut all = user::prefix();
        all.extend_from_slice(words);
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]);
        if std::env::var_os("CARGO").is_some() {
            // By cargo's own another build of the library would be found first.
            command.env_remove("LD_LIBRARY_PATH");
        }
        command.envs(self.environment()).envs(user::environment());
        command
    }
}
