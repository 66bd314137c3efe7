//! How many instructions a small message takes at either side: a guard, which a slower path trips at once and a busy machine never.

use crate::native::{costs, counting};
use c_tests::{Figure, Launch, Library, MPIS, Mpi, Scene, compile, library};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The most instructions of one message of 8 bytes over shared memory, in the calling thread: a blocking send; MPI_Isend and its part of
/// a Waitall; a blocking receive of a message that has come before; MPI_Irecv and its part of a Waitall, with all that it
/// takes to read the message. A tenth more than was counted; of the last, another thread sometimes reads a part.
const MOST: [(&str, i64); 4] = [("Send", 740), ("Isend", 860), ("Recv", 880), ("Irecv", 1750)];

#[test]
fn a_small_message_takes_few_instructions() {
    let title = "instructions of a message of 8 bytes over shared memory, and the most that are allowed";
    let mut figure = Figure::new("63-message-instructions", title);
    let mut beyond = Vec::new();
    // What counts is the library's own, whatever MPI is below; LAM makes calls by public names, which are counted too.
    let mpi: &Mpi = MPIS.iter().find(|mpi| mpi.name != "lam").unwrap_or(&MPIS[0]);
    let scene = Scene::new(format!("instructions of messages, {}", mpi.name));
    let partner = scene.start(Launch::new(mpi, 1, "message_cost", &["partner"]));
    let out = scene.path("counted");
    let program = compile(mpi, "message_cost", Library::Preloaded);
    let counted = costs(&scene, &out, counting(&scene, mpi, &program, &out, Some(library())));
    scene.pass([partner], LIMIT);
    for (call, most) in MOST {
        let took = counted[&(call.to_owned(), "ten".to_owned())];
        figure.line(format!("{call}: {took}, at most {most}"));
        if took > most {
            beyond.push(format!("{call}: {took} instead of {most}"));
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}
