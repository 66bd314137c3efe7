//! The table of MPIs to run against.

/// How one MPI compiles and launches.
#[derive(Debug)]
pub struct Mpi {
    pub name: &'static str,
    /// One letter, for tables.
    pub letter: char,
    pub compiler: &'static str,
    pub fortran: &'static str,
    pub launcher: &'static [&'static str],
    /// What the launcher itself needs in its environment.
    pub environment: &'static [(&'static str, &'static str)],
    /// How the launcher is told of a variable for the ranks alone.
    pub rank_variable: fn(&str, &str) -> Vec<String>,
}

pub static MPICH: Mpi = Mpi {
    name: "mpich",
    letter: 'M',
    compiler: "mpicc.mpich",
    fortran: "mpif90.mpich",
    launcher: &["mpirun.mpich"],
    environment: &[],
    rank_variable: |name, value| vec!["-genv".into(), name.into(), value.into()],
};

pub static OPENMPI: Mpi = Mpi {
    name: "openmpi",
    letter: 'O',
    compiler: "mpicc.openmpi",
    fortran: "mpif90.openmpi",
    // More ranks than cores, and two jobs that do not know of each other: binding would put both on one core.
    launcher: &["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"],
    environment: &[("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")],
    rank_variable: |name, value| vec!["-x".into(), format!("{name}={value}")],
};

/// All of them. Every test of one job runs over these; every test of two over their pairs.
pub static MPIS: &[&Mpi] = &[&MPICH, &OPENMPI];

impl Mpi {
    pub fn by_name(name: &str) -> Option<&'static Mpi> {
        MPIS.iter().copied().find(|m| m.name == name)
    }

    /// Every ordered pair: both ways round, and each with itself.
    pub fn pairs() -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
        MPIS.iter().flat_map(|a| MPIS.iter().map(move |b| (*a, *b)))
    }

    /// The pairs of unlike MPIs.
    pub fn mixed() -> impl Iterator<Item = (&'static Mpi, &'static Mpi)> {
        Self::pairs().filter(|(a, b)| a.name != b.name)
    }
}
