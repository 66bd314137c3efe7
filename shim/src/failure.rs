//! Failures: a kind and a text. `error` makes MPI errors of them.

use base::settings;

/// The kind of a failure, which becomes an MPI error class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Access,
    Arg,
    BadFile,
    Buffer,
    Comm,
    Count,
    FileInUse,
    Group,
    Intern,
    Io,
    Name,
    NoSpace,
    NoSuchFile,
    Other,
    Port,
    Rank,
    ReadOnly,
    Request,
    Root,
    Service,
    Spawn,
    Tag,
    Truncate,
    Type,
    Unsupported,
    /// The other process has died or finalized. This is a class of the library's own.
    PeerGone,
    /// Joining took longer than `MPI_CONNECT_TIMEOUT`. This is a class of the library's own.
    Timeout,
}

impl Class {
    /// All kinds. Processes of one job name a kind to each other by its index here.
    pub const ALL: [Class; 27] = [
        Class::Access,
        Class::Arg,
        Class::BadFile,
        Class::Buffer,
        Class::Comm,
        Class::Count,
        Class::FileInUse,
        Class::Group,
        Class::Intern,
        Class::Io,
        Class::Name,
        Class::NoSpace,
        Class::NoSuchFile,
        Class::Other,
        Class::Port,
        Class::Rank,
        Class::ReadOnly,
        Class::Request,
        Class::Root,
        Class::Service,
        Class::Spawn,
        Class::Tag,
        Class::Truncate,
        Class::Type,
        Class::Unsupported,
        Class::PeerGone,
        Class::Timeout,
    ];

    /// The name of the class in `mpi.h`, or in this library's header.
    pub fn name(self) -> &'static str {
        match self {
            Class::Access => "MPI_ERR_ACCESS",
            Class::Arg => "MPI_ERR_ARG",
            Class::BadFile => "MPI_ERR_BAD_FILE",
            Class::Buffer => "MPI_ERR_BUFFER",
            Class::Comm => "MPI_ERR_COMM",
            Class::Count => "MPI_ERR_COUNT",
            Class::FileInUse => "MPI_ERR_FILE_IN_USE",
            Class::Group => "MPI_ERR_GROUP",
            Class::Intern => "MPI_ERR_INTERN",
            Class::Io => "MPI_ERR_IO",
            Class::Name => "MPI_ERR_NAME",
            Class::NoSpace => "MPI_ERR_NO_SPACE",
            Class::NoSuchFile => "MPI_ERR_NO_SUCH_FILE",
            Class::Other => "MPI_ERR_OTHER",
            Class::Port => "MPI_ERR_PORT",
            Class::Rank => "MPI_ERR_RANK",
            Class::ReadOnly => "MPI_ERR_READ_ONLY",
            Class::Request => "MPI_ERR_REQUEST",
            Class::Root => "MPI_ERR_ROOT",
            Class::Service => "MPI_ERR_SERVICE",
            Class::Spawn => "MPI_ERR_SPAWN",
            Class::Tag => "MPI_ERR_TAG",
            Class::Truncate => "MPI_ERR_TRUNCATE",
            Class::Type => "MPI_ERR_TYPE",
            Class::Unsupported => "MPI_ERR_UNSUPPORTED_OPERATION",
            Class::PeerGone => "MPI_CONN_ERR_PEER_GONE",
            Class::Timeout => "MPI_CONN_ERR_TIMEOUT",
        }
    }
}

/// A failure: its kind, and the text for `MPI_Error_string`.
#[derive(Clone, Debug)]
pub struct Failure {
    pub class: Class,
    pub text: String,
}

impl Failure {
    pub fn new(class: Class, text: impl Into<String>) -> Failure {
        Failure { class, text: text.into() }
    }

    /// The same failure with the name of the call in front of its text.
    pub fn of(mut self, call: &str) -> Failure {
        if !self.text.starts_with("MPI_") || self.text.starts_with(settings::PREFIX) {
            self.text = format!("{call}: {}", self.text);
        }
        self
    }
}
