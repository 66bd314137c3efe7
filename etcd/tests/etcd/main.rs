//! Servers before an etcd, as processes of their own: what they promise, while all of them are well and while some are not.

mod checker;
mod claims;
mod failover;
mod history;
mod kit;
mod nets;
mod secured;
