//! The handshake: both sides prove that they hold one key, and which process they are.
//!
//! Used by the transports and the naming service. [`Dialling`] and [`Answering`] are the two sides; the caller reads as many
//! bytes as they want, hands them over, and writes what they say. Invariant: [`Channel`] exists only when the other side has
//! proved the key and its identity, and nothing that it has said before was handed on.

use crate::crypto;
use crate::greeting::{GREETING, Greeting, Protocol, Refused, Wish};
use crate::identity::process_number;
use crate::key::{Key, KeyId};
use crate::process::Trust;
use crate::records::{Direction, Inbox, Outbox, Protection};
use crate::ring::Ring;
use base::protocol::greeting::{self as numbers, CONFIRMATION, FIRST_PROOF, SECOND_PROOF, decision};
use snow::HandshakeState;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// A handshake goes on.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are wanted.
    More,
    /// These are to be written; then more bytes are wanted.
    Say(Vec<u8>),
    /// The handshake is over, once these are written.
    Done(Vec<u8>),
}

/// A connection on which both sides have proved themselves.
pub struct Channel {
    /// The process number of the other side.
    pub process: [u8; 16],
    /// The identifier of the key that both have proved.
    pub key: KeyId,
    /// What is spoken on it.
    pub protocol: Protocol,
    protection: Protection,
    outgoing: Direction,
    incoming: Direction,
}

impl Channel {
    /// Whether what follows is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.protection != Protection::Plain
    }

    /// The two ends of an encrypted connection; `None` if it is to be plain.
    pub fn into_records(self) -> Option<(Outbox, Inbox)> {
        self.is_encrypted().then(|| (Outbox::new(self.outgoing), Inbox::new(self.incoming)))
    }
}

/// The side that has dialled.
pub struct Dialling {
    trust: Arc<Trust>,
    protocol: Protocol,
    wish: Wish,
    ring: Arc<Ring>,
    /// The key that is tried, and whether it is the second one.
    key: Key,
    again: bool,
    state: Dialled,
}

enum Dialled {
    /// The greeting was sent, and the head of the answer is awaited.
    Greeted(HandshakeState),
    /// The head was good, and its proof is awaited.
    Answered(HandshakeState),
    Done(Box<Channel>),
    Over,
}

impl Dialling {
    /// Begins a handshake, and returns the bytes to write. `near`: the connection does not leave this host.
    pub fn begin(trust: &Arc<Trust>, protocol: Protocol, near: bool) -> (Dialling, Vec<u8>) {
        Dialling::begin_to(trust, protocol, near, None)
    }

    /// As [`Dialling::begin`], to a process of the group with this incarnation, which may have a key of its own.
    pub fn begin_to(trust: &Arc<Trust>, protocol: Protocol, near: bool, group: Option<u64>) -> (Dialling, Vec<u8>) {
        let ring = trust.ring();
        let key = trust.key_for(group).unwrap_or_else(|| ring.own().clone());
        let wish = trust.encrypt().wish(near);
        let trust = trust.clone();
        let mut dialling = Dialling { trust, protocol, wish, ring, key, again: false, state: Dialled::Over };
        let bytes = dialling.greet();
        (dialling, bytes)
    }

    fn greet(&mut self) -> Vec<u8> {
        let greeting = Greeting::new(numbers::GOOD, self.wish, FIRST_PROOF, self.key.id());
        let mut bytes = greeting.encode(self.protocol);
        let mut noise = crypto::handshake(true, &self.key, self.trust.identity().secret(), &bytes);
        write(&mut noise, &[], &mut bytes, FIRST_PROOF);
        self.state = Dialled::Greeted(noise);
        bytes
    }

    /// How many bytes are to be read next, and no more; 0 when the handshake is over.
    pub fn wants(&self) -> usize {
        match self.state {
            Dialled::Greeted(_) => GREETING,
            Dialled::Answered(_) => SECOND_PROOF,
            Dialled::Done(_) | Dialled::Over => 0,
        }
    }

