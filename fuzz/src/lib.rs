//! Fuzz targets: what reads bytes of others is given bytes that nobody would send (docs/fuzzing.md).
//!
//! Each file has the targets of one room, and `src/bin` one program for each target. A target is a [`Target`]: a function that
//! reads an input and says what must hold, and inputs of the real encoders to begin with. Nothing uses this crate.
//! Invariant: a target depends on its input alone, and on nothing that an input before has left.

pub mod checkpoint;
pub mod engine;
pub mod files;
pub mod input;
pub mod memory;
pub mod naming;
pub mod node;
pub mod rdma;
pub mod relay;
pub mod router;
pub mod session;
pub mod shared;
pub mod spawn;
pub mod streams;
pub mod text;
pub mod trust;
pub mod wire;

pub use libfuzzer_sys;

use std::cell::Cell;
use std::path::Path;

/// What a decoder is given, and what must hold.
pub struct Target {
    /// Reads the input. A panic is a finding.
    pub run: fn(&[u8]),
    /// Inputs to begin with, of the real encoders, so that they follow the protocol.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The longest input that is tried, in bytes.
    pub longest: usize,
    /// The most memory that an input may take, in bytes.
    pub memory: usize,
}

/// All inputs together may leave so much behind: what is made once.
const LEFT: isize = 1 << 20;

/// The variable that names a folder: with it, a program writes there what it begins with, and `longest`, and ends. That is
/// its seeds, and the inputs of its corpus, the file that the other variable names.
const GIVEN: &str = "MPI_CONNECT_FUZZ_GIVEN";
const CORPUS: &str = "MPI_CONNECT_FUZZ_CORPUS";

thread_local! {
    static LEFT_BEHIND: Cell<isize> = const { Cell::new(0) };
}

unsafe extern "C" {
    static mut __start___sancov_cntrs: u8;
    static mut __stop___sancov_cntrs: u8;
}

/// Makes libFuzzer forget which branches were taken for this input so far. For those that every input takes before it is read:
/// it would look at each of them each time.
pub fn forget_branches() {
    let (from, to) = (&raw mut __start___sancov_cntrs, &raw mut __stop___sancov_cntrs);
    // SAFETY: the compiler has put the counters between these two, and they are nothing but counters. This is the one thread
    // that counts.
    unsafe { from.write_bytes(0, to.offset_from_unsigned(from)) };
}

/// Runs a target on one input.
pub fn run(target: &Target, input: &[u8]) {
    memory::begin();
    (target.run)(input);
    let (most, left) = memory::taken();
    assert!(most <= target.memory as isize, "{most} bytes of memory for an input of {} bytes", input.len());
    LEFT_BEHIND.set(LEFT_BEHIND.get() + left);
    assert!(LEFT_BEHIND.get() <= LEFT, "inputs leave memory behind: {} bytes", LEFT_BEHIND.get());
}

/// The inputs of a corpus: each line is one, in hexadecimal digits, but for lines that begin with `#`.
fn corpus(text: &str) -> Vec<Vec<u8>> {
    let byte = |two: &[u8]| std::str::from_utf8(two).ok().and_then(|two| u8::from_str_radix(two, 16).ok());
    let line = |line: &str| -> Option<Vec<u8>> { line.as_bytes().chunks(2).map(byte).collect() };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|one| line(one).unwrap_or_else(|| panic!("no input: {one}"))).collect()
}

/// Begins a target's program: writes what it begins with where the variable asks for that.
pub fn begin(target: &Target) {
    let Some(folder) = std::env::var_os(GIVEN) else { return };
    let folder = Path::new(&folder);
    let put = |name: String, bytes: &[u8]| {
        std::fs::write(folder.join(&name), bytes).unwrap_or_else(|e| panic!("{}/{name}: {e}", folder.display()));
    };
    for (n, seed) in (target.seeds)().iter().enumerate() {
        assert!(seed.len() <= target.longest, "seed {n} has {} bytes, and is not tried", seed.len());
        put(format!("seed-{n:03}"), seed);
    }
    if let Ok(text) = std::env::var(CORPUS).map(|file| std::fs::read_to_string(&file).unwrap_or_default()) {
        corpus(&text).iter().enumerate().for_each(|(n, input)| put(format!("kept-{n:04}"), input));
    }
    put("longest".to_owned(), target.longest.to_string().as_bytes());
    std::process::exit(0);
}

/// The program of a target.
#[macro_export]
macro_rules! program {
    ($target:path) => {
        use $crate::libfuzzer_sys;
        libfuzzer_sys::fuzz_target!(init: $crate::begin(&$target), |input: &[u8]| $crate::run(&$target, input));
    };
}
