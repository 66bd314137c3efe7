//! The handshake over a byte stream, which may come in pieces: the proof of the key and of both identities, then HELLO and
//! HELLO-ACK.
//!
//! Used by both ends of the transports over streams. Invariants: no byte behind a message is read, and no more is held than the
//! longest message has; a HELLO is handed on only if it is of the process that has proved itself.

use super::ByteStream;
use super::link::Link;
use crate::transport::Said;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use trust::{Answering, Channel, Dialling, KeyId, Progress, Protocol, Refused, Trust};
use wire::hello::{HELLO_ACK_LEN, HELLO_LEN, HelloError};
use wire::{Hello, HelloAck, Status};

/// The bytes of a message that have come so far.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// A message of this length. `WouldBlock` if it is not whole yet.
    pub(crate) fn read(&mut self, stream: &mut impl ByteStream, len: usize) -> io::Result<Vec<u8>> {
        let mut have = self.0.len();
        self.0.resize(len.max(have), 0);
        while have < len {
            match stream.read_vectored(&mut [IoSliceMut::new(&mut self.0[have..len])]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => have += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => {
                    self.0.truncate(have);
                    return Err(e);
                }
            }
        }
        Ok(std::mem::take(&mut self.0))
    }
}

/// Writes a message. A new stream has room for it, so a partial write is an error.
pub(crate) fn say(stream: &mut impl ByteStream, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let n = stream.write_vectored(&[IoSlice::new(bytes)])?;
    if n == bytes.len() && stream.flush()? { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}

/// Goes on with the proof of the side that has dialled. At its end, the channel, and the confirmation that is to be written in
/// front of what the caller says next. `WouldBlock` as long as the other side has not answered.
fn prove<S: ByteStream>(
    link: &mut Link<S>,
    proof: &mut Option<Dialling>,
    heard: &mut Message,
) -> io::Result<Result<(Channel, Vec<u8>), Refused>> {
    while let Some(dialling) = proof {
        let bytes = heard.read(link.stream_mut(), dialling.wants())?;
        match dialling.hear(&bytes) {
            Ok(Progress::More) => (),
            Ok(Progress::Say(bytes)) => say(link.stream_mut(), &bytes)?,
            Ok(Progress::Done(bytes)) => {
                let channel = proof.take().and_then(Dialling::finish).ok_or(ErrorKind::InvalidData)?;
                return Ok(Ok((channel, bytes)));
            }
            Err(why) => return Ok(Err(why)),
        }
    }
    Err(ErrorKind::InvalidData.into())
}

/// The error of a dial that was refused before anything was trusted, or its answer if that says which version is spoken.
pub(crate) fn refused(why: Refused) -> io::Result<HelloAck> {
    match why {
        Refused::OtherVersion(generation) => Ok(HelloAck { generation, ..HelloAck::other_version() }),
        Refused::Foreign => Err(ErrorKind::InvalidData.into()),
        why => Err(io::Error::new(ErrorKind::PermissionDenied, why)),
    }
}

/// Tells that a connection was refused before anything was trusted. Whoever reaches a listener can cause it.
pub(crate) fn tell_of_refusal(from: &dyn std::fmt::Display, why: Refused) {
    match why {
        Refused::Foreign => base::log_seldom!(Debug, "a connection from {from} that is not one of ours was closed"),
        why => base::log_seldom!(Error, "a connection from {from} was refused: {why}"),
    }
}

/// Whether this HELLO is of the process that has proved itself, and the key that was proved is good for its destination.
pub(crate) fn is_proved(trust: &Trust, proved: Proved, hello: &Hello) -> bool {
    if proved.process != hello.process {
        base::log_seldom!(Error, "{} came as a process whose key it has not: refused", hello.source);
        return false;
    }
    let is_allowed = trust.allows(proved.key, hello.dest.incarnation);
    if !is_allowed {
        base::log_seldom!(Error, "{} came with a key that is not for {}: refused", hello.source, hello.dest);
    }
    is_allowed
}

/// The dialling side, from the connected stream to the answer.
pub(crate) struct Dialled<S> {
    link: Link<S>,
    hello: Hello,
    /// Until both sides have proved themselves.
    proof: Option<Dialling>,
    heard: Message,
    /// The process that has proved itself.
    process: [u8; 16],
}

impl<S: ByteStream> Dialled<S> {
    /// Begins, and sends the greeting. `near`: the stream does not leave this host.
    pub(crate) fn begin(mut stream: S, trust: &Arc<Trust>, near: bool, hello: Hello) -> io::Result<Dialled<S>> {
        let (dialling, greeting) = Dialling::begin_to(trust, Protocol::Jobs, near, Some(hello.dest.incarnation));
        say(&mut stream, &greeting)?;
        let (link, heard) = (Link::plain(stream), Message::default());
        Ok(Dialled { link, hello, proof: Some(dialling), heard, process: [0; 16] })
    }

    /// The answer to the HELLO. `WouldBlock` if it has not come yet.
    pub(crate) fn talk(&mut self) -> io::Result<HelloAck> {
        if self.proof.is_some() {
            match prove(&mut self.link, &mut self.proof, &mut self.heard)? {
                Ok((channel, confirmation)) => {
                    self.process = channel.process;
                    self.link.stream_mut().write_more(&confirmation)?;
                    self.link.protect(channel);
                    say(&mut self.link, &self.hello.encode())?;
                }
                Err(why) => return refused(why),
            }
        }
        let bytes = self.heard.read(&mut self.link, HELLO_ACK_LEN)?;
        let ack = HelloAck::decode(&bytes).map_err(|_| ErrorKind::InvalidData)?;
        let is_its_own = ack.process == self.process || ack.status == Status::OtherVersion;
        if is_its_own { Ok(ack) } else { Err(ErrorKind::InvalidData.into()) }
    }

    pub(crate) fn stream(&self) -> &S {
        self.link.stream()
    }

    /// The link and the HELLO.
    pub(crate) fn into_parts(self) -> (Link<S>, Hello) {
        (self.link, self.hello)
    }
}

/// The side that has dialled for something else than a lane, from the connected stream to the proof of both.
pub(crate) struct Proving<S> {
    link: Link<S>,
    proof: Option<Dialling>,
    heard: Message,
}

impl<S: ByteStream> Proving<S> {
    /// Begins, and sends the greeting. `near`: the stream does not leave this host.
    pub(crate) fn begin(mut stream: S, trust: &Arc<Trust>, what: Protocol, near: bool) -> io::Result<Proving<S>> {
        let (dialling, greeting) = Dialling::begin(trust, what, near);
        say(&mut stream, &greeting)?;
        Ok(Proving { link: Link::plain(stream), proof: Some(dialling), heard: Message::default() })
    }

    /// The process that has proved itself. `WouldBlock` if it has not yet.
    pub(crate) fn prove(&mut self) -> io::Result<Result<[u8; 16], Refused>> {
        Ok(match prove(&mut self.link, &mut self.proof, &mut self.heard)? {
            Ok((channel, confirmation)) => {
                let process = channel.process;
                say(self.link.stream_mut(), &confirmation)?;
                self.link.protect(channel);
                Ok(process)
            }
            Err(why) => Err(why),
        })
    }

    pub(crate) fn stream(&self) -> &S {
        self.link.stream()
    }

    pub(crate) fn into_link(self) -> Link<S> {
        self.link
    }
}

/// The answering side, from the accepted stream to the proof of both.
pub(crate) struct Admitting<S> {
    link: Link<S>,
    /// Until both sides have proved themselves, or the other one was refused.
    proof: Option<Answering>,
    heard: Message,
    proved: Option<Proved>,
}

/// Who has proved itself, by which key, and what it wants to speak.
#[derive(Clone, Copy)]
pub(crate) struct Proved {
    pub process: [u8; 16],
    pub key: KeyId,
    pub protocol: Protocol,
}

impl Proved {
    pub(crate) fn of(channel: &Channel) -> Proved {
        Proved { process: channel.process, key: channel.key, protocol: channel.protocol }
    }
}

impl<S: ByteStream> Admitting<S> {
    /// `near`: the stream does not leave this host.
    pub(crate) fn begin(stream: S, trust: &Arc<Trust>, what: Protocol, near: bool) -> Admitting<S> {
        let proof = Some(Answering::begin(trust, what, near));
        Admitting { link: Link::plain(stream), proof, heard: Message::default(), proved: None }
    }

    /// Admits who speaks this too.
    fn or(mut self, what: Protocol) -> Admitting<S> {
        self.proof = self.proof.map(|proof| proof.or(what));
        self
    }

    /// Who has proved itself. `WouldBlock` if it has not yet.
    pub(crate) fn admit(&mut self) -> io::Result<Result<Proved, Refused>> {
        while let Some(proof) = &mut self.proof {
            let bytes = self.heard.read(self.link.stream_mut(), proof.wants())?;
            match proof.hear(&bytes) {
                Ok(Progress::More) => (),
                Ok(Progress::Say(bytes)) => say(self.link.stream_mut(), &bytes)?,
                Ok(Progress::Done(_)) => {
                    let channel = self.proof.take().and_then(Answering::finish).ok_or(ErrorKind::InvalidData)?;
                    self.proved = Some(Proved::of(&channel));
                    self.link.protect(channel);
                }
                Err(refusal) => {
                    // An error means that the other side has gone already.
                    let _ = say(self.link.stream_mut(), &refusal.say);
                    self.proof = None;
                    return Ok(Err(refusal.why));
                }
            }
        }
        Ok(Ok(self.proved.ok_or(ErrorKind::NotConnected)?))
    }

    /// The process that has proved itself.
    pub(crate) fn process(&self) -> Option<[u8; 16]> {
        self.proved.map(|proved| proved.process)
    }

    /// Whether the other side has known the key, or repeats who has.
    pub(crate) fn is_answered(&self) -> bool {
        self.proved.is_some() || self.proof.as_ref().is_some_and(Answering::is_answered)
    }

    /// Why the other side was refused that has left meanwhile: it had its second try, or did not want it.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.proof.as_ref().and_then(Answering::refused)
    }

    pub(crate) fn stream(&self) -> &S {
        self.link.stream()
    }

    pub(crate) fn link_mut(&mut self) -> &mut Link<S> {
        &mut self.link
    }

    pub(crate) fn into_link(self) -> Link<S> {
        self.link
    }
}

