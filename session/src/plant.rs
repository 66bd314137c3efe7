//! Planted faults, one for each invariant: a test puts one in and sees that the simulator finds it.

/// A planted fault.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plant {
    /// No fault.
    #[default]
    None,
    /// A HELLO with any cookie is accepted.
    AnyCookie,
    /// A lane gives way to an incoming connection without being asked for a sign of life.
    Unasked,
    /// Every refusal counts as a proof of death.
    AnyRefusal,
    /// No process is ever given up.
    NoDeath,
    /// A lane that ends gives back none of the bodies that were not read.
    NothingBack,
    /// A snapshot keeps the addresses of memory that messages have announced.
    OldAddresses,
    /// Pairs never end.
    NoEnd,
}
