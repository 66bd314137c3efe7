//! Finds out which MPI the program is bound to, and tells it to those who keep a part of it at hand.

use crate::abi::{self, Abi, BindError};
use crate::{forward, token};

pub fn bind() -> Result<&'static Abi, BindError> {
    let abi = abi::bind()?;
    forward::note_unsupported(abi.err_unsupported);
    token::note(abi.family);
    Ok(abi)
}
