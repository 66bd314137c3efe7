//! MPI_Conn_notify: a program is told which jobs register names, give them back, or die.
//!
//! A thread for each registration follows the naming service. Invariants: functions of the program are called one after the other;
//! when a registration was cancelled, its function does not run and is not called any more.
//!
//! The C header is made from the comments here too. What they leave out for Rust's sake: strings are terminated or null, functions
//! are null or may be called.
#![allow(clippy::missing_safety_doc)]

use super::claim::open_naming;
use super::running;
use super::{MPI_CONN_DIED, MPI_CONN_JOINED, MPI_CONN_LEFT};
use crate::error::{Place, raise};
use crate::failure::{Class, Failure};
use crate::life::{self, Part};
use naming::{Fate, Follower, Kind, Naming, Row, State, StoreError, follow, rows};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A function that is told of a name: what has become of it (MPI_CONN_JOINED, MPI_CONN_LEFT or MPI_CONN_DIED), the name, and the state
/// that it was registered with.
#[allow(non_camel_case_types)]
pub type MPI_Conn_notify_function = Option<unsafe extern "C" fn(event: c_int, name: *const c_char, state: *mut c_void)>;

/// Has a function called when a job registers a name like `pattern`, gives it back, or dies.
///
/// The names are those of this process's run, where MPI_Conn_register looks for them; also this job's own. They begin as `pattern`
/// does or, with a `*` in it, are like it from end to end; a null pointer means all. `events` is the sum of those that are wanted:
/// MPI_CONN_JOINED, MPI_CONN_LEFT, MPI_CONN_DIED. Jobs that are there already are told of as joined. A death in a folder is noticed
/// within some 2 s, and on another host, or of a server's client, when its lease is over.
///
/// A thread of the library calls the function, of all registrations one after the other, with all signals blocked. The name is valid
/// until the function returns. It may call MPI_Conn_notify, also to cancel itself MPI_Conn_notify_cancel, and no other function of MPI
/// unless the level of threads is MPI_THREAD_MULTIPLE; then too it calls nothing collective that the program calls at the same time.
///
/// Local: each process that wants to be told calls it, between MPI_Init and MPI_Finalize, which cancels what is left. `notice` is for
/// MPI_Conn_notify_cancel. MPI_ERR_ARG for a bad pattern, events or pointer, MPI_ERR_NAME when the naming service cannot be used,
/// MPI_ERR_OTHER for more than 64 registrations at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Conn_notify(
    pattern: *const c_char,
    events: c_int,
    function: MPI_Conn_notify_function,
    state: *mut c_void,
    notice: *mut c_int,
) -> c_int {
    let call = "MPI_Conn_notify";
    running(call);
    // SAFETY: the caller's promises.
    let pattern = if pattern.is_null() { Ok("") } else { unsafe { CStr::from_ptr(pattern) }.to_str() };
    let begun = match (pattern, function) {
        (Err(_), _) => Err(Failure::new(Class::Arg, "the pattern is not UTF-8")),
        (_, None) => Err(Failure::new(Class::Arg, "the function is a null pointer")),
        _ if notice.is_null() => Err(Failure::new(Class::Arg, "the place for the result is a null pointer")),
        _ if events & ALL != events || events == 0 => {
            let text =
                format!("events is {events}: a sum of MPI_CONN_JOINED, MPI_CONN_LEFT and MPI_CONN_DIED is expected");
            Err(Failure::new(Class::Arg, text))
        }
        (Ok(pattern), Some(function)) => {
            // SAFETY: the caller promises that it may be called with this state until it was cancelled.
            let call = move |event, name: &CStr| unsafe { function(event, name.as_ptr(), state) };
            // The function may use it at once. SAFETY: the caller's promise.
            begin(pattern, events, call, |number| unsafe { notice.write(number) })
        }
    };
    match begun {
        Ok(()) => 0,
        Err(failure) => raise(Place::world(), &failure.of(call)),
    }
}

/// Ends a registration of MPI_Conn_notify: when it returns, its function does not run and is not called any more. It waits for a
/// function that runs, also of another registration, unless it is called by that.
///
/// Local. MPI_ERR_ARG for a number that was not given out, or was cancelled.
#[unsafe(no_mangle)]
pub extern "C" fn MPI_Conn_notify_cancel(notice: c_int) -> c_int {
    let call = "MPI_Conn_notify_cancel";
    running(call);
    let found = table().live.remove(&notice);
    match found {
        Some(registered) => {
            registered.end();
            0
        }
        None => {
            let text = format!("there is no registration {notice}: use what MPI_Conn_notify gave, once");
            raise(Place::world(), &Failure::new(Class::Arg, text).of(call))
        }
    }
}