/// The answering side of a lane, from the accepted stream to the HELLO, or to the proof of who has a command.
pub(crate) struct Accepted<S> {
    admitting: Admitting<S>,
    heard: Message,
    trust: Arc<Trust>,
}

impl<S: ByteStream> Accepted<S> {
    /// `near`: the stream does not leave this host.
    pub(crate) fn begin(stream: S, trust: &Arc<Trust>, near: bool) -> Accepted<S> {
        let admitting = Admitting::begin(stream, trust, Protocol::Jobs, near);
        Accepted { admitting, heard: Message::default(), trust: trust.clone() }
    }

    /// Accepts who has a command too: see [`Said::Control`].
    pub(crate) fn or_control(self) -> Accepted<S> {
        Accepted { admitting: self.admitting.or(Protocol::Control), ..self }
    }

    /// Reads what is there. `from` is the other side, for messages.
    pub(crate) fn step(&mut self, from: &dyn Fn() -> String) -> Said {
        match self.hear(from) {
            Ok(said) => said,
            Err(e) if e.kind() == ErrorKind::WouldBlock => Said::Nothing,
            Err(_) => {
                // It had its second try, or did not want it.
                if let Some(why) = self.admitting.refused() {
                    tell_of_refusal(&from(), why);
                }
                Said::Foreign
            }
        }
    }