    /// Goes on with as many bytes as it wants.
    pub fn hear(&mut self, bytes: &[u8]) -> Result<Progress, Refused> {
        match std::mem::replace(&mut self.state, Dialled::Over) {
            Dialled::Greeted(noise) => self.answered(noise, bytes),
            Dialled::Answered(noise) => self.proved(noise, bytes),
            Dialled::Done(_) | Dialled::Over => Err(Refused::Foreign),
        }
    }

    fn answered(&mut self, noise: HandshakeState, bytes: &[u8]) -> Result<Progress, Refused> {
        let answer = Greeting::decode(bytes.try_into().map_err(|_| Refused::Foreign)?, self.protocol)?;
        match answer.status {
            numbers::GOOD if answer.proof == SECOND_PROOF => {
                self.state = Dialled::Answered(noise);
                Ok(Progress::More)
            }
            numbers::OTHER_KEY => {
                // The key may have been exchanged since this process read its file.
                if !self.again && self.ring.find(answer.key).is_none() {
                    self.ring = self.trust.ring_with(answer.key);
                }
                match self.ring.find(answer.key) {
                    Some(key) if !self.again && answer.key != self.key.id() => {
                        (self.key, self.again) = (key.clone(), true);
                        Ok(Progress::Say(self.greet()))
                    }
                    _ => Err(Refused::OtherKey { ours: self.ring.own().id(), theirs: answer.key }),
                }
            }
            numbers::OTHER_VERSION => Err(Refused::OtherVersion(self.protocol.version())),
            numbers::UNKNOWN_FLAGS => Err(Refused::UnknownFlags),
            numbers::WRONG_PROOF => Err(Refused::WrongProof),
            numbers::ENCRYPTION => Err(Refused::Encryption),
            _ => Err(Refused::Foreign),
        }
    }

    fn proved(&mut self, mut noise: HandshakeState, bytes: &[u8]) -> Result<Progress, Refused> {
        let mut content = [0; SECOND_PROOF];
        let read = noise.read_message(bytes, &mut content).map_err(|_| Refused::WrongProof)?;
        let protection = Protection::of(content[decision::CIPHER]).filter(|_| read == decision::BYTES);
        let protection = protection.ok_or(Refused::Foreign)?;
        // A side that wants encryption does not take a plain connection, whatever it is told.
        if self.wish.meet(if protection == Protection::Plain { Wish::Plain } else { Wish::Encrypted }).is_none() {
            return Err(Refused::Encryption);
        }
        let (ours, theirs) = noise.dangerously_get_raw_split();
        let mut channel = channel(&noise, (self.key.id(), self.protocol), protection, &ours, &theirs);
        let confirmation = channel.outgoing.confirm();
        self.state = Dialled::Done(Box::new(channel));
        Ok(Progress::Done(confirmation.into()))
    }

    /// The channel, after [`Progress::Done`].
    pub fn finish(self) -> Option<Channel> {
        if let Dialled::Done(channel) = self.state { Some(*channel) } else { None }
    }
}

/// Goes through the handshake over a stream that blocks. An error of the kind `PermissionDenied` has a [`Refused`] in it.
pub fn dial(
    stream: &mut (impl Read + Write),
    trust: &Arc<Trust>,
    protocol: Protocol,
    near: bool,
) -> io::Result<Channel> {
    let refused = |why| io::Error::new(ErrorKind::PermissionDenied, why);
    let (mut dialling, greeting) = Dialling::begin(trust, protocol, near);
    stream.write_all(&greeting)?;
    loop {
        let mut bytes = vec![0; dialling.wants()];
        stream.read_exact(&mut bytes)?;
        match dialling.hear(&bytes).map_err(refused)? {
            Progress::More => (),
            Progress::Say(bytes) => stream.write_all(&bytes)?,
            Progress::Done(bytes) => {
                stream.write_all(&bytes)?;
                return dialling.finish().ok_or_else(|| refused(Refused::Foreign));
            }
        }
    }
}

