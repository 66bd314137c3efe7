//! Records, their bytes, and the names that are allowed. Stores write and read records only through this file.
//!
//! Invariant: nothing is parsed before its size is bounded, and a record that was parsed obeys the limits of one that may be
//! written. No text in it that people are shown has a control character.

use crate::metadata::{self, MetadataError};
use base::bytes::Take;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};

/// The most bytes of a written record.
pub const MAX_RECORD: usize = 64 * 1024;
/// The most bytes of a leader's contact record.
pub const MAX_LEADER: usize = 4 * 1024;
const MAX_NAME: usize = 255;
const MAX_TEXT: usize = 1024;
/// The most bytes of a port name.
pub const MAX_PORT: usize = 1024;

const MAGIC: &[u8; 8] = b"MPICNAME";
/// The version of records. Jobs whose records are of different versions cannot be joined.
pub const VERSION: u16 = 4;

/// What a name stands for. Names of different kinds are apart: a job and a port may have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A registered job.
    Job,
    /// A published service name (MPI_Publish_name), which leads to a port of MPI.
    Port,
    /// One half of a coupling, under the name that its job had when the two were joined. It is only listed.
    Coupling,
}

/// The key of a record: no two live records of a store have the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// As [`Record::run`].
    pub run: String,
    /// As [`Record::name`].
    pub name: String,
    /// As [`Record::kind`].
    pub kind: Kind,
    /// For a coupling, as [`Record::incarnation`], since one name may have many couplings; else 0.
    pub id: u64,
}

impl Key {
    /// The key by which a job or a port is looked up.
    pub(crate) fn of(run: &str, kind: Kind, name: &str) -> Key {
        Key { run: run.into(), name: name.into(), kind, id: 0 }
    }
}

/// What a name leads to: a job that has registered it, a port that is published under it, or one half of a coupling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The name; see [`check_name`].
    pub name: String,
    /// The run, whose names are apart from those of all other runs; empty for none. A claim sets it to that of its store.
    pub run: String,
    /// A random number of this registration. The two halves of a coupling have the same.
    pub incarnation: u64,
    /// The secret that a peer shows when it connects; zeros for a port.
    pub cookie: [u8; 16],
    /// The number of ranks.
    pub size: u32,
    /// The contact record of the leader, at most [`MAX_LEADER`] bytes; empty for a port. It is not looked into here.
    pub leader: Vec<u8>,
    /// The MPI of the job, for people.
    pub mpi: String,
    /// The leader's host, for people.
    pub host: String,
    /// The boot id of the leader's host: see [`crate::boot_id`].
    pub boot: [u8; 16],
    /// The leader's pid.
    pub pid: u32,
    /// The time of the registration, in seconds since 1970.
    pub since: u64,
    /// For a published service name, the port name of MPI that it leads to, at most [`MAX_PORT`] bytes; else `None`.
    pub port: Option<String>,
    /// For one half of a coupling, the name of the other job; else `None`.
    pub coupled: Option<String>,
    /// Pairs of a key and a value that other jobs and people can see: see [`crate::check_metadata`].
    pub metadata: Vec<(String, String)>,
}

impl Record {
    /// A record of this name, this process and this moment, without anything that leads to the process.
    pub fn new(name: &str) -> Record {
        Record {
            name: name.to_owned(),
            run: String::new(),
            incarnation: 0,
            cookie: [0; 16],
            size: 1,
            leader: Vec::new(),
            mpi: String::new(),
            host: crate::host(),
            boot: crate::boot_id(),
            pid: std::process::id(),
            since: crate::now(),
            port: None,
            coupled: None,
            metadata: Vec::new(),
        }
    }

    /// The kind, which follows from the fields `port` and `coupled`.
    pub fn kind(&self) -> Kind {
        match self {
            Record { coupled: Some(_), .. } => Kind::Coupling,
            Record { port: Some(_), .. } => Kind::Port,
            _ => Kind::Job,
        }
    }

    /// The key of this record.
    pub fn key(&self) -> Key {
        let kind = self.kind();
        let id = if kind == Kind::Coupling { self.incarnation } else { 0 };
        Key { id, ..Key::of(&self.run, kind, &self.name) }
    }

