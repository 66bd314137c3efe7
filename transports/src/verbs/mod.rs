//! RDMA devices: lanes over queue pairs of the verbs, with the plug-in that calls libibverbs.
//!
//! Both sides prove themselves over an IP connection, as everywhere, and set up a queue pair over it ([`setup`]). The connection
//! stays open: its end is the other side's. Frames travel as a stream of bytes in messages under credits ([`messages`], [`ring`]), short ones without what the one before had too ([`words`]), and MSG frames mostly as messages of their own ([`bodies`]);
//! large bulk is read by the receiver from where it lies ([`lend`], [`reads`]), or written by the sender where memory cannot be read ([`writes`], [`room`]). [`plugin`] and [`device`] are the table of
//! functions and its objects, [`link`] a queue pair with what belongs to it, [`pool`] the receive slots that all lanes of a device share.
//!
//! Nothing here is encrypted. So the transport is not used where encryption is demanded.

mod address;
mod bodies;
mod device;
mod fabric;
#[cfg(test)]
mod fake;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod lane;
mod lend;
mod link;
mod messages;
mod open;
mod plugin;
mod pool;
mod reads;
mod ring;
mod room;
mod setup;
#[cfg(test)]
mod tests;
mod words;
mod writes;

pub(crate) use address::ABOUT;
pub(crate) use lane::VerbsLane;
pub(crate) use open::{Settings, open};

use base::protocol::rdma::RESERVE;

/// The connection under a lane, as the handshake leaves it.
type Socket = crate::stream::link::Link<crate::ip::Socket>;

/// Messages that the other side of a lane may send before any is given back.
const CREDITS: u16 = 16;
/// Bytes that a send carries without a slot of its own.
const INLINE: u32 = 256;
/// RDMA reads of one lane at a time, unless a setting says less.
const READS: u8 = 16;
/// Sends and reads of one lane at a time.
const WORK: u32 = 64;
/// Bulk of at least this many bytes goes from where it lies: below, a copy costs less than to register the memory.
const READ_FROM: usize = 64 << 10;
