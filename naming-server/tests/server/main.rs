//! The naming server and its clients, over loopback.

mod bytes;
mod claims;
mod crowds;
mod failover;
mod flood;
mod keys;
mod kit;
mod storm;
