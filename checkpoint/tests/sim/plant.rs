//! Faults that a test puts in, one for each thing that must not be forgotten.

use checkpoint::Message;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    None,
    /// A restarted process lacks a message that its image has.
    LateLost,
    /// One that is in the sender's image is not sent.
    ImageLost,
    /// A message that had reached the other side before a cut is sent once more.
    EarlyDoubled,
    /// A restarted program finds what there is.
    NotReplayed,
    /// An image is told to be written before it is on the disk.
    ToldBeforeSync,
    /// What a file has is not brought to the disk before it gets its name.
    NoSync,
    /// The record ends when a process hears of its line, whether others have or not.
    RecordEndsEarly,
    /// Receives from any source get whatever fits.
    NotLimited,
    /// Sends of a restarted program in standard mode wait for credit and receivers, as all others do.
    SendsWait,
    /// A restarted process finds what there is, though others still do again what they did.
    ReplayEndsEarly,
}

impl Plant {
    /// What a process hears instead.
    pub fn heard(self, bytes: Vec<u8>) -> Vec<u8> {
        match (self, Message::decode(&bytes)) {
            (Plant::RecordEndsEarly, Some(Message::Lines(mut report))) => {
                report.heard = report.lines.iter().map(|line| line.id).collect();
                Message::Lines(report).encode()
            }
            _ => bytes,
        }
    }
}
