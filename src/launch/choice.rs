//! `mpi-connect launch-choice`: several programs of one job, under a launcher that takes only one. Each rank becomes its own.
//!
//! Invariant: the ranks of a job are numbered through its programs, in their order.

use super::rank::become_command;
use serde_json::{Value, json};
use std::env;
use std::ffi::OsString;

#[derive(clap::Args)]
pub struct Args {
    /// A list of programs: each how many ranks it has, where it runs, and its words
    programs: String,
}

/// One of the programs.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    pub ranks: usize,
    /// Another directory than that of the job.
    pub directory: Option<String>,
    pub words: Vec<String>,
}

/// The words that stand for them all.
pub fn words(command: &str, programs: &[Program]) -> Vec<String> {
    let one = |program: &Program| json!([program.ranks, program.directory, program.words]);
    let all: Vec<Value> = programs.iter().map(one).collect();
    vec![command.to_owned(), "launch-choice".into(), Value::from(all).to_string()]
}

/// The directory and the words of the rank with this number.
fn chosen(programs: &str, mut number: u64) -> Option<(Option<String>, Vec<OsString>)> {
    let all: Value = serde_json::from_str(programs).ok()?;
    for program in all.as_array()? {
        let ranks = program[0].as_u64()?;
        if number < ranks {
            let words = program[2].as_array()?.iter().filter_map(|word| Some(word.as_str()?.into())).collect();
            return Some((program[1].as_str().map(str::to_owned), words));
        }
        number -= ranks;
    }
    None
}

/// Returns only with an error, and the exit status for it.
pub fn choose(args: &Args) -> (u8, String) {
    let told = base::log::launched_rank().or_else(|| env::var("SLURM_PROCID").ok()?.parse().ok());
    let Some((directory, words)) = told.and_then(|number| chosen(&args.programs, u64::from(number))) else {
        return (2, "which rank this is cannot be told, so neither can its program".into());
    };
    if let Some(directory) = directory
        && let Err(e) = env::set_current_dir(&directory)
    {
        return (126, format!("{directory}: {e}"));
    }
    become_command(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_its_program() {
        let program =
            |ranks, word: &str| Program { ranks, directory: None, words: vec![word.into(), "\"x\" y".into()] };
        let mut all = [program(1, "./a"), program(2, "./b")];
        all[1].directory = Some("/tmp".into());
        let words = words("/bin/mpi-connect", &all);
        let of =
            |number| chosen(&words[2], number).map(|(directory, words)| (directory, words[0].clone(), words.len()));
        assert_eq!(of(0), Some((None, "./a".into(), 2)));
        assert_eq!([of(1), of(2)], [1, 2].map(|_| Some((Some("/tmp".into()), "./b".into(), 2))));
        assert_eq!((of(3), chosen("[[1]]", 0).map(|_| ())), (None, None));
    }
}
