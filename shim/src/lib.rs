//! The MPI face: a library that sits between a program and whatever MPI it was built for.
//!
//! Native calls go straight to the MPI below. Calls on an inter-communicator between jobs go to the node, which this
//! room uses and which knows no MPI; nothing here knows a socket. Only `forward` calls the MPI below, only `abi` knows
//! its constants, only `error` makes its error codes.
#![allow(non_snake_case)]

pub mod abi;
mod attr;
mod bind;
mod buffer;
pub mod conn;
mod counts;
mod datatype;
mod entry;
mod error;
mod exports;
mod facts;
mod failure;
mod flush;
mod forward;
mod functions;
mod gaps;
mod group;
mod heap;
mod house;
mod inter;
mod left;
mod life;
mod locked;
mod message;
pub mod port;
mod process;
mod request;
mod token;
mod wait;