    fn hear(&mut self, from: &dyn Fn() -> String) -> io::Result<Said> {
        let proved = match self.admitting.admit()? {
            Ok(proved) => proved,
            Err(why) => {
                tell_of_refusal(&from(), why);
                return Ok(Said::Foreign);
            }
        };
        if proved.protocol == Protocol::Control {
            return Ok(Said::Control);
        }
        let bytes = self.heard.read(self.admitting.link_mut(), HELLO_LEN)?;
        match Hello::decode(&bytes) {
            Ok(hello) if is_proved(&self.trust, proved, &hello) => Ok(Said::Hello(Box::new(hello))),
            Ok(_) => Ok(Said::Foreign),
            Err(HelloError::OtherVersion) => {
                self.answer(&HelloAck::other_version())?;
                Ok(Said::Foreign)
            }
            Err(HelloError::Foreign) => Ok(Said::Foreign),
        }
    }

    /// The process that has proved itself.
    pub(crate) fn process(&self) -> Option<[u8; 16]> {
        self.admitting.process()
    }

    /// Whether the other side has known the key, or repeats who has.
    pub(crate) fn is_answered(&self) -> bool {
        self.admitting.is_answered()
    }

    /// Sends an answer to the HELLO.
    pub(crate) fn answer(&mut self, ack: &HelloAck) -> io::Result<()> {
        say(self.admitting.link_mut(), &ack.encode())
    }

    pub(crate) fn stream(&self) -> &S {
        self.admitting.stream()
    }

    pub(crate) fn into_link(self) -> Link<S> {
        self.admitting.into_link()
    }
}
