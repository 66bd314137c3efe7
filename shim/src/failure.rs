//! Failures: a kind and a text. `error` makes MPI errors of them.

use base::settings;

/// The kind of a failure, which becomes an MPI error class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Arg,
    Buffer,
    Comm,
    Count,
    Group,
    Intern,
    Name,
    Other,
    Port,
    Rank,
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
    pub const ALL: [Class; 20] = [
        Class::Arg,
        Class::Buffer,
        Class::Comm,
        Class::Count,
        Class::Group,
        Class::Intern,
        Class::Name,
        Class::Other,
        Class::Port,
        Class::Rank,
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
            Class::Arg => "MPI_ERR_ARG",
            Class::Buffer => "MPI_ERR_BUFFER",
            Class::Comm => "MPI_ERR_COMM",
            Class::Count => "MPI_ERR_COUNT",
            Class::Group => "MPI_ERR_GROUP",
            Class::Intern => "MPI_ERR_INTERN",
            Class::Name => "MPI_ERR_NAME",
            Class::Other => "MPI_ERR_OTHER",
            Class::Port => "MPI_ERR_PORT",
            Class::Rank => "MPI_ERR_RANK",
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
