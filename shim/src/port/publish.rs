//! Published names: the naming service leads from a service name to the name of a port.

use super::info::Info;
use crate::abi;
use crate::conn::claim::{self, Held, open_naming};
use crate::conn::waiting::Names;
use crate::failure::{Class, Failure};
use crate::forward::Handle;
use crate::life::{self, Part};
use crate::process::node;
use base::ident::random;
use base::log::Patience;
use base::protocol::port::PREFIX;
use naming::{ClaimError, Kind, Record};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What this process has published, by service name: the port, and the name that it holds.
type Published = HashMap<String, (String, Held)>;

static PUBLISHED: LazyLock<Mutex<Published>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, Published> {
    PUBLISHED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Publishes a port. The keys of the info object become metadata, for people and programs that look at the names.
pub fn publish(service: &str, info: Handle, port: &str) -> Result<(), Failure> {
    let naming = open_naming()?;
    let mut record = Record { port: Some(whole(port)), ..claim::record(service)? };
    record.incarnation = u64::from_le_bytes(random());
    for (key, value) in Info::of(info).all() {
        record.metadata.retain(|(other, _)| *other != key);
        record.metadata.push((key, value));
    }
    let held = claim::hold(node()?, &*naming, &record).map_err(|e| {
        let class = match e {
            ClaimError::Held { .. } | ClaimError::Name(_) => Class::Service,
            ClaimError::Record(_) => Class::Arg,
            ClaimError::Store(_) => Class::Name,
        };
        Failure::new(class, e.to_string())
    })?;
    life::end_with(Part::Published, take_all);
    base::log!(Info, "published '{service}' in {}", naming.describe());
    table().insert(service.to_owned(), (port.to_owned(), held));
    Ok(())
}

/// Unpublishes a name that this process has published.
pub fn unpublish(service: &str, port: &str) -> Result<(), Failure> {
    let taken = {
        let mut table = table();
        match table.get(service) {
            Some((published, _)) if published != port => {
                return Err(Failure::new(Class::Port, format!("'{service}' was published with another port")));
            }
            _ => table.remove(service),
        }
    };
    // The name is given back without the lock, since that may take a while.
    match taken {
        Some(_) => Ok(()),
        None => Err(Failure::new(Class::Service, format!("'{service}' was not published by this process"))),
    }
}

/// Unpublishes all names, in MPI_Finalize.
pub fn take_all() {
    table().clear();
}

/// The port that a service name leads to.
pub fn lookup(service: &str) -> Result<String, Failure> {
    let naming = open_naming()?;
    let found = naming.lookup(Kind::Port, service).map_err(|e| Failure::new(Class::Name, e.to_string()))?;
    let waited = sought().again(service, found.is_some(), Instant::now());
    let port = found.and_then(|record| record.port).ok_or_else(|| {
        let names = Names::find(&*naming, Kind::Port, "").in_words(service);
        let text = format!(
            "nobody has published '{service}' in {}; {names}; a server without this library publishes elsewhere: start it by \
             'mpi-connect run'",
            naming.describe()
        );
        if let Some(seconds) = waited {
            base::log!(Notice, "MPI_Lookup_name waits for '{service}' for {seconds} s: {text}");
        }
        Failure::new(Class::Name, text)
    })?;
    Ok(handy(port))
}

/// If a program looks for the same name again within this time, it waits for the name.
const SOON: Duration = Duration::from_secs(10);

/// The names that are looked for in vain again and again, with the time of the last look.
struct Sought(Vec<(String, Patience, Instant)>);

impl Sought {
    /// Says that a name was looked for. If a notice is due, returns for how many seconds the name was looked for.
    fn again(&mut self, service: &str, found: bool, now: Instant) -> Option<u64> {
        self.0.retain(|(name, _, last)| now.duration_since(*last) < SOON && !(found && name == service));
        if found {
            return None;
        }
        let at = self.0.iter().position(|(name, ..)| name == service).unwrap_or_else(|| {
            self.0.push((service.to_owned(), Patience::new(now), now));
            self.0.len() - 1
        });
        let (_, patience, last) = &mut self.0[at];
        *last = now;
        patience.is_over(now)
    }
}

fn sought() -> MutexGuard<'static, Sought> {
    static SOUGHT: Mutex<Sought> = Mutex::new(Sought(Vec::new()));
    SOUGHT.lock().unwrap_or_else(|e| e.into_inner())
}

/// The port names that were too long for the program.
static LONG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The beginning of the short names that stand for them in this process, and in no other.
static SHORT_FOR: LazyLock<String> = LazyLock::new(|| format!("{PREFIX}#{:016x}-", u64::from_le_bytes(random())));

/// A name that the program has room for. If a port name is longer than MPI_MAX_PORT_NAME, it is kept here, and a short
/// name stands for it in this process.
fn handy(port: String) -> String {
    if port.len() < abi::get().max_port_name as usize {
        return port;
    }
    let mut long = LONG.lock().unwrap_or_else(|e| e.into_inner());
    let at = long.iter().position(|other| *other == port).unwrap_or_else(|| {
        long.push(port);
        long.len() - 1
    });
    format!("{}{at}", *SHORT_FOR)
}

/// The port name for which a short name may stand.
pub fn whole(port: &str) -> String {
    let at = port.strip_prefix(SHORT_FOR.as_str()).and_then(|at| at.parse::<usize>().ok());
    let long = LONG.lock().unwrap_or_else(|e| e.into_inner());
    at.and_then(|at| long.get(at)).map_or_else(|| port.to_owned(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_again_and_again_waits() {
        let (mut sought, start) = (Sought(Vec::new()), Instant::now());
        let mut again = |s, name, found| sought.again(name, found, start + Duration::from_secs(s));
        assert_eq!([again(0, "sum", false), again(3, "sum", false), again(5, "sum", false)], [None, None, Some(5)]);
        assert_eq!([again(6, "sum", false), again(6, "air", false)], [None, None]);
        assert_eq!([again(11, "air", false), again(12, "air", true), again(13, "air", false)], [Some(5), None, None]);
        // Once in a while is no wait.
        assert_eq!([again(30, "air", false), again(45, "air", false)], [None, None]);
    }
}