/// The side that was dialled.
pub struct Answering {
    trust: Arc<Trust>,
    /// What the greeting has chosen of what is accepted here; before it, the first of these.
    protocol: Protocol,
    accepted: [Protocol; 2],
    wish: Wish,
    /// The greeting before had a key that is not known here.
    other_key: Option<Refused>,
    state: Answered,
}

enum Answered {
    /// Nothing has come.
    Silent,
    /// The head of a greeting has come, and its proof is awaited.
    Greeted([u8; GREETING], Greeting),
    /// The answer was sent, and the confirmation is awaited.
    Said(Box<Channel>),
    Done(Box<Channel>),
    Over,
}

/// Why the answering side refuses, and what it says to the other side before it closes.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub why: Refused,
    /// What is to be written; empty if nothing is said to such a side.
    pub say: Vec<u8>,
}

impl Answering {
    /// Awaits a handshake. `near`: the connection does not leave this host.
    pub fn begin(trust: &Arc<Trust>, protocol: Protocol, near: bool) -> Answering {
        let wish = trust.encrypt().wish(near);
        let accepted = [protocol; 2];
        Answering { trust: trust.clone(), protocol, accepted, wish, other_key: None, state: Answered::Silent }
    }

    /// Accepts a greeting of this protocol too: [`Channel::protocol`] says which one it was.
    pub fn or(mut self, protocol: Protocol) -> Answering {
        self.accepted[1] = protocol;
        self
    }

    /// As [`Dialling::wants`].
    pub fn wants(&self) -> usize {
        match &self.state {
            Answered::Silent => GREETING,
            Answered::Greeted(_, greeting) => greeting.proof,
            Answered::Said(_) => CONFIRMATION,
            Answered::Done(_) | Answered::Over => 0,
        }
    }

    /// Goes on with as many bytes as it wants.
    pub fn hear(&mut self, bytes: &[u8]) -> Result<Progress, Refusal> {
        match std::mem::replace(&mut self.state, Answered::Over) {
            Answered::Silent => self.greeted(bytes),
            Answered::Greeted(head, greeting) => self.proved(&head, greeting, bytes),
            Answered::Said(mut channel) => {
                if !channel.incoming.is_confirmed(bytes) {
                    return Err(Refusal { why: Refused::WrongProof, say: Vec::new() });
                }
                self.state = Answered::Done(channel);
                Ok(Progress::Done(Vec::new()))
            }
            Answered::Done(_) | Answered::Over => Err(Refusal { why: Refused::Foreign, say: Vec::new() }),
        }
    }

    fn greeted(&mut self, bytes: &[u8]) -> Result<Progress, Refusal> {
        let foreign = || Refusal { why: Refused::Foreign, say: Vec::new() };
        let head: [u8; GREETING] = bytes.try_into().map_err(|_| foreign())?;
        self.protocol = self.accepted.into_iter().find(|one| one.begins(&head)).unwrap_or(self.accepted[0]);
        match Greeting::decode(&head, self.protocol) {
            // The proof is read even if it cannot be right: a connection that is closed with something unread takes back what
            // was said last.
            Ok(greeting) if greeting.proof == FIRST_PROOF => {
                self.state = Answered::Greeted(head, greeting);
                Ok(Progress::More)
            }
            Ok(_) | Err(Refused::Foreign) => Err(foreign()),
            Err(why) => Err(self.refuse(why, numbers::OTHER_VERSION)),
        }
    }

    fn refuse(&self, why: Refused, status: u16) -> Refusal {
        Refusal { why, say: self.say(status, 0, self.trust.ring().own().id()) }
    }

    fn say(&self, status: u16, proof: usize, key: KeyId) -> Vec<u8> {
        Greeting::new(status, self.wish, proof, key).encode(self.protocol)
    }

