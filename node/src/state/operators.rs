//! Where connections of operators go: to threads of their own, outside the node's lock.

use transports::control::ControlStream;

/// Takes the connections on which an operator has proved a key of the user.
#[derive(Default)]
pub(crate) struct Operators(pub(crate) Option<Box<dyn Fn(ControlStream) + Send>>);

impl Operators {
    pub(crate) fn take(&self, stream: ControlStream) {
        if let Some(take) = &self.0 {
            take(stream);
        }
    }
}
