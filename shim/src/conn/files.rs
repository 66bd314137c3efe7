//! `MPI_Conn_getfile` and `MPI_Conn_putfile`: files of another job, and files for it.
//!
//! The leader (rank 0) opens the file and says which chunks each process moves, over a connection of its own to a process of the
//! other job. What a process leaves undone the leader gives to the others. Invariants: all processes return alike; the file has
//! its name only when all of it is on the disk; nothing waits for a call of the other job.

use super::bounds::timeout;
use super::collective::{Team, copy, decide};
use super::expected::Expected;
use super::{MPI_Comm, running};
use crate::abi::Abi;
use crate::error::{Place, raise};
use crate::failure::{Class, Failure};
use crate::forward as pmpi;
use crate::inter::{self, Inter};
use crate::process::node;
use crate::wait::wait;
use base::bytes::{Malformed, Put, Take};
use base::settings::DEFAULT_TIMEOUT;
use node::files::{self, Client, Error, Found, Kind, Part, Share, Side, Source, Token};
use node::{About, Aside, Node, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// The longest path, with its terminator.
const MAX_PATH: usize = 4097;
/// The most processes of a job that move shares of one file, and of these those that one process serves.
const MOST_PAIRS: u64 = 16;
const MOST_EACH: u64 = 4;
/// Shares have so many chunks at least: a small file is not worth more connections.
const FEWEST_CHUNKS: u64 = 8;
/// How long the leader tries to have removed what was put of a file that fails.
const TO_ABANDON: Duration = Duration::from_secs(5);

/// Fetches a file of another job: collective over the local group of `comm`, an inter-communicator to that job, whose
/// processes make no call. The paths of rank 0 count.
///
/// `path` names a file below a folder that the other job has opened to others (`MPI_CONNECT_FILES`). `local_path` is
/// where it goes: a file, which is replaced, or a folder. The file has its name only when all of it is on the disk.
/// When the call returns, every process may read it where rank 0 sees it. Messages go on meanwhile.
///
/// The file moves in chunks with checksums, over a connection of each pair of processes. When one breaks another one is made,
/// which goes on with the next chunk. Errors go to the error handler of `comm`: MPI_ERR_NO_SUCH_FILE, MPI_ERR_ACCESS
/// when the other job has not opened a folder with it, MPI_ERR_NO_SPACE, MPI_ERR_BAD_FILE when it is no file,
/// MPI_ERR_FILE_IN_USE when it changes meanwhile, MPI_ERR_IO, the classes of MPI_CONN_ERR_PEER_GONE, and of
/// MPI_CONN_ERR_TIMEOUT when nothing moves for MPI_CONNECT_TIMEOUT seconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Conn_getfile(comm: MPI_Comm, path: *const c_char, local_path: *const c_char) -> c_int {
    // SAFETY: the caller's promises.
    unsafe { call("MPI_Conn_getfile", comm, Direction::Get, path, local_path) }
}

/// Puts a file into a folder of another job: as MPI_Conn_getfile, the other way. `path` names a file below a folder that
/// the other job has opened for writing, which is replaced. MPI_ERR_READ_ONLY when the folder is open for reading
/// alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Conn_putfile(comm: MPI_Comm, local_path: *const c_char, path: *const c_char) -> c_int {
    // SAFETY: the caller's promises.
    unsafe { call("MPI_Conn_putfile", comm, Direction::Put, path, local_path) }
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Get,
    Put,
}

unsafe fn call(
    call: &'static str,
    comm: MPI_Comm,
    direction: Direction,
    path: *const c_char,
    local: *const c_char,
) -> c_int {
    let abi = running(call);
    let Some(inter) = inter::find(comm.handle()) else {
        let text = format!("{call}: an inter-communicator to another job is needed");
        return raise(Place::world(), &Failure::new(Class::Comm, text));
    };
    // SAFETY: the caller's promises.
    let paths = unsafe { read(path).and_then(|path| Ok((path, read(local)?))) };
    let expected = Expected::begin(call, inter.shadow);
    let team = inter::below(|| copy(abi, inter.shadow, 0));
    drop(expected);
    let done = team.and_then(|team| {
        let done = inter::below(|| Moving::new(abi, &inter, team, direction, call)?.run(paths));
        let mut comm = team.comm;
        // SAFETY: our own communicator, freed once, by all of its members.
        inter::below(|| unsafe { pmpi::comm_free(&mut comm) });
        done
    });
    match done {
        Ok(()) => 0,
        Err(failure) => raise(inter.errors(), &failure.of(call)),
    }
}