    fn proved(&mut self, head: &[u8; GREETING], greeting: Greeting, proof: &[u8]) -> Result<Progress, Refusal> {
        let Some(wish) = greeting.wish() else {
            return Err(self.refuse(Refused::UnknownFlags, numbers::UNKNOWN_FLAGS));
        };
        // A key that is good for one group lets nobody command the process.
        let may_pass = self.protocol != Protocol::Control;
        let pass = may_pass.then(|| self.trust.pass_with(greeting.key)).flatten();
        let ring = if pass.is_some() { self.trust.ring() } else { self.trust.ring_with(greeting.key) };
        let Some(key) = pass.as_ref().or_else(|| ring.find(greeting.key)) else {
            let why = Refused::OtherKey { ours: ring.own().id(), theirs: greeting.key };
            let refusal = self.refuse(why, numbers::OTHER_KEY);
            if self.other_key.replace(why).is_some() {
                return Err(refusal);
            }
            self.state = Answered::Silent;
            return Ok(Progress::Say(refusal.say));
        };
        let Some(encrypted) = self.wish.meet(wish) else {
            return Err(self.refuse(Refused::Encryption, numbers::ENCRYPTION));
        };
        // One that was recorded is told at once: it would take a place of those who have known the key, and cost as much.
        let ephemeral = proof.first_chunk().copied().unwrap_or_default();
        if self.trust.has_answered(&ephemeral) {
            return Err(self.refuse(Refused::WrongProof, numbers::WRONG_PROOF));
        }
        let mut noise = crypto::handshake(false, key, self.trust.identity().secret(), head);
        if noise.read_message(proof, &mut [0; FIRST_PROOF]).is_err() {
            return Err(self.refuse(Refused::WrongProof, numbers::WRONG_PROOF));
        }
        self.trust.answers(ephemeral);
        let protection = Protection::choose(encrypted, greeting.is_aes_fast());
        let mut said = self.say(numbers::GOOD, SECOND_PROOF, key.id());
        let mut content = [0; decision::BYTES];
        content[decision::CIPHER] = protection.number();
        write(&mut noise, &content, &mut said, SECOND_PROOF);
        let (theirs, ours) = noise.dangerously_get_raw_split();
        let channel = channel(&noise, (key.id(), self.protocol), protection, &ours, &theirs);
        self.state = Answered::Said(Box::new(channel));
        Ok(Progress::Say(said))
    }

    /// Whether the last word of the other side is awaited, or has come: so it has known the key, or repeats who has.
    pub fn is_answered(&self) -> bool {
        matches!(self.state, Answered::Said(_) | Answered::Done(_))
    }

    /// That the other side has tried a key that is not known here, if it has and nothing better has come since.
    pub fn refused(&self) -> Option<Refused> {
        self.other_key.filter(|_| matches!(self.state, Answered::Silent))
    }

    /// The channel, after [`Progress::Done`].
    pub fn finish(self) -> Option<Channel> {
        if let Answered::Done(channel) = self.state { Some(*channel) } else { None }
    }
}

/// Appends the next message of Noise, which has this length.
fn write(noise: &mut HandshakeState, content: &[u8], out: &mut Vec<u8>, len: usize) {
    let at = out.len();
    out.resize(at + len, 0);
    let wrote = noise.write_message(content, &mut out[at..]);
    debug_assert!(matches!(wrote, Ok(n) if n == len), "{wrote:?}");
}

fn channel(
    noise: &HandshakeState,
    (key, protocol): (KeyId, Protocol),
    protection: Protection,
    ours: &[u8; 32],
    theirs: &[u8; 32],
) -> Channel {
    let public = noise.get_remote_static().and_then(|bytes| <&[u8; 32]>::try_from(bytes).ok());
    let process = process_number(public.expect("the pattern has sent it"));
    let (outgoing, incoming) = (Direction::new(protection, ours), Direction::new(protection, theirs));
    Channel { process, key, protocol, protection, outgoing, incoming }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
