//! SIGKILL of the peer at every protocol state, with each blocking call pending.

use c_tests::{Figure, Launch, Mpi, Scene};
use std::time::Duration;

const STATES: &[(&str, &str)] = &[
    ("untouched", "joined, nothing sent"),
    ("idle", "connected, idle"),
    ("eager", "its eager message unmatched"),
    ("rts", "its large message unmatched"),
    ("incoming", "in mid-transfer to the survivor"),
    ("outgoing", "in mid-transfer from the survivor"),
    ("completed", "after large messages"),
];
const CALLS: &[&str] =
    &["Recv", "Recv any", "Send", "Ssend", "Sendrecv", "Probe", "Wait", "Waitall", "Waitany", "Waitsome"];
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn survivors_are_told() {
    let mut figure = Figure::new(
        "40-kill",
        "peer killed: ms until the pending call says so (hard limit 20000; * the transfer was whole before)",
    );
    for (a, b) in Mpi::ring() {
        figure.line(format!("survivor under {}, killed under {}", b.name, a.name));
        let mut rows = vec![[""].iter().chain(CALLS).map(|s| s.to_string()).collect::<Vec<_>>()];
        for (state, meaning) in STATES {
            let scene = Scene::new(format!("killed: {state}; survivor {}, killed {}", b.name, a.name));
            let numbers: Vec<_> = (0..CALLS.len()).map(|k| k.to_string()).collect();
            let _victims: Vec<_> =
                numbers.iter().map(|k| scene.start(Launch::new(a, 1, "kill", &["victim", state, k]))).collect();
            let survivors = scene.start(Launch::new(b, CALLS.len(), "kill", &["survivor", state]));
            let [done] = scene.pass([survivors], LIMIT);
            let mut row = vec![meaning.to_string()];
            for call in CALLS {
                let prefix = format!("KILL {state} {call}");
                let told = done.lines(&prefix).find(|l| l.split_whitespace().count() == 2);
                let (ms, how) = told.and_then(|l| l.split_once(' ')).expect("every call reports");
                row.push(format!("{ms}{}", if how == "whole" { "*" } else { "" }));
            }
            rows.push(row);
        }
        figure.table(&rows);
    }
}
