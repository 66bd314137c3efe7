//! The conformance suite: what every transport and every lane must do.
//!
//! A transport runs it by one line in its own folder, [`suite!`]: two instances of it are opened through the registry, one
//! dials a place in the other's contact record, and the lanes that the handshake makes go through every case. A lane that is
//! no transport's has [`lanes!`] alone, over a [`Factory`] of its own. The lanes ([`Caps`], `polled`) and their descriptors
//! tell which checks apply.
//!
//! [`Caps`]: wire::lane::Caps

pub mod handshake;
pub mod lane;
pub mod memory;
pub mod polled;
pub mod rig;

pub use memory::Mem;
pub use rig::Rig;

use wire::lane::Lane;

/// Makes connected lanes of one kind.
pub trait Factory {
    type Lane: Lane<Mem>;
    /// Both ends.
    fn pair(&mut self) -> (Self::Lane, Self::Lane);
    /// Breaks the connection under a lane.
    fn cut(&mut self, lane: &mut Self::Lane) {
        lane.cut();
    }
    /// Whether a sleeping process would be woken for this lane, the second of a pair, within `millis` milliseconds; `None` if a
    /// process cannot sleep on it.
    fn readable(&mut self, _lane: &mut Self::Lane, _millis: u16) -> Option<bool> {
        None
    }
    /// Puts bytes on the wire that no lane would write. Returns false if this kind has no wire.
    fn inject(&mut self, lane: &mut Self::Lane, bytes: &[u8]) -> bool;
}

/// The cases of `lane`, in a module of this name, with an expression that makes a [`Factory`].
macro_rules! lanes {
    ($name:ident, $make:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::conformance::cases!($make, lane: [
                order_and_sizes, written_in_place, written_in_place_or_not, bulk_among_frames, unwanted_and_vanished, no_room_then_writable,
                quiesce_and_resume, death_on_both_sides, last_words, nonsense_kills, a_sink_that_objects_kills, pollable,
                unread_is_given_back,
            ]);
        }
    };
}

/// The suite for the transport in this folder, with a function that connects to a place as a plain `ByteStream`, by which a
/// case can send any bytes. A suite with settings that differ from the default has a name of its own.
macro_rules! suite {
    ($folder:ident, $connect:expr) => {
        $crate::conformance::suite!(conformance, $folder, $connect, |_| ());
    };
    ($name:ident, $folder:ident, $connect:expr, $set:expr) => {
        $crate::conformance::suite!($name, $folder, $connect, $set, trust::Encrypt::Network);
    };
    ($name:ident, $folder:ident, $connect:expr, $set:expr, $encrypt:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn rig() -> $crate::conformance::Rig {
                $crate::conformance::Rig::open(&$crate::$folder::ABOUT, $set, $encrypt, $connect)
            }

            $crate::conformance::lanes!(lanes, rig());
            $crate::conformance::cases!(rig(), handshake: [
                a_record_leads_to_places, a_good_answer, no_is_said_with_its_reason, another_version_is_told_ours,
                foreign_bytes_get_no_answer, without_the_key_nothing_is_heard, what_was_recorded_gets_nobody_in,
                a_name_needs_its_key, a_greeting_in_pieces, nobody_there, one_who_gives_up, one_who_is_given_up,
                foreign_bytes_for_an_answer, many_at_once, a_probe_gets_through,
            ]);
            $crate::conformance::cases!(rig(), polled: [
                a_sleeper_is_woken_once, last_words_are_heard_however_close,
            ]);
        }
    };
}

macro_rules! cases {
    ($make:expr, $of:ident: [$($case:ident),* $(,)?]) => {
        $(#[test] fn $case() { $crate::conformance::$of::$case(&mut $make); })*
    };
}

pub(crate) use {cases, lanes, suite};
