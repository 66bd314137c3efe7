//! The set-up of a queue pair over the connection on which both sides have proved themselves.
//!
//! The dialling side says which port it means and what its queue pair is. The answering side connects its own to it, and says
//! the same of its own. When the dialling side has connected too, it says STANDS. So neither sends to a queue pair that cannot
//! receive yet. Invariant: nothing that the other side says is used before it was checked.

use super::fabric::Fabric;
use super::link::Link;
use super::messages::Messages;
use super::{CREDITS, Socket};
use crate::stream::handshake::{Message, say};
use base::bytes::{Malformed, Put, Take};
use base::ident::random;
use base::protocol::rdma::{BY_GID, RDMA, SLOT, STANDS, pair};
use base::rdma::Route;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// The time until a packet is sent again: 4.096 µs times 2 to the power of this, 67 ms.
const TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;
/// Always: the other side's slots are counted, so it is soon ready.
const UNREADY_RETRIES: u8 = 7;
/// 0.64 ms; software devices take no less than this code.
const UNREADY_TIMER: u8 = 12;

/// What a side says of its queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// Of the dialling side: the number of the port of the other side that it means.
    pub port: u8,
    pub lid: u16,
    pub number: u32,
    pub sequence: u32,
    pub credits: u16,
    pub reads: u8,
    pub writes: bool,
    pub mtu: u8,
    pub gid: [u8; 16],
}

impl Said {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(pair::BYTES);
        out.put_u8(RDMA);
        out.put_u8(self.port);
        out.put_u16(self.lid);
        out.put_u32(self.number);
        out.put_u32(self.sequence);
        out.put_u16(self.credits);
        out.put_u8(self.reads);
        out.put_u8(self.mtu);
        out.put_u32(SLOT as u32);
        out.put_u32(self.writes.into());
        out.extend_from_slice(&self.gid);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Said, Malformed> {
        let mut t = Take(bytes);
        let version = t.u8()?;
        let (port, lid, number, sequence) = (t.u8()?, t.u16()?, t.u32()?, t.u32()?);
        let (credits, reads, mtu, slot) = (t.u16()?, t.u8()?, t.u8()?, t.u32()?);
        let (writes, gid) = (t.u32()? & 0xff == 1, t.array()?);
        t.end()?;
        let good = version == RDMA
            && sequence < 1 << 24
            && number < 1 << 24
            && (1..=1 << 12).contains(&credits)
            && (1..=5).contains(&mtu)
            && slot as usize == SLOT;
        if good { Ok(Said { port, lid, number, sequence, credits, reads, writes, mtu, gid }) } else { Err(Malformed) }
    }
}

/// How far the set-up has come.
pub(super) struct Setup {
    fabric: Arc<Fabric>,
    stage: Stage,
    heard: Message,
}

enum Stage {
    /// Nothing was said yet: the numbers of our port and of theirs.
    Dialled(u8, u8),
    /// Our queue pair was told to the other side, whose is awaited.
    Told(Box<Half>),
    /// The other side's is awaited.
    Answered,
    /// Ours is connected, and theirs soon.
    Connected(Box<Messages>),
    Over,
}

/// Our queue pair, which leads nowhere yet.
struct Half {
    link: Link,
    sequence: u32,
}

impl Setup {
    /// Of the dialling side, between these ports.
    pub(super) fn dialled(fabric: &Arc<Fabric>, (own, theirs): (u8, u8)) -> Setup {
        Setup { fabric: fabric.clone(), stage: Stage::Dialled(own, theirs), heard: Message::default() }
    }

    pub(super) fn answered(fabric: &Arc<Fabric>) -> Setup {
        Setup { fabric: fabric.clone(), stage: Stage::Answered, heard: Message::default() }
    }

