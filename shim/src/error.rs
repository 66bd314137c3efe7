//! Makes MPI errors of failures: class, code, text, and the call of the error handler. Only this file does.

use crate::abi::{self, Abi};
use crate::conn::claim::give_back_before_end;
use crate::failure::{Class, Failure};
use crate::forward::{self as pmpi, Handle};
use crate::progress;
use std::ffi::{CString, c_int};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// The MPI error class of a kind of failure.
pub fn mpi_class(abi: &Abi, class: Class) -> c_int {
    match class {
        Class::Access => abi.err_access,
        Class::Arg => abi.err_arg,
        Class::BadFile => abi.err_bad_file,
        Class::Buffer => abi.err_buffer,
        Class::Comm => abi.err_comm,
        Class::Count => abi.err_count,
        Class::FileInUse => abi.err_file_in_use,
        Class::Group => abi.err_group,
        Class::Intern => abi.err_intern,
        Class::Io => abi.err_io,
        Class::Name => abi.err_name,
        Class::NoSpace => abi.err_no_space,
        Class::NoSuchFile => abi.err_no_such_file,
        Class::Other => abi.err_other,
        Class::Port => abi.err_port,
        Class::Rank => abi.err_rank,
        Class::ReadOnly => abi.err_read_only,
        Class::Request => abi.err_request,
        Class::Root => abi.err_root,
        Class::Service => abi.err_service,
        Class::Spawn => abi.err_spawn,
        Class::Tag => abi.err_tag,
        Class::Truncate => abi.err_truncate,
        Class::Type => abi.err_type,
        Class::Unsupported => abi.err_unsupported,
        Class::PeerGone => own_class(Class::PeerGone).unwrap_or(abi.err_other),
        Class::Timeout => own_class(Class::Timeout).unwrap_or(abi.err_other),
    }
}

/// One of the library's own error classes, which is made at the first call. `None`: the MPI below makes none.
pub fn own_class(class: Class) -> Option<c_int> {
    static PEER_GONE: OnceLock<Option<c_int>> = OnceLock::new();
    static TIMEOUT: OnceLock<Option<c_int>> = OnceLock::new();
    let (cell, text) = match class {
        Class::PeerGone => (&PEER_GONE, c"the other process has died or finalized"),
        Class::Timeout => (&TIMEOUT, c"the other job did not come in time"),
        _ => return None,
    };
    *cell.get_or_init(|| {
        let value = new_class()?;
        // SAFETY: the text is terminated.
        unsafe { pmpi::add_error_string(value, text.as_ptr()) };
        // A class is also an error code. It has this text until there is a failure.
        codes().push(Code { code: value, class: value, text: text.to_owned() });
        Some(value)
    })
}

fn new_class() -> Option<c_int> {
    let mut value = 0;
    // SAFETY: plain out-argument.
    (unsafe { pmpi::add_error_class(&mut value) } == 0).then_some(value)
}

/// An error code of the library: the class it belongs to, and its text.
struct Code {
    code: c_int,
    class: c_int,
    text: CString,
}

fn codes() -> MutexGuard<'static, Vec<Code>> {
    static CODES: Mutex<Vec<Code>> = Mutex::new(Vec::new());
    CODES.lock().unwrap_or_else(|e| e.into_inner())
}

/// An error code with the text of this failure. There is one code for each class, with the text of the last failure.
///
/// The code is a class made at run time, since the MPICH family shows garbage as the text of a code under a predefined
/// class. `MPI_Error_class` and `MPI_Error_string` are answered by this library for such a code. The MPI below gets the
/// text too, for callers that bypass this library. If the error is fatal, the MPI below gets a text that says that it
/// has been printed.
pub fn code(failure: &Failure) -> c_int {
    let abi = abi::get();
    let class = mpi_class(abi, failure.class);
    let mut codes = codes();
    let at = codes.iter().position(|c| c.class == class).or_else(|| {
        let code = new_class()?;
        codes.push(Code { code, class, text: CString::default() });
        Some(codes.len() - 1)
    });
    let Some(at) = at else { return class };
    let code = &mut codes[at];
    code.text = clipped(abi, &failure.text);
    // SAFETY: the text is terminated and no longer than MPI_MAX_ERROR_STRING.
    unsafe { pmpi::add_error_string(code.code, code.text.as_ptr()) };
    code.code
}

