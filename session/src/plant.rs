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
    /// A lane that was left gives back none of the bodies that were not read.
    LeftNothingBack,
    /// A lane that both sides have left is closed though the other side has not read all of it.
    ClosedUnread,
    /// Bodies that are held out of order keep addresses in the memory of a process that has moved.
    OldHeld,
    /// Any number of incoming connections is kept.
    ManyIncoming,
    /// Any number of strangers is kept.
    ManyStrangers,
    /// A process that goes away is judged as any other that has lost its lane.
    NeverAway,
    /// A handshake and a path serve whatever pair has the slot now.
    AnySerial,
}

/// A value of a snapshot that is forgotten when it is read, see [`crate::forget`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Forgotten {
    // Of the session.
    LastSerial,
    Strangers,
    Groups,
    Inters,
    Hosts,
    // Of each pair.
    Gone,
    Cookie,
    Contact,
    Process,
    IsStranger,
    Caller,
    Inbox,
    Talk,
    TalkLimit,
    InterCount,
    Wanted,
    ByeSaid,
    Backlogged,
    Met,
    AtPort,
    Lost,
    SeenAt,
    Away,
    Pinned,
}

impl Forgotten {
    #[doc(hidden)]
    pub const ALL: [Forgotten; 24] = [
        Forgotten::LastSerial,
        Forgotten::Strangers,
        Forgotten::Groups,
        Forgotten::Inters,
        Forgotten::Hosts,
        Forgotten::Gone,
        Forgotten::Cookie,
        Forgotten::Contact,
        Forgotten::Process,
        Forgotten::IsStranger,
        Forgotten::Caller,
        Forgotten::Inbox,
        Forgotten::Talk,
        Forgotten::TalkLimit,
        Forgotten::InterCount,
        Forgotten::Wanted,
        Forgotten::ByeSaid,
        Forgotten::Backlogged,
        Forgotten::Met,
        Forgotten::AtPort,
        Forgotten::Lost,
        Forgotten::SeenAt,
        Forgotten::Away,
        Forgotten::Pinned,
    ];
}
