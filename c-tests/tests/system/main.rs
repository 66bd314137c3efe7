//! All system tests in one program, so that it is linked once, and so that they know of each other (`c_tests::Scene`): one
//! file a subject, with a line here.

#[path = "../../../shim/api/functions.rs"]
mod functions;

mod abi;
mod adopt;
mod bad_input;
mod check_types;
mod collective;
mod couplings;
mod coverage;
mod data_waits;
mod edges;
mod examples;
mod exports;
mod faults;
mod firewall;
mod flood;
mod foreign;
mod fortran;
mod groups;
mod installed;
mod kill;
mod lanes;
mod linked;
mod loading;
mod mistakes;
mod native;
mod network;
mod network_default;
mod objects;
mod pairs;
mod partitioned;
mod port_edges;
mod port_flood;
mod port_kill;
mod port_many;
mod port_native;
mod port_network;
mod port_rounds;
mod ports;
mod progress;
mod provision;
mod python;
mod random;
mod requests;
mod rounds;
mod run_namespace;
mod sends;
mod serve;
mod slurm;
mod suites;
mod threads;
mod types;
mod waiting;
