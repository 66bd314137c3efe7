//! The naming server and its clients, over loopback.

mod bytes;
mod claims;
mod crowds;
mod failover;
mod keys;
mod kit;
mod storm;
