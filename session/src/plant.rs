//! Faults that tests put in, to see that they are found: one for each invariant.

/// What is done wrong.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plant {
    #[default]
    None,
    /// Whoever comes is let in.
    AnyCookie,
    /// A lane gives way without being asked.
    Unasked,
    /// Every refusal is believed.
    AnyRefusal,
    /// Nobody is ever given up.
    NoDeath,
    /// A lane that ends gives nothing back.
    NothingBack,
    /// What was announced by where it lies in memory is, in a snapshot too.
    OldAddresses,
    /// Pairs never end.
    NoEnd,
}
