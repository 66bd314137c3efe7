//! Instructions that the library adds to native calls: counted by a test under callgrind, whose figure is read here. For
//! main and claims.

use crate::settings::Settings;
use c_tests::{Mpi, figures, root};
use std::process::Command;

/// What the test is called, and where it leaves its figure.
const TEST: &str = "instructions_added_per_call";
const FIGURE: &str = "62-instructions.txt";

pub struct Calls {
    /// The most that any call grew by, while no inter-communicator lives, and while ten do.
    pub none: Option<i64>,
    pub ten: Option<i64>,
    /// The figure, as the test prints it.
    pub text: String,
}

/// Runs the test; a quick run over the two MPIs of the pair alone.
pub fn run(settings: &Settings, pair: [&Mpi; 2]) -> Result<Calls, String> {
    let mpis: Vec<&str> =
        if settings.quick { pair.to_vec() } else { settings.mpis.to_vec() }.iter().map(|m| m.name).collect();
    println!("instructions of native calls, {} (builds the test first)", mpis.join(", "));
    let words = ["test", "-q", "-p", "mpi-connect-c-tests", "--test", "native", TEST, "--", "--exact"];
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let done = Command::new(cargo)
        .args(words)
        .current_dir(root())
        .env("MPI_CONNECT_TEST_MPIS", mpis.join(","))
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    // A test that fails has its figure all the same, and says so in it.
    let text = std::fs::read_to_string(figures().join(FIGURE)).unwrap_or_default();
    let (none, ten) = added(&text);
    if none.is_none() {
        let said = String::from_utf8_lossy(&done.stdout);
        let said: Vec<_> = said.lines().rev().take(3).collect();
        return Err(format!("the test says nothing of calls: {}", said.join("; ")));
    }
    Ok(Calls { none, ten, text })
}

/// The largest last cell of the rows, where it has a sign: of those that speak of ten inter-communicators (by the word
/// "ten"), and of all others.
fn added(text: &str) -> (Option<i64>, Option<i64>) {
    let cell = |line: &str| line.split_whitespace().next_back().filter(|c| c.starts_with(['+', '-']))?.parse().ok();
    let most = |ten| text.lines().filter(|l| l.split_whitespace().any(|w| w == "ten") == ten).filter_map(cell).max();
    (most(false), most(true))
}

#[cfg(test)]
mod tests {
    #[test]
    fn signed_cells_are_read() {
        let text = "instructions (at most 10 added)\n without with added\n a MPI_Send 10 14 +4\n b MPI_Recv 9 8 -1\n";
        assert_eq!(super::added(text), (Some(4), None));
        assert_eq!(super::added("a MPI_Send ten live 10 19 +9\n"), (None, Some(9)));
    }
}
