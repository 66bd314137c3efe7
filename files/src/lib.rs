//! Files of one job that another one fetches or puts there: over connections of their own, on which both sides have proved the
//! key as on an operator's.
//!
//! `message` is what both sides say, `line` a connection that carries it. The serving side: `folders` finds a path below what is
//! open to others, by `beneath`, and `serve` answers one connection, in a thread that exists as long as it does. The other side:
//! `client` makes connections and makes them anew when they break, `get` and `put` move a share of a file over one, and `source`
//! is a file of its own that is sent. On either side, `part` is a file that is not whole yet, `buffer` the memory of what comes, and
//! `writer` the thread that writes it. Invariants: no path leads out of
//! the folders that are open; nothing has a file's name before all of it is on the disk; memory is taken for bytes that have
//! come.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod beneath;
mod buffer;
mod client;
mod error;
mod folders;
mod get;
mod line;
mod message;
mod part;
mod put;
mod serve;
mod share;
mod shelf;
mod source;
mod writer;

pub use client::{Client, Way};
pub use error::{Error, Kind, Side};
pub use folders::{Folder, Folders};
pub use get::{Found, get, look};
pub use line::connections;
pub use message::{Answer, Ask, Chunk, chunks};
pub use part::{Part, Token, target};
pub use put::{abandon, begin, finish, put};
pub use serve::serve;
pub use share::Share;
pub use shelf::Shelf;
pub use source::Source;