    /// The written record: magic, version, then the fields by postcard.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, RecordError> {
        self.check()?;
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        let out = postcard::to_extend(self, out).map_err(|_| RecordError::Malformed)?;
        if out.len() > MAX_RECORD { Err(RecordError::TooLarge("the record", MAX_RECORD)) } else { Ok(out) }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Record, RecordError> {
        if bytes.len() > MAX_RECORD {
            return Err(RecordError::TooLarge("the record", MAX_RECORD));
        }
        let mut take = Take(bytes);
        if take.array() != Ok(*MAGIC) {
            return Err(RecordError::Malformed);
        }
        match take.u16() {
            Ok(VERSION) => {}
            Ok(v) => return Err(RecordError::OtherVersion(v)),
            Err(_) => return Err(RecordError::Malformed),
        }
        let (rec, rest) = postcard::take_from_bytes::<Record>(take.rest()).map_err(|_| RecordError::Malformed)?;
        if !rest.is_empty() || check_name(&rec.name).is_err() || check_run(&rec.run).is_err() {
            return Err(RecordError::Malformed);
        }
        rec.check()?;
        Ok(rec)
    }

    /// The written record for lists and messages, without what leads to its job. Only a look-up by name gives that.
    pub(crate) fn without_secrets(&self) -> Option<Vec<u8>> {
        let port = self.port.as_ref().map(|_| String::new());
        Record { cookie: [0; 16], leader: Vec::new(), port, ..self.clone() }.encode().ok()
    }

    fn check(&self) -> Result<(), RecordError> {
        for (what, len, max) in [
            ("the leader's contact record", self.leader.len(), MAX_LEADER),
            ("the MPI's version text", self.mpi.len(), MAX_TEXT),
            ("the host name", self.host.len(), MAX_TEXT),
            ("the port name", self.port.as_ref().map_or(0, String::len), MAX_PORT),
            ("the other job's name", self.coupled.as_ref().map_or(0, String::len), MAX_TEXT),
        ] {
            if len > max {
                return Err(RecordError::TooLarge(what, max));
            }
        }
        // People are shown these texts. The port name is not shown, and programs may pass on any.
        for (what, text) in [
            ("the MPI's version text", Some(&self.mpi)),
            ("the host name", Some(&self.host)),
            ("the other job's name", self.coupled.as_ref()),
        ] {
            if text.is_some_and(|text| text.chars().any(char::is_control)) {
                return Err(RecordError::Control(what));
            }
        }
        metadata::check(&self.metadata).map_err(RecordError::Metadata)
    }
}

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameError {
    /// It is empty.
    Empty,
    /// It has this number of bytes, more than 255.
    TooLong(usize),
    /// It contains a control character.
    Control,
    /// It is not UTF-8.
    NotUtf8,
}

impl Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("the name is empty"),
            NameError::TooLong(n) => write!(f, "the name has {n} bytes; at most 255 are allowed"),
            NameError::Control => f.write_str("the name contains a control character"),
            NameError::NotUtf8 => f.write_str("the name is not valid UTF-8"),
        }
    }
}

/// Why a record cannot be written, or bytes are no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordError {
    /// This part has more than this number of bytes.
    TooLarge(&'static str, usize),
    /// This part contains a control character.
    Control(&'static str),
    /// The metadata are wrong.
    Metadata(MetadataError),
    /// The bytes are no record.
    Malformed,
    /// The record is of this version.
    OtherVersion(u16),
}

impl Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::TooLarge(what, max) => write!(f, "{what} has more than {max} bytes"),
            RecordError::Control(what) => write!(f, "{what} contains a control character"),
            RecordError::Metadata(e) => e.fmt(f),
            RecordError::Malformed => f.write_str("this is not a record of a name"),
            RecordError::OtherVersion(v) => {
                write!(f, "the record is of version {v}, this version of MPI_Connect reads {VERSION}")
            }
        }
    }
}

/// Checks a name: not empty, at most 255 bytes, no control characters.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        Err(NameError::Empty)
    } else if name.len() > MAX_NAME {
        Err(NameError::TooLong(name.len()))
    } else if name.chars().any(char::is_control) {
        Err(NameError::Control)
    } else {
        Ok(())
    }
}

/// The run that a setting names, without the blanks around it; empty for none. An error if it is no name.
pub fn run_of(setting: &str) -> Result<&str, NameError> {
    let run = setting.trim();
    check_run(run).map(|()| run)
}

/// Checks a run: a name, or empty for none.
pub(crate) fn check_run(run: &str) -> Result<(), NameError> {
    if run.is_empty() { Ok(()) } else { check_name(run) }
}

