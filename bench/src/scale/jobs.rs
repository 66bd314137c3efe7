//! Two jobs of very many real processes on this machine, beside ADIOS2's SST with as many from its Python package.

use crate::page::record;
use crate::table::{Table, or_not};
use c_tests::{Done, Launch, Library, Mpi, Scene, root, target, try_build};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Far more processes than cores take their time to start and to end.
const LIMIT: Duration = Duration::from_secs(900);
/// How long one side waits for the other.
const SECONDS: &str = "5";

/// The rows, with what each is of.
type Figures = BTreeMap<String, (f64, String)>;

/// What the processes print for us, each row of all of them as one figure.
fn read(done: &[Done]) -> Result<Figures, String> {
    let mut figures = Figures::new();
    let mut put = |text: &str| -> Option<()> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        let text = |name: &str| Some(value[name].as_str()?.to_owned());
        let (figure, is_sum) = (value["figure"].as_f64()?, text("how")? == "sum");
        let (known, _) = figures.entry(text("row")?).or_insert((0.0, text("unit")?));
        *known = if is_sum { *known + figure } else { known.max(figure) };
        Some(())
    };
    let mut lines = done.iter().flat_map(|d| d.lines("BENCH"));
    match lines.find(|line| put(line).is_none()) {
        Some(line) => Err(format!("not understood: {line}")),
        None => Ok(figures),
    }
}

fn wait<const N: usize>(scene: &Scene, jobs: [c_tests::Job; N]) -> Result<Figures, String> {
    let done = scene.try_wait(jobs, LIMIT).inspect_err(|_| scene.kill(""))?;
    match done.iter().find(|d| !d.status.success()) {
        Some(bad) => {
            let said: Vec<_> = bad.stderr.lines().filter(|line| !line.trim_matches('-').is_empty()).collect();
            let last = said[said.len().saturating_sub(6)..].join("\n    ");
            Err(format!("{} ended with {}:\n    {last}", bad.title, bad.status))
        }
        None => read(&done),
    }
}

fn program(mpi: &Mpi) -> Result<PathBuf, String> {
    let flags = ["-O2".to_owned(), format!("-I{}", root().join("include").display())];
    let output = target().join("bench/programs").join(mpi.name).join("many");
    try_build(mpi.compiler(), &root().join("bench/c/many.c"), &output, &flags, &[])
}

/// Two jobs of so many ranks each, which the library joins.
fn ours(pair: [&'static Mpi; 2], ranks: usize) -> Result<Figures, String> {
    let scene = Scene::large("many");
    let start = |k: usize| -> Result<_, String> {
        let names = ["air", "ocean"];
        let words = ["joined", names[k], names[1 - k], SECONDS];
        let launch = Launch::of(pair[k], ranks, program(pair[k])?, Library::Preloaded, &words);
        // The MPIs' own barriers are no part of what is measured, but they would keep all processors.
        Ok(scene.start(launch.env("OMPI_MCA_mpi_yield_when_idle", "1").env("MPI_CONNECT_TIMEOUT", "300")))
    };
    wait(&scene, [start(0)?, start(1)?])
}

/// As many processes of SST.
fn sst(python: &Path, pairs: usize) -> Result<Figures, String> {
    let scene = Scene::large("sst");
    let (script, folder) = (root().join("bench/c/sst.py"), scene.folder.display().to_string());
    let words = [&script.display().to_string(), &pairs.to_string(), &folder];
    wait(&scene, [scene.start(Launch::alone(python, &words.map(|word| word.as_str())))])
}

/// Measures both, and shows them beside each other. `python` has ADIOS2, if it is there.
pub fn measure(pair: [&str; 2], ranks: usize, python: Option<&Path>) -> Result<(), String> {
    let named = |name: &str| Mpi::by_name(name).ok_or_else(|| format!("no MPI named {name}"));
    let mut columns =
        vec![(format!("this library, {} with {}", pair[0], pair[1]), ours([named(pair[0])?, named(pair[1])?], ranks)?)];
    if let Some(python) = python {
        columns.push(("ADIOS2 SST".into(), sst(python, ranks)?));
    }
    let mut table = Table::new(format!("2 x {ranks} processes"), &[""]);
    table.rows[0].extend(columns.iter().map(|(title, _)| title.clone()));
    let mut rows: Vec<&String> = columns.iter().flat_map(|(_, figures)| figures.keys()).collect();
    rows.sort();
    rows.dedup();
    for row in rows {
        let unit = columns.iter().find_map(|(_, figures)| figures.get(row)).map_or("", |(_, unit)| unit);
        let mut cells = vec![if unit.is_empty() { row.clone() } else { format!("{row}, {unit}") }];
        cells.extend(columns.iter().map(|(_, figures)| or_not(figures.get(row).map(|(value, _)| *value))));
        table.rows.push(cells);
    }
    println!("{}", table.screen());
    record("processes", &table.markdown())
}
