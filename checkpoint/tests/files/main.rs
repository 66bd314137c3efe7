//! The files of checkpoints: what they outlive, and what is told of those that cannot be used.

mod kills;
mod kit;
mod power;
mod trouble;