/// A path as the caller names it.
unsafe fn read(path: *const c_char) -> Result<Vec<u8>, Failure> {
    let bad = |text: &str| Err(Failure::new(Class::Arg, text));
    if path.is_null() {
        return bad("a path is a null pointer");
    }
    // SAFETY: no further than the terminator, or the room.
    let length = unsafe { libc::strnlen(path, MAX_PATH) };
    if length == MAX_PATH {
        return bad("a path is longer than 4096 bytes");
    }
    if length == 0 {
        return bad("a path is empty");
    }
    // SAFETY: there is a terminator within the room.
    Ok(unsafe { CStr::from_ptr(path) }.to_bytes().to_vec())
}

/// What the leader tells all of a file.
#[derive(Clone)]
struct Plan {
    path: Vec<u8>,
    local: PathBuf,
    token: Token,
    about: Found,
}

/// What a process has come to with its shares: what is left of them, and the error.
type Came = Result<(), (Vec<Share>, Error)>;

/// Which shares each process moves; none when the file is whole.
type Shares = BTreeMap<u32, Vec<Share>>;

/// A call, in one process.
struct Moving<'a> {
    abi: &'a Abi,
    node: &'static Node,
    inter: &'a Arc<Inter>,
    team: Team,
    direction: Direction,
    call: &'static str,
    limit: Duration,
    /// What is written here, of a file that is fetched.
    part: Option<Arc<Part>>,
}

