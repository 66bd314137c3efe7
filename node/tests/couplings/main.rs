//! What goes on between nodes of one process: by subject, in one program, since each program takes seconds to be linked. A test that counts what
//! its process has, or that forks, is a program of its own beside this folder.

#[path = "../common/mod.rs"]
#[macro_use]
mod common;

mod control;
mod data;
mod ends;
mod lanes;
mod life;
mod obstacles;
mod ports;
mod scanned;
mod stripes;
mod toy;
