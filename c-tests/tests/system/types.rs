//! Datatypes: random ones, and the corners of MPI's definitions.

use c_tests::{Figure, Launch, Library, MPIS, Mpi, Scene, WAYS, compile_fortran};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// MPIs whose own Pack takes the elements of some types in another order than MPI's definition has them: in one of so
/// many types at most. MPICH: several of a negative extent. Intel's: `darray` as well. LAM: types that were resized. Open
/// MPI: vectors of single elements at stride -1 within others, which it turns round, lower bound and all.
const ODD: [(&str, u32); 8] = [
    ("mpich4", 200),
    ("mpich5", 200),
    ("mpich5-abi", 200),
    ("impi", 50),
    ("impi-abi", 50),
    ("lam", 10),
    ("openmpi4", 400),
    ("openmpi5", 400),
];

/// `MPI_CONNECT_TEST_ROUNDS` makes it longer.
fn rounds() -> u32 {
    std::env::var("MPI_CONNECT_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

/// `MPI_CONNECT_TEST_SEED` makes others, which a program takes as ints.
fn seeds() -> [String; 2] {
    let first = std::env::var("MPI_CONNECT_TEST_SEED").ok().and_then(|n| n.parse::<u64>().ok()).unwrap_or(1);
    [first, first + 1].map(|seed| (seed % (1 << 31)).to_string())
}

#[test]
fn random_datatypes() {
    let title = "random datatypes, nested to depth 4: as MPI defines them, and as each MPI's own Pack has them";
    let mut figure = Figure::new("12-types", title);
    for (a, b) in Mpi::couples() {
        let (mut used, mut checks, mut odd) = (0, 0, [0, 0]);
        for seed in seeds() {
            let seed = seed.as_str();
            let scene = Scene::new(format!("random datatypes, seed {seed}: {}, {}", a.name, b.name));
            let rounds = rounds().to_string();
            let jobs = [(a, ["air", "ocean", "0", seed, &rounds]), (b, ["ocean", "air", "1", seed, &rounds])];
            let done = scene.pass(jobs.map(|(mpi, words)| scene.start(Launch::new(mpi, 1, "types", &words))), LIMIT);
            let number = |i: usize, word| done[i].lines(word).next().and_then(|n| n.parse::<u32>().ok());
            used += number(0, "USED").expect("a number of types");
            checks += done.iter().map(|d| d.checks()).sum::<u64>();
            for (i, mpi) in [a, b].into_iter().enumerate() {
                let seen = number(i, "ODDS").expect("a number of types");
                let most = ODD.iter().find(|(name, _)| *name == mpi.name).map_or(0, |(_, one_of)| used / one_of);
                let which: Vec<_> = done[i].lines("ODD").collect();
                scene.require(seen <= most, &format!("Pack of {}: {}", mpi.name, which.join("\n")));
                odd[i] += seen;
            }
        }
        figure.line(format!("{} {}: {used} types, {checks} values checked, all right", a.sign, b.sign));
        for (mpi, n) in [a, b].into_iter().zip(odd).filter(|(_, n)| *n > 0) {
            figure.line(format!("  the Pack of {} has {n} of them in another order", mpi.name));
        }
    }
}

/// LAM remembers which of them were made by Fortran's old calls; the others have forgotten.
#[test]
fn old_fortran_constructors() {
    let mpis: Vec<_> = MPIS.iter().filter(|m| ["openmpi4", "mpich4", "lam", "impi"].contains(&m.name)).collect();
    for (a, b) in mpis.iter().zip(mpis.iter().cycle().skip(1)) {
        let scene = Scene::new(format!("old constructors: {}, {}", a.name, b.name));
        let jobs = [(a, ["air", "ocean", "0"]), (b, ["ocean", "air", "1"])].map(|(mpi, words)| {
            let program = compile_fortran(mpi, &WAYS[0], "old_types", Library::Linked);
            let program = program.unwrap_or_else(|said| panic!("{}:\n{said}", mpi.name));
            scene.start(Launch::of(mpi, 1, program, Library::Linked, &words))
        });
        let done = scene.pass(jobs, LIMIT);
        scene.require(done.iter().all(|d| d.checks() > 0), "both check something");
    }
}

/// Zero counts, MPI_BOTTOM, negative displacements, truncation, types freed under way, handles used again, towers.
#[test]
fn corners() {
    let mut figure = Figure::new("13-corners", "corners of datatypes: values checked, all right");
    for (a, b) in Mpi::couples() {
        let scene = Scene::new(format!("corners of datatypes: {}, {}", a.name, b.name));
        let jobs = [(a, ["air", "ocean", "0"]), (b, ["ocean", "air", "1"])];
        let done = scene.pass(jobs.map(|(mpi, words)| scene.start(Launch::new(mpi, 1, "corners", &words))), LIMIT);
        figure.line(format!("{} {}: {}", a.sign, b.sign, done.iter().map(|d| d.checks()).sum::<u64>()));
        for (mpi, _) in [a, b].iter().zip(&done).filter(|(_, d)| d.lines("F90").any(|has| has == "0")) {
            figure.line(format!("  {} has no types by Fortran's digits", mpi.name));
        }
    }
}