impl<'a> Moving<'a> {
    fn new(
        abi: &'a Abi,
        inter: &'a Arc<Inter>,
        team: Team,
        direction: Direction,
        call: &'static str,
    ) -> Result<Moving<'a>, Failure> {
        // It was read when the jobs were joined. Here each process goes on, or the others would wait for it.
        let limit = timeout().unwrap_or(Duration::from_secs(DEFAULT_TIMEOUT));
        Ok(Moving { abi, node: node()?, inter, team, direction, call, limit, part: None })
    }

    fn run(mut self, paths: Result<(Vec<u8>, Vec<u8>), Failure>) -> Result<(), Failure> {
        let (abi, node, team) = (self.abi, self.node, self.team);
        let begun = Instant::now();
        let told = decide(abi, node, &team, Ok(Vec::new()), |all| {
            all?;
            let (path, local) = paths?;
            let plan = self.begin(path, local)?;
            let pairs = MOST_PAIRS.min(MOST_EACH * u64::from(self.inter.remote.size())).min(team.size.into());
            let pairs = pairs.min(files::chunks(plan.about.size) / FEWEST_CHUNKS).max(1);
            // The leader has the first, and the others are far apart: where ranks fill one node after the other, on many nodes.
            let rank = |i: u64| (i * u64::from(team.size) / pairs) as u32;
            let shares = Share::ALL.divide(pairs).zip(0..).map(|(share, i)| (rank(i), vec![share]));
            Ok([plan.encode(), encode(&shares.collect())].concat())
        })?;
        let mut told = Take(&told);
        let plan = Plan::decode(&mut told).map_err(damaged)?;
        let mut shares = decode(&mut told).map_err(damaged)?;
        // The leader alone uses it: those that move something.
        let mut movers: BTreeSet<u32> = shares.keys().copied().collect();
        while !shares.is_empty() {
            let came = match shares.remove(&team.rank) {
                Some(own) => self.go(&plan, own),
                None => Ok(()),
            };
            let report = report(&came);
            let told = decide(abi, node, &team, Ok(report), |all| {
                let next = self.share_again(&plan, &all?, came.err().map(|(_, e)| e), &mut movers);
                next.inspect_err(|_| self.give_up(&plan)).map(|next| encode(&next))
            })?;
            shares = decode(&mut Take(&told)).map_err(damaged)?;
        }
        if team.is_led_here() {
            let (seconds, size) = (begun.elapsed().as_secs_f64(), plan.about.size);
            base::log!(
                Info,
                "{}: {size} bytes in {seconds:.1} s, {:.0} MB/s, over {} pairs",
                self.call,
                size as f64 / 1e6 / seconds.max(1e-9),
                movers.len()
            );
        }
        Ok(())
    }

    /// The process of the other job that serves this one.
    fn server(&self) -> Result<Server, Failure> {
        let rank = self.team.rank % self.inter.remote.size().max(1);
        let gone = || Failure::new(Class::Comm, "the inter-communicator leads to no process");
        Server::new(self.node, self.inter.id, rank).ok_or_else(gone)
    }

    /// Runs something that takes long in a thread of its own, while messages go on.
    fn aside<T: Send + 'static>(&self, run: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
        let no_thread = |e| Failure::new(Class::Other, format!("no thread for the file: {e}"));
        let aside = Aside::begin(run).map_err(no_thread)?;
        let name = &self.inter.remote.name;
        let about = |_: &mut node::Core| {
            let else_for = Some(format!("for a file of job '{name}'"));
            Some(About { else_for, ..About::ops(self.call, Vec::new()) })
        };
        wait(self.node, &about, |_| aside.is_over().then_some(()));
        aside.join().ok_or_else(|| Failure::new(Class::Intern, "the thread of the file has ended early"))
    }

    /// The leader opens the file on both sides.
    fn begin(&mut self, path: Vec<u8>, local: Vec<u8>) -> Result<Plan, Failure> {
        let (server, limit, direction) = (self.server()?, self.limit, self.direction);
        let local = PathBuf::from(OsStr::from_bytes(&local));
        let token: Token = base::ident::random();
        let begun = self.aside(move || {
            let moved = AtomicU64::new(0);
            let client = Client::new(&server, limit, &moved);
            let local = std::path::absolute(&local).map_err(|e| Error::of(&e, local.display()))?;
            match direction {
                Direction::Get => {
                    let about = files::look(&client, &path)?;
                    let local = files::target(&local, &path)?;
                    let plan = Plan { path, local, token, about };
                    let part = plan.part(true)?;
                    Ok((plan, Some(part)))
                }
                Direction::Put => {
                    let about = *Source::open(&local)?.about();
                    files::begin(&client, &path, &token, &about)?;
                    Ok((Plan { path, local, token, about }, None))
                }
            }
        })?;
        let (plan, part) = begun.map_err(|e| self.failure(e))?;
        self.part = part;
        Ok(plan)
    }

    /// Moves shares of the file.
    fn go(&mut self, plan: &Plan, shares: Vec<Share>) -> Came {
        let here = |text: String| Error::here(Kind::Io, text);
        let server = self.server().map_err(|f| (shares.clone(), here(f.text)))?;
        let (limit, direction, plan, mut part) = (self.limit, self.direction, plan.clone(), self.part.take());
        let all = shares.clone();
        let done = self.aside(move || {
            let moved = AtomicU64::new(0);
            let client = Client::new(&server, limit, &moved);
            let came = match direction {
                Direction::Get => fetch(&client, &plan, shares, &mut part),
                Direction::Put => send(&client, &plan, shares),
            };
            (came, part)
        });
        match done {
            Ok((came, part)) => {
                self.part = part;
                came
            }
            Err(f) => Err((all, here(f.text))),
        }
    }

    /// The leader hears of all, and says who does what next. When nothing is left, it gives the file its name.
    fn share_again(
        &mut self,
        plan: &Plan,
        all: &[u8],
        own: Option<Error>,
        movers: &mut BTreeSet<u32>,
    ) -> Result<Shares, Failure> {
        let mut reports = Take(all);
        let (mut left, mut last): (Vec<Share>, _) = (Vec::new(), None);
        for rank in 0..self.team.size {
            let (shares, text) = reported(&mut reports).map_err(damaged)?;
            if let Some(text) = text {
                base::log!(Info, "rank {rank} moves no more of the file: {text}");
                movers.remove(&rank);
                left.extend(shares);
                last = Some(text);
            }
        }
        if let Some(e) = own {
            // Others may still reach another process of that job.
            let others_can = self.direction == Direction::Get && e.kind == Kind::Gone && !movers.is_empty();
            if !others_can {
                return Err(self.failure(e));
            }
        }
        if left.is_empty() {
            return self.finish(plan).map(|()| Shares::new());
        }
        if movers.is_empty() {
            let text = last.unwrap_or_default();
            return Err(Failure::new(Class::PeerGone, text));
        }
        let mut next = Shares::new();
        for share in left {
            for (share, rank) in share.divide(movers.len() as u64).zip(movers.iter()) {
                next.entry(*rank).or_default().push(share);
            }
        }
        Ok(next)
    }

    fn finish(&mut self, plan: &Plan) -> Result<(), Failure> {
        let (server, limit, plan, part) = (self.server()?, self.limit, plan.clone(), self.part.take());
        let (done, part) = self.aside(move || {
            let moved = AtomicU64::new(0);
            let client = Client::new(&server, limit, &moved);
            let done = match &part {
                // Whoever was the last to read saw no change.
                Some(part) => part.finish().map_err(|e| Error::of(&e, format!("'{}'", plan.local.display()))),
                None => Source::open(&plan.local)
                    .and_then(|source| files::finish(&client, &plan.path, &plan.token, &source)),
            };
            (done, part)
        })?;
        self.part = part;
        done.map_err(|e| self.failure(e))
    }

    /// Removes what is there of the file.
    fn give_up(&mut self, plan: &Plan) {
        match self.part.take() {
            Some(part) => part.remove(),
            None if self.direction == Direction::Put => {
                let Ok(server) = self.server() else { return };
                let plan = plan.clone();
                // The other side removes it by itself a little later, if nobody tells it.
                let _ = self.aside(move || {
                    let moved = AtomicU64::new(0);
                    files::abandon(&Client::new(&server, TO_ABANDON, &moved), &plan.path, &plan.token)
                });
            }
            None => (),
        }
    }

    fn failure(&self, e: Error) -> Failure {
        let class = match e.kind {
            Kind::NoSuchFile => Class::NoSuchFile,
            Kind::Denied => Class::Access,
            Kind::ReadOnly => Class::ReadOnly,
            Kind::NoSpace => Class::NoSpace,
            Kind::Changed => Class::FileInUse,
            Kind::NotAFile => Class::BadFile,
            Kind::Damaged | Kind::Io => Class::Io,
            Kind::Gone => Class::PeerGone,
            Kind::TimedOut => Class::Timeout,
            Kind::Busy | Kind::Malformed | Kind::Broken | Kind::Refused => Class::Other,
        };
        let text = match e.side {
            Side::Here => e.text,
            Side::There => format!("job '{}': {}", self.inter.remote.name, e.text),
        };
        Failure::new(class, text)
    }
}

