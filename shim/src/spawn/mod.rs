//! MPI_Comm_spawn under another MPI: the command `mpi-connect` starts the job, which joins its parents in MPI_Init.
//!
//! The root opens a port, gives its name to the command, and accepts there as MPI_Comm_accept does, while it watches the
//! command. Invariant: whatever becomes of the call, either all parents have the inter-communicator or no process of the job is
//! left.

mod command;
pub mod parent;
mod program;
mod soft;
pub mod tie;

pub use program::{Call, Command, is_asked, number, several, started};

use crate::abi;
use crate::failure::{Class, Failure};
use crate::forward::Handle;
use crate::inter::Inter;
use crate::port::{self, Awaited, Plan, name};
use base::settings;
use std::cell::RefCell;
use tie::Tie;

/// Starts what a call asks for, and joins it. `call` is asked on the root alone.
pub fn spawn(
    title: &'static str,
    leader: u32,
    comm: Handle,
    place: Result<(), Failure>,
    call: impl Fn() -> Result<Call, Failure>,
) -> Result<Inter, Failure> {
    // Of the root: the port, and what ends the job when it is dropped.
    let own: RefCell<Option<(String, Tie)>> = RefCell::new(None);
    let plan = || {
        let Call { mut request, timeout } = call()?;
        let timeout = timeout.map_or_else(|| settings::timeout().map_err(bad_timeout), Ok)?;
        request.port = port::open_within(abi::get().info_null, name::MAX)?;
        let tie = command::start(&request).inspect_err(|_| {
            let _ = port::close(&request.port);
        })?;
        let watched = tie.watched();
        let planned = port::find(&request.port)?;
        let size = request.programs.iter().map(|program| program.ranks).sum();
        *own.borrow_mut() = Some((request.port, tie));
        let awaited = Awaited { look: Box::new(move || watched.look()), size };
        Ok(Plan::Accept(planned, Some(timeout), Some(awaited)))
    };
    let made = port::meet_by(title, leader, comm, place, plan);
    let own = own.into_inner();
    if let Some((port, _)) = &own {
        let _ = port::close(port);
    }
    let made = made.and_then(|inter| inter.ok_or_else(|| Failure::new(Class::Intern, "the call went nowhere")));
    match (&made, own) {
        (Ok(inter), Some((_, tie))) => tie::keep(inter.id, tie),
        (Err(failure), Some(_)) => base::log!(Error, "{title}: {}", failure.text),
        _ => {}
    }
    made.map_err(as_spawn)
}

fn bad_timeout(e: String) -> Failure {
    Failure::new(Class::Arg, format!("{}: {e}", settings::TIMEOUT))
}

/// Whatever keeps a job from coming is a failure to spawn it.
fn as_spawn(failure: Failure) -> Failure {
    let class = match failure.class {
        Class::Timeout | Class::Port | Class::Name | Class::PeerGone => Class::Spawn,
        class => class,
    };
    let text = match failure.class {
        Class::Timeout => format!("the job was started, and has not called MPI_Init: {}", failure.text),
        _ => failure.text,
    };
    Failure { class, text }
}