#[cfg(test)]
pub(crate) fn sample(name: &str) -> Record {
    Record {
        incarnation: u64::from_le_bytes(base::ident::random()),
        cookie: base::ident::random(),
        size: 4,
        leader: vec![1, 2, 3],
        mpi: "MPICH 4.0.2".into(),
        metadata: vec![("grid".into(), "t63".into())],
        ..Record::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_there_and_back() {
        let rec = sample("ocean");
        assert_eq!(Record::decode(&rec.encode().unwrap()).unwrap(), rec);
    }

    #[test]
    fn every_truncation_and_every_longer_text_is_refused() {
        let bytes = sample("ocean").encode().unwrap();
        for n in 0..bytes.len() {
            assert!(Record::decode(&bytes[..n]).is_err(), "{n} of {}", bytes.len());
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Record::decode(&longer), Err(RecordError::Malformed));
    }

    #[test]
    fn any_flipped_byte_is_read_or_refused_without_panic() {
        let bytes = sample("ocean").encode().unwrap();
        for i in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut b = bytes.clone();
                b[i] ^= flip;
                let _ = Record::decode(&b);
            }
        }
    }

    #[test]
    fn versions_and_sizes() {
        let mut bytes = sample("ocean").encode().unwrap();
        bytes[8] = 9;
        assert_eq!(Record::decode(&bytes), Err(RecordError::OtherVersion(9)));
        assert!(matches!(Record::decode(&vec![0; MAX_RECORD + 1]), Err(RecordError::TooLarge(..))));
        let mut rec = sample("ocean");
        rec.leader = vec![0; MAX_LEADER];
        assert!(rec.encode().is_ok());
        rec.leader.push(0);
        assert!(matches!(rec.encode(), Err(RecordError::TooLarge(..))));
    }

    #[test]
    fn ports_and_metadata_are_bounded() {
        let refused = |rec: &Record| matches!(rec.encode(), Err(RecordError::TooLarge(..) | RecordError::Metadata(_)));
        let mut rec = Record { port: Some("x".repeat(MAX_PORT)), ..sample("ocean") };
        assert_eq!(rec.kind(), Kind::Port);
        assert_eq!(Record::decode(&rec.encode().unwrap()).unwrap(), rec);
        rec.port = Some("x".repeat(MAX_PORT + 1));
        assert!(refused(&rec));
        let pair = |i: usize| (format!("{i:0>255}"), "v".repeat(1024));
        rec = Record { metadata: (0..32).map(pair).collect(), ..sample("ocean") };
        assert_eq!(rec.kind(), Kind::Job);
        assert_eq!(Record::decode(&rec.encode().unwrap()).unwrap(), rec, "the largest fits into a record");
        rec.metadata.push(pair(32));
        assert!(refused(&rec));
    }

    /// A text with control characters could forge a line of its own where it is shown.
    #[test]
    fn no_text_that_is_shown_has_control_characters() {
        let forged = || "h\u{1b}[31m\nFAKE line".to_owned();
        for rec in [
            Record { host: forged(), ..sample("ocean") },
            Record { mpi: forged(), ..sample("ocean") },
            Record { coupled: Some(forged()), ..sample("ocean") },
        ] {
            assert!(matches!(rec.encode(), Err(RecordError::Control(_))));
            let mut bytes = MAGIC.to_vec();
            bytes.extend(VERSION.to_le_bytes());
            let bytes = postcard::to_extend(&rec, bytes).unwrap();
            assert!(matches!(Record::decode(&bytes), Err(RecordError::Control(_))));
        }
    }

    #[test]
    fn names() {
        assert_eq!(check_name(""), Err(NameError::Empty));
        assert_eq!(check_name("a\nb"), Err(NameError::Control));
        assert_eq!(check_name("a\u{85}b"), Err(NameError::Control));
        assert_eq!(check_name(&"x".repeat(256)), Err(NameError::TooLong(256)));
        for good in ["ocean", "a b", "../x", ".", "海洋", &"x".repeat(255), &"é".repeat(127)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for none in ["", " ", " \t\n"] {
            assert_eq!(run_of(none), Ok(""), "{none:?}");
        }
        assert_eq!((run_of(" case 7 "), run_of("a\tb")), (Ok("case 7"), Err(NameError::Control)));
    }
}