/// The class of one of the library's error codes. `None`: it is another code.
pub fn class_of_code(code: c_int) -> Option<c_int> {
    codes().iter().find(|c| c.code == code).map(|c| c.class)
}

/// The text of one of the library's error codes. `None`: it is another code.
pub fn text_of_code(code: c_int) -> Option<CString> {
    codes().iter().find(|c| c.code == code).map(|c| c.text.clone())
}

fn clipped(abi: &Abi, text: &str) -> CString {
    let mut end = text.len().min(abi.max_error_string as usize - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    CString::new(text[..end].replace('\0', "?")).unwrap_or_default()
}

/// Where a failure is raised.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// A live communicator of the MPI below, whose error handler is called.
    Comm(Handle),
    /// An error handler whose communicator the program has freed.
    Handler(Handle),
}

impl Place {
    /// The place for failures that belong to no communicator.
    pub fn world() -> Place {
        Place::Comm(abi::get().comm_world)
    }

    fn is_fatal(self) -> bool {
        let abi = abi::get();
        let handler = match self {
            Place::Handler(handler) => handler,
            Place::Comm(comm) => {
                let Some(mut handler) = errhandler(comm) else { return false };
                let value = handler;
                // SAFETY: our own reference, given up once.
                unsafe { pmpi::errhandler_free(&mut handler) };
                value
            }
        };
        handler & abi.mask == abi.errors_are_fatal
    }
}

/// A reference to the error handler of a communicator, which the caller has to free.
pub fn errhandler(comm: Handle) -> Option<Handle> {
    let mut handler: Handle = 0;
    // SAFETY: a live communicator, plain out-argument.
    (unsafe { pmpi::comm_get_errhandler(comm, &mut handler) } == 0).then_some(handler)
}

/// Gives one communicator the error handler of another.
pub fn copy_errhandler(from: Handle, to: Handle) {
    if let Some(mut handler) = errhandler(from) {
        // SAFETY: a live communicator; the reference to the handler is given up.
        unsafe {
            pmpi::comm_set_errhandler(to, handler);
            pmpi::errhandler_free(&mut handler);
        }
    }
}

/// Calls the error handler for a failure. Returns the code that the MPI call has to return if the handler returns.
pub fn raise(place: Place, failure: &Failure) -> c_int {
    raise_as(place, code(failure), failure)
}

/// As [`raise`], with another code: MPI_ERR_IN_STATUS, if the failure's own code is in a status.
pub fn raise_as(place: Place, code: c_int, failure: &Failure) -> c_int {
    let fatal = place.is_fatal();
    if fatal {
        // The MPI below aborts the job now, by a function of its own. Some MPIs cannot show the text of a class that was made at run time.
        base::log::say(&failure.text);
        // The MPI below prints the text that it has for the code. The failure's text is printed already.
        if class_of_code(code).is_some() {
            let told = format!("see the line above that begins with [{}]", base::log::who());
            let told = clipped(abi::get(), &told);
            // SAFETY: the text is terminated, and no longer than MPI_MAX_ERROR_STRING.
            unsafe { pmpi::add_error_string(code, told.as_ptr()) };
        }
        give_back_before_end();
    } else {
        base::log!(Info, "error, {}: {}", failure.class.name(), failure.text);
    }
    // MPI_Comm_call_errhandler returns success if the handler returns.
    match place {
        Place::Comm(comm) => {
            // SAFETY: `comm` is a live native communicator.
            unsafe { pmpi::comm_call_errhandler(comm, if fatal { shown(code, failure.class) } else { code }) };
        }
        Place::Handler(handler) => progress::call_errhandler(handler, code),
    }
    code
}

/// The code that an MPI gets when it aborts the job. LAM has no texts for classes that were made at run time, so it
/// gets a predefined class.
fn shown(code: c_int, class: Class) -> c_int {
    let abi = abi::get();
    match class {
        _ if !abi.family.calls_itself => code,
        Class::PeerGone | Class::Timeout | Class::Unsupported => abi.err_other,
        _ => mpi_class(abi, class),
    }
}

/// Prints the text and ends the process, as an MPI does for calls before MPI_Init: there is no error handler yet.
pub fn die(text: &str) -> ! {
    base::log::say(text);
    std::process::exit(1)
}