    /// Goes on as far as it can. `WouldBlock` if the other side has to say something first.
    pub(super) fn step(&mut self, socket: &mut Socket) -> io::Result<Messages> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Dialled(own, theirs) => {
                    let half = self.half(own)?;
                    say(socket, &half.said(theirs).encode())?;
                    self.stage = Stage::Told(Box::new(half));
                }
                Stage::Told(half) => {
                    let Some(theirs) = self.hear(socket, Stage::Told, half, pair::BYTES)? else {
                        return Err(ErrorKind::WouldBlock.into());
                    };
                    let (half, bytes) = theirs;
                    let wire = half.connect(&Said::decode(&bytes).map_err(|_| ErrorKind::InvalidData)?)?;
                    say(socket, &[STANDS])?;
                    return Ok(wire);
                }
                Stage::Answered => {
                    let bytes = self.heard.read(socket, pair::BYTES).inspect_err(|e| {
                        if e.kind() == ErrorKind::WouldBlock {
                            self.stage = Stage::Answered;
                        }
                    })?;
                    let theirs = Said::decode(&bytes).map_err(|_| ErrorKind::InvalidData)?;
                    let half = self.half(theirs.port)?;
                    let own = half.said(0);
                    let wire = half.connect(&theirs)?;
                    say(socket, &own.encode())?;
                    self.stage = Stage::Connected(Box::new(wire));
                }
                Stage::Connected(wire) => {
                    let Some((wire, last)) = self.hear(socket, Stage::Connected, wire, 1)? else {
                        return Err(ErrorKind::WouldBlock.into());
                    };
                    return if last == [STANDS] { Ok(*wire) } else { Err(ErrorKind::InvalidData.into()) };
                }
                Stage::Over => return Err(ErrorKind::NotConnected.into()),
            }
        }
    }

    /// Reads a message. `None` if it is not whole: then the stage is again the one that holds `kept`.
    fn hear<T>(
        &mut self,
        socket: &mut Socket,
        stage: fn(Box<T>) -> Stage,
        kept: Box<T>,
        len: usize,
    ) -> io::Result<Option<(Box<T>, Vec<u8>)>> {
        match self.heard.read(socket, len) {
            Ok(bytes) => Ok(Some((kept, bytes))),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.stage = stage(kept);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn half(&self, port: u8) -> io::Result<Half> {
        let link = self.fabric.link(port)?;
        let sequence = u32::from_le_bytes(random()) & 0xff_ffff;
        Ok(Half { link, sequence })
    }
}

impl Half {
    fn said(&self, theirs: u8) -> Said {
        let port = &self.link.port;
        Said {
            port: theirs,
            lid: port.lid,
            number: self.link.pair.number(),
            sequence: self.sequence,
            credits: CREDITS,
            reads: self.link.reads(),
            writes: true,
            mtu: port.mtu,
            gid: port.gid,
        }
    }

    fn connect(mut self, theirs: &Said) -> io::Result<Messages> {
        self.link.connected = true;
        let port = &self.link.port;
        let reads = theirs.reads.min(self.link.reads());
        self.link.pair.connect(&Route {
            gid: theirs.gid,
            number: theirs.number,
            their_sequence: theirs.sequence,
            own_sequence: self.sequence,
            lid: theirs.lid,
            port: port.port,
            gid_index: port.gid_index,
            mtu: theirs.mtu.min(port.mtu),
            by_gid: u8::from(port.kind == BY_GID),
            reads,
            answers: self.link.reads(),
            timeout: TIMEOUT,
            retries: RETRIES,
            unready_retries: UNREADY_RETRIES,
            unready_timer: UNREADY_TIMER,
        })?;
        Ok(Messages::new(self.link, theirs.credits, reads, theirs.writes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_survives_the_wire_and_nonsense_is_refused() {
        let one =
            Said { port: 1, lid: 2, number: 3, sequence: 4, credits: 5, reads: 6, writes: true, mtu: 3, gid: [8; 16] };
        let bytes = one.encode();
        assert_eq!((bytes.len(), Said::decode(&bytes)), (pair::BYTES, Ok(one)));
        assert_eq!((bytes[pair::WRITES], bytes[pair::GID]), (1, 8));
        for (at, value) in [(pair::RDMA, 9), (pair::NUMBER + 3, 1), (pair::SEQUENCE + 3, 1), (pair::MTU, 0)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert_eq!(Said::decode(&bad), Err(Malformed), "{at}");
        }
        for (at, value) in [(pair::MTU, 6), (pair::CREDITS, 0), (pair::SLOT, 1), (pair::CREDITS + 1, 0xff)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert_eq!(Said::decode(&bad), Err(Malformed), "{at}");
        }
        assert_eq!(Said::decode(&bytes[1..]), Err(Malformed));
    }
}