fn fetch(client: &Client<'_>, plan: &Plan, shares: Vec<Share>, part: &mut Option<Arc<Part>>) -> Came {
    let part = match part {
        Some(part) => part,
        None => part.insert(plan.part(false).map_err(|e| (shares.clone(), e))?),
    };
    for (at, share) in shares.iter().enumerate() {
        if let Err((left, e)) = files::get(client, &plan.path, &plan.about, *share, part) {
            return Err(([&[left], &shares[at + 1..]].concat(), e));
        }
    }
    Ok(())
}

fn send(client: &Client<'_>, plan: &Plan, shares: Vec<Share>) -> Came {
    let failed = |e| (shares.clone(), e);
    let source = Source::open(&plan.local).map_err(failed)?;
    if !source.about().is_same(&plan.about) {
        return Err(failed(Error::here(Kind::Changed, "the file has changed since its transfer began")));
    }
    for (at, share) in shares.iter().enumerate() {
        files::put(client, &plan.path, &plan.token, &source, *share).map_err(|e| (shares[at..].to_vec(), e))?;
    }
    Ok(())
}

impl Plan {
    /// What is written here of a file that is fetched.
    fn part(&self, new: bool) -> Result<Arc<Part>, Error> {
        Part::beside(&self.local, &self.token, self.about.size, self.about.mode, new).map(Arc::new)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_bytes(&self.path);
        out.put_bytes(self.local.as_os_str().as_bytes());
        out.extend_from_slice(&self.token);
        let Found { size, mode, changed, inode } = self.about;
        out.put_u64(size);
        out.put_u32(mode);
        out.put_i64(changed);
        out.put_u64(inode);
        out
    }

    fn decode(from: &mut Take<'_>) -> Result<Plan, Malformed> {
        let path = from.bytes(MAX_PATH)?.to_vec();
        // The program's own path, behind its current folder and before a name.
        let local = Path::new(OsStr::from_bytes(from.bytes(4 * MAX_PATH)?)).to_owned();
        let token = from.array()?;
        let (size, mode) = (from.u64()?, from.u32()?);
        let (changed, inode) = (i64::from_le_bytes(from.array()?), from.u64()?);
        Ok(Plan { path, local, token, about: Found { size, mode, changed, inode } })
    }
}

fn damaged(_: Malformed) -> Failure {
    Failure::new(Class::Intern, "what was told of the file is damaged")
}

fn put_shares(out: &mut Vec<u8>, shares: &[Share]) {
    out.put_u32(shares.len() as u32);
    shares.iter().for_each(|share| share.encode(out));
}

fn take_shares(from: &mut Take<'_>) -> Result<Vec<Share>, Malformed> {
    (0..from.u32()?).map(|_| Share::decode(from)).collect()
}

fn encode(shares: &Shares) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32(shares.len() as u32);
    for (rank, shares) in shares {
        out.put_u32(*rank);
        put_shares(&mut out, shares);
    }
    out
}

fn decode(from: &mut Take<'_>) -> Result<Shares, Malformed> {
    (0..from.u32()?).map(|_| Ok((from.u32()?, take_shares(from)?))).collect()
}

/// What a process tells the leader.
fn report(came: &Came) -> Vec<u8> {
    let mut out = Vec::new();
    match came {
        Ok(()) => out.put_u8(0),
        Err((left, e)) => {
            out.put_u8(1);
            put_shares(&mut out, left);
            out.put_bytes(e.text.as_bytes());
        }
    }
    out
}

/// What is left of a process's shares, and why, if it has failed.
fn reported(from: &mut Take<'_>) -> Result<(Vec<Share>, Option<String>), Malformed> {
    if from.u8()? == 0 {
        return Ok((Vec::new(), None));
    }
    let left = take_shares(from)?;
    Ok((left, Some(String::from_utf8_lossy(from.bytes(1 << 16)?).into_owned())))
}
