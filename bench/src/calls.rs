//! Instructions that the library adds to native calls, and that a message takes: counted by tests under callgrind, whose figures are read here. For
//! main and claims.

use crate::settings::Settings;
use c_tests::{Mpi, figures, root};
use std::process::Command;

/// What the tests are called, and where they leave their figures: of native calls, and of messages between jobs.
const TESTS: [&str; 2] =
    ["native::instructions_added_per_call", "message_cost::a_small_message_takes_few_instructions"];
const FIGURES: [&str; 2] = ["62-instructions.txt", "63-message-instructions.txt"];

pub struct Calls {
    /// The most that any call grew by for an entry of ours that it passed, while no inter-communicator lives, and while ten
    /// do.
    pub none: Option<i64>,
    pub ten: Option<i64>,
    /// The most that a Waitall of 64 requests grew by, while ten do: where it passes one entry, and where its MPI makes more calls in it.
    pub requests: Option<i64>,
    pub requests_in_calls: Option<i64>,
    /// The figure, as the test prints it; and that of messages.
    pub text: String,
    pub messages: String,
}

/// Runs the test; a quick run over the two MPIs of the pair alone.
pub fn run(settings: &Settings, pair: [&Mpi; 2]) -> Result<Calls, String> {
    let mpis: Vec<&str> =
        if settings.quick { pair.to_vec() } else { settings.mpis.to_vec() }.iter().map(|m| m.name).collect();
    println!("instructions of native calls, {} (builds the test first)", mpis.join(", "));
    let words = ["test", "-q", "-p", "mpi-connect-c-tests", "--test", "system", "--", "--exact", TESTS[0], TESTS[1]];
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let done = Command::new(cargo)
        .args(words)
        .current_dir(root())
        .env("MPI_CONNECT_TEST_MPIS", mpis.join(","))
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    // A test that fails has its figure all the same, and says so in it.
    let [text, messages] = FIGURES.map(|figure| std::fs::read_to_string(figures().join(figure)).unwrap_or_default());
    let [none, ten, requests, requests_in_calls] = added(&text);
    if none.is_none() {
        let said = String::from_utf8_lossy(&done.stdout);
        let said: Vec<_> = said.lines().rev().take(3).collect();
        return Err(format!("the test says nothing of calls: {}", said.join("; ")));
    }
    Ok(Calls { none, ten, requests, requests_in_calls, text, messages })
}

/// What the figure says at its end: of one entry with no inter-communicator, and with ten; of 64 requests in one entry, and in more.
fn added(text: &str) -> [Option<i64>; 4] {
    let last = text.lines().find_map(|line| line.trim_start().strip_prefix("most for one entry: ")).unwrap_or_default();
    let parts = || last.split([',', ';']).map(str::trim);
    let number = |before: &str| parts().find_map(|part| part.strip_suffix(before)?.trim().parse().ok());
    let requests = |behind: &str| parts().find_map(|part| part.strip_prefix(behind)?.trim().parse().ok());
    [number("with none"), number("with ten"), requests("for 64 requests"), requests("where its MPI makes calls in it")]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_most_is_read() {
        let text = "instructions (at most 5)\n          Send\n  a C   10 +1 +4\n  most for one entry: +1 with none, +4 with ten; for 64 requests +9, where its MPI makes calls in it +70\n";
        assert_eq!(super::added(text), [Some(1), Some(4), Some(9), Some(70)]);
        assert_eq!(super::added("  a C   10 +1 +4\n"), [None; 4]);
    }
}
