//! Programs in Python, by mpi4py: its wheel serves the ABIs of MPICH and of Open MPI.

use crate::{Done, Launch, Library, Mpi, Scene, root};
use base::Family;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The system's own, so that the user of the jobs can run it.
const PYTHON: &str = "/usr/bin/python3";

/// Where `scripts/provision` puts the packages and the tests of mpi4py.
fn packages() -> PathBuf {
    let folder = Mpi::wheels().join("python");
    assert!(folder.join("installed").exists(), "{} is not there: run `scripts/provision`", folder.display());
    folder
}

/// Where Python finds mpi4py and the tree's own package.
pub fn path() -> String {
    format!("{}:{}", packages().display(), root().join("python").display())
}

/// The folder with mpi4py's own tests.
fn mpi4py_tests() -> PathBuf {
    packages().join("mpi4py-tests")
}

/// Its modules whose text has one of these words, by name.
pub fn tests_that_mention(words: &[&str]) -> Vec<String> {
    let files = std::fs::read_dir(mpi4py_tests()).expect("mpi4py's tests").filter_map(|f| Some(f.ok()?.path()));
    let has =
        |path: &PathBuf| std::fs::read_to_string(path).is_ok_and(|text| words.iter().any(|word| text.contains(word)));
    let name = |path: PathBuf| Some(path.file_name()?.to_str()?.strip_suffix(".py")?.to_owned());
    let mut modules: Vec<_> = files.filter(has).filter_map(name).filter(|n| n.starts_with("test_")).collect();
    modules.sort();
    modules
}

/// How each test ended, by name.
pub type Outcomes = BTreeMap<String, String>;

/// Runs mpi4py's own tests with these options. How they ended, rank by rank.
pub fn run_mpi4py_tests<'a>(
    mpi: &'a Mpi,
    ranks: usize,
    scene: &Scene,
    title: &str,
    options: &[&str],
    prepare: impl FnOnce(Launch<'a>) -> Launch<'a>,
    limit: Duration,
) -> (Done, Vec<Outcomes>) {
    let (tests, to) = (mpi4py_tests(), scene.path(title));
    let words = [tests.to_str().expect("plain text"), to.to_str().expect("plain text"), "--no-builddir"];
    let launch = launch(mpi, ranks, "outcomes.py", Library::None, &[&words, options].concat(), scene);
    let mut launch = prepare(launch.expect("mpi4py works with it"));
    launch.title = title.into();
    // Some may fail under this MPI by itself.
    let [done] = scene.wait([scene.start(launch)], limit);
    let outcomes = |rank| outcomes(&scene.path(&format!("{title}.{rank}")));
    (done, (0..ranks).map(outcomes).collect())
}

/// How each test ended, as one rank wrote it.
fn outcomes(file: &Path) -> Outcomes {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let fields = |line: &str| line.splitn(3, '\t').take(2).map(str::to_owned).collect::<Vec<_>>();
    text.lines().map(fields).map(|f| (f[0].clone(), f[1].clone())).collect()
}

/// Whether mpi4py can work with this MPI, or why not.
pub fn works_with(mpi: &Mpi) -> Result<(), &'static str> {
    match mpi.family {
        Family::Standard => Err("mpi4py's wheel has no module for the standard ABI"),
        Family::Lam => Err("mpi4py's wheel has no module for LAM's ABI"),
        Family::Mpich | Family::OpenMpi => Ok(()),
    }
}

/// What mpi4py is told to load.
fn libmpi(mpi: &Mpi, scene: &Scene) -> PathBuf {
    match (mpi.family, mpi.folder()) {
        (Family::Mpich, Some(folder)) => folder.join("lib/libmpi.so.12"),
        (Family::Mpich, None) => renamed(&of_system("libmpich.so.12"), &scene.path("libmpi.so.12")),
        (_, Some(folder)) => folder.join("lib/libmpi.so.40"),
        (_, None) => of_system("libmpi.so.40"),
    }
}

/// Where the system keeps a library.
fn of_system(file: &str) -> PathBuf {
    let done = Command::new("gcc").arg(format!("-print-file-name={file}")).output().expect("gcc");
    PathBuf::from(String::from_utf8_lossy(&done.stdout).trim())
}

/// A link: Debian calls MPICH's library by another name than the one that mpi4py's module asks for.
fn renamed(library: &Path, link: &Path) -> PathBuf {
    if !link.exists() {
        std::os::unix::fs::symlink(library, link).expect("the scene's folder");
    }
    link.to_owned()
}

/// A script of `c-tests/python`, or any other by its path, or why that cannot be run under this MPI.
pub fn launch<'a>(
    mpi: &'a Mpi,
    ranks: usize,
    script: &str,
    library: Library,
    arguments: &[&str],
    scene: &Scene,
) -> Result<Launch<'a>, &'static str> {
    works_with(mpi)?;
    let words = words(script);
    let words: Vec<&str> = words[1..].iter().map(String::as_str).chain(arguments.iter().copied()).collect();
    let mut launch = Launch::of(mpi, ranks, PYTHON.into(), library, &words).envs(&environment(mpi, scene));
    launch.title = format!("{}-{}", mpi.name, arguments.first().unwrap_or(&"python")).replace('/', "_");
    Ok(launch)
}

/// The words that run a script.
pub fn words(script: &str) -> [String; 3] {
    let script = root().join("c-tests/python").join(script);
    // Nothing is written beside the sources: the user of the jobs may not.
    [PYTHON.into(), "-B".into(), script.to_str().expect("plain text").into()]
}

/// The variables that it needs.
pub fn environment(mpi: &Mpi, scene: &Scene) -> Vec<(&'static str, String)> {
    let libmpi = libmpi(mpi, scene);
    let text = |path: &Path| path.to_str().expect("plain text").to_owned();
    let mut all = vec![
        ("PYTHONPATH", path()),
        // Unbuffered, a line is several writes, and those of two ranks mix.
        ("PYTHONUNBUFFERED", String::new()),
        ("MPI4PY_LIBMPI", text(&libmpi)),
    ];
    if libmpi.starts_with(&scene.folder) {
        all.push(("LD_LIBRARY_PATH", text(&scene.folder)));
    }
    all
}

/// `pip install` of the tree's package into a folder, without the network.
pub fn pip_install(to: &Path) -> Command {
    let mut command = Command::new(PYTHON);
    command.args(["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target"]);
    command.arg(to).env("PYTHONPATH", packages()).env("PIP_ROOT_USER_ACTION", "ignore");
    command
}
