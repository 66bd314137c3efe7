//! What a process that calls MPI_Comm_spawn says to the command beside its library, and the command's report.
//!
//! Both go over one socket: a length (u32) and so many bytes of a [`Request`]; back, in the same form, the text of why the job
//! has ended, if it has. The byte [`RELEASE`](crate::protocol::spawn::RELEASE) behind the request says that the end of the
//! socket is no order to end any more.

use crate::bytes::{Malformed, Put, Take};
use crate::protocol::spawn::{MAX_SPAWN, VERSION};

/// One command of MPI_Comm_spawn_multiple.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// The program, and its arguments. An empty program is the manifest's.
    pub words: Vec<String>,
    /// How many processes.
    pub ranks: u32,
    /// Its working directory, as the info object says it.
    pub directory: Option<String>,
    /// Where to look for the program, with colons between.
    pub path: Option<String>,
}

/// A job that is to be started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The name of the port at which the parents wait.
    pub port: String,
    /// A launcher, as a manifest has it.
    pub launcher: Option<String>,
    /// A manifest, and the job in it that says how this one is started.
    pub manifest: Option<String>,
    /// As above.
    pub job: Option<String>,
    /// Where the launcher is started.
    pub host: Option<String>,
    /// At least one.
    pub programs: Vec<Program>,
}

impl Request {
    /// The bytes, without the length.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.put_bytes(self.port.as_bytes());
        for text in [&self.launcher, &self.manifest, &self.job, &self.host] {
            put(&mut out, text.as_deref());
        }
        out.put_u32(self.programs.len() as u32);
        for program in &self.programs {
            out.put_u32(program.words.len() as u32);
            program.words.iter().for_each(|word| out.put_bytes(word.as_bytes()));
            out.put_u32(program.ranks);
            put(&mut out, program.directory.as_deref());
            put(&mut out, program.path.as_deref());
        }
        out
    }

    /// From these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Request, Malformed> {
        let mut from = Take(bytes);
        if bytes.len() > MAX_SPAWN || from.u8()? != VERSION {
            return Err(Malformed);
        }
        let port = text(&mut from)?;
        let [launcher, manifest, job, host] =
            [optional(&mut from)?, optional(&mut from)?, optional(&mut from)?, optional(&mut from)?];
        let mut programs = Vec::new();
        for _ in 0..from.u32()? {
            let mut words = Vec::new();
            for _ in 0..from.u32()? {
                words.push(text(&mut from)?);
            }
            let ranks = from.u32()?;
            programs.push(Program { words, ranks, directory: optional(&mut from)?, path: optional(&mut from)? });
        }
        from.end()?;
        if programs.is_empty() || programs.iter().any(|program| program.words.is_empty()) {
            return Err(Malformed);
        }
        Ok(Request { port, launcher, manifest, job, host, programs })
    }
}

fn put(out: &mut Vec<u8>, text: Option<&str>) {
    out.put_u8(text.is_some().into());
    if let Some(text) = text {
        out.put_bytes(text.as_bytes());
    }
}

fn text(from: &mut Take<'_>) -> Result<String, Malformed> {
    String::from_utf8(from.bytes(MAX_SPAWN)?.to_vec()).map_err(|_| Malformed)
}

fn optional(from: &mut Take<'_>) -> Result<Option<String>, Malformed> {
    match from.u8()? {
        0 => Ok(None),
        1 => text(from).map(Some),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_and_no_part_of_it_does() {
        let program = |word: &str, ranks| Program {
            words: vec![word.into(), "a b".into(), String::new()],
            ranks,
            directory: Some("/tmp".into()),
            path: None,
        };
        let request = Request {
            port: "mpic:x".into(),
            launcher: Some("mpirun.mpich".into()),
            host: Some("n1".into()),
            programs: vec![program("./a", 1), program("./b", 2)],
            ..Request::default()
        };
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Ok(request.clone()));
        assert!((0..bytes.len()).all(|n| Request::decode(&bytes[..n]).is_err()));
        assert!(Request::decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(Request::decode(&Request { programs: Vec::new(), ..request }.encode()).is_err());
    }
}