const ALL: c_int = MPI_CONN_JOINED | MPI_CONN_LEFT | MPI_CONN_DIED;

/// Registrations at a time: each has a thread, and a watch of a folder or a connection to a server.
const MOST_NOTICES: usize = 64;

/// What is called with an event and a name.
type Told = dyn Fn(c_int, &CStr);

/// What the program has registered. The state may be used by another thread: so says whoever registers it.
struct Notice {
    pattern: String,
    events: c_int,
    function: Box<Told>,
    over: AtomicBool,
}

// SAFETY: the function is called by one thread at a time, as MPI_Conn_notify says; all else is plain data.
unsafe impl Send for Notice {}
// SAFETY: as above.
unsafe impl Sync for Notice {}

#[derive(Default)]
struct Table {
    live: BTreeMap<c_int, Arc<Notice>>,
    last: c_int,
}

static TABLE: Mutex<Table> = Mutex::new(Table { live: BTreeMap::new(), last: 0 });

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held while a function of the program runs.
static CALLING: Mutex<()> = Mutex::new(());

thread_local! {
    /// This thread is in such a function.
    static IS_CALLED: Cell<bool> = const { Cell::new(false) };
}

impl Notice {
    fn call(&self, event: c_int, name: &str) {
        let Ok(name) = CString::new(name) else { return };
        let _turn = CALLING.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over() || self.events & event == 0 {
            return;
        }
        IS_CALLED.set(true);
        (self.function)(event, &name);
        IS_CALLED.set(false);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        if !IS_CALLED.get() {
            drop(CALLING.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

fn begin(
    pattern: &str,
    events: c_int,
    function: impl Fn(c_int, &CStr) + 'static,
    number_is: impl FnOnce(c_int),
) -> Result<(), Failure> {
    let unusable = |e: StoreError| Failure::new(Class::Name, e.to_string());
    let store = open_naming()?;
    // A folder that is not there yet is made: what comes into it could not be watched.
    store.make_ready().map_err(unusable)?;
    let notice = Notice { pattern: pattern.into(), events, function: Box::new(function), over: AtomicBool::new(false) };
    let notice = Arc::new(notice);
    let number = {
        let mut table = table();
        if table.live.len() >= MOST_NOTICES {
            return Err(Failure::new(Class::Other, format!("there are {MOST_NOTICES} registrations; cancel some")));
        }
        table.last += 1;
        let number = table.last;
        table.live.insert(number, notice.clone());
        number
    };
    number_is(number);
    life::end_with(Part::Notices, cancel_all);
    let watched = naming::quiet::spawn("mpi_connect notify", move || watch(store.as_ref(), notice));
    watched.map_err(|e| {
        table().live.remove(&number);
        Failure::new(Class::Other, format!("no thread that watches names: {e}{}", base::mend(&e)))
    })
}

/// In MPI_Finalize.
fn cancel_all() {
    let live = std::mem::take(&mut table().live);
    live.values().for_each(|notice| notice.end());
}

fn watch(store: &dyn Naming, notice: Arc<Notice>) {
    let mut told = Following { notice, run: store.run().to_owned() };
    // Before the list, so that nothing is missed between the two.
    let changes = store.watch();
    let there: Vec<Row> = match store.list() {
        Ok(all) => rows(all).into_iter().filter(|row| row.state == State::Live && told.wants(row)).collect(),
        Err(e) => {
            told.fails(&e);
            Vec::new()
        }
    };
    there.iter().for_each(|row| told.notice.call(MPI_CONN_JOINED, &row.record.name));
    let _ = follow(store, changes, there, &mut told);
}

struct Following {
    notice: Arc<Notice>,
    run: String,
}

impl Follower for Following {
    fn wants(&self, row: &Row) -> bool {
        let record = &row.record;
        record.kind() == Kind::Job && record.run == self.run && naming::matches(&self.notice.pattern, &record.name)
    }

    fn tell(&mut self, fate: Fate, row: &Row, _at: u64) -> io::Result<()> {
        let event = match fate {
            Fate::Claimed => MPI_CONN_JOINED,
            Fate::Released => MPI_CONN_LEFT,
            Fate::Over => MPI_CONN_DIED,
        };
        self.notice.call(event, &row.record.name);
        Ok(())
    }

    fn fails(&mut self, e: &StoreError) {
        base::log!(Notice, "MPI_Conn_notify: {e}; it goes on watching");
    }

    fn goes_on(&self) -> bool {
        !self.notice.is_over()
    }
}
