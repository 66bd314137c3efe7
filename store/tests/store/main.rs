//! The file of a naming server: what it outlives, and what it refuses.

mod disk;
mod group;
mod history;
mod kills;
mod kit;
mod leases;
mod load;
mod opening;
mod power;
