//! Finds out which MPI the program is bound to, and tells the modules that keep a copy of some of its constants.

use crate::abi::{self, Abi, BindError};
use crate::{forward, token};

/// The ABI of the MPI that the program is bound to.
pub fn bind() -> Result<&'static Abi, BindError> {
    let abi = abi::bind()?;
    forward::note_unsupported(abi.err_unsupported);
    token::note(abi.family);
    Ok(abi)
}
