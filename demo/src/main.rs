//! Solves a heat plate twice: by one program, and by two under two MPIs that swap their edges. Shows that the two
//! results are the same to the last bit, and draws the plate. With `--checkpoint` the two are killed in the middle, and each
//! goes on from its checkpoints under the MPI of the other.

mod picture;
mod plate;
mod runs;

use c_tests::{Mpi, target};
use plate::{HEIGHT, WIDTH};
use runs::Steps;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (options, words): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let (mut checkpoint, mut steps) = (false, Some(Steps(4000)));
    for option in options {
        match option.strip_prefix("--steps=") {
            Some(number) => steps = number.parse().ok().filter(|n| *n > 0 && n % 40 == 0).map(Steps),
            None if option == "--checkpoint" => checkpoint = true,
            None => steps = None,
        }
    }
    let Some(steps) = steps else {
        eprintln!("plate [--checkpoint] [--steps=MULTIPLE-OF-40] [LEFT [RIGHT]]");
        return ExitCode::FAILURE;
    };
    let mut words = words.into_iter();
    let names = ["openmpi", "mpich"].map(|default| words.next().unwrap_or_else(|| default.into()));
    if !names.iter().any(|name| name == "lam") {
        // Only LAM refuses root.
        c_tests::user::stay();
    }
    let [left, right] = names.map(|name| {
        let found = Mpi::by_name(&name).or_else(|| Mpi::on_path(&name));
        let known = || format!("no MPI named {name}: openmpi or mpich on the PATH, or {}", Mpi::names().join(", "));
        found.ok_or_else(known)
    });
    match left.and_then(|left| show([left, right?], steps, checkpoint)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("demo: {e}");
            ExitCode::FAILURE
        }
    }
}

fn show(mpis: [&Mpi; 2], steps: Steps, checkpoint: bool) -> Result<(), String> {
    let folder = target().join("demo");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    c_tests::user::give(&folder);

    println!("One program, 2 ranks under {}: the reference", mpis[0].name);
    let whole = runs::whole(mpis[0], steps, &folder)?;

    print!("Two programs: left half, 2 ranks under {}; right half, 2 ranks under {}", mpis[0].name, mpis[1].name);
    let [left, right] = if checkpoint {
        let [left, right] = steps.between_checkpoints();
        println!("; a checkpoint every {left} and every {right} steps");
        runs::killed_halves(mpis, steps, &folder)?
    } else {
        println!();
        runs::halves(mpis, steps, &folder)?
    };

    let (mut joined, mut largest) = (Vec::with_capacity(WIDTH * HEIGHT), 0.0_f64);
    for (l, r) in left.values.chunks(WIDTH / 2).zip(right.values.chunks(WIDTH / 2)) {
        joined.extend(l.iter().chain(r));
    }
    for (a, b) in joined.iter().zip(&whole.values) {
        // Not a number is not the same either.
        largest = largest.max(if a == b { 0.0 } else { (a - b).abs().max(f64::MIN_POSITIVE) });
    }
    println!("largest difference from the reference: {largest}");

    let path = folder.join("plate.png");
    picture::write(&path, &joined, [&left.mpi, &right.mpi]).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("picture of the coupled plate: {} (left: {}; right: {})", path.display(), left.mpi, right.mpi);
    if largest == 0.0 { Ok(()) } else { Err("the two programs do not give what the one gives".into()) }
}
