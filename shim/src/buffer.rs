//! The buffers that the program attaches for buffered sends.
//!
//! The MPI below copies its own buffered sends into them. A send to another job is copied into memory of the library,
//! and counted as if it were in the buffer. So a program whose buffer is as large as MPI demands never fails.

use crate::abi;
use crate::detached::{self, BufferOf};
use crate::failure::{Class, Failure};
use crate::inter::Inter;
use crate::request::{Peer, Request, Work};
use node::{Layout, Mode};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

struct Buffer {
    at: usize,
    size: u64,
}

static ATTACHED: LazyLock<Mutex<HashMap<BufferOf, Buffer>>> = LazyLock::new(Default::default);

fn attached() -> MutexGuard<'static, HashMap<BufferOf, Buffer>> {
    ATTACHED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Attaches a buffer. False: there is one already.
pub fn attach(of: BufferOf, at: usize, size: i64) -> bool {
    let mut attached = attached();
    let free = !attached.contains_key(&of);
    if free {
        attached.insert(of, Buffer { at, size: size.max(0) as u64 });
    }
    free
}

/// Detaches a buffer, and returns its address and size in bytes. `None`: there is none.
pub fn detach(of: BufferOf) -> Option<(usize, u64)> {
    attached().remove(&of).map(|buffer| (buffer.at, buffer.size))
}

/// Starts a buffered send, for which the program has no request.
pub fn send(
    inter: &Arc<Inter>,
    call: &'static str,
    dest: u32,
    tag: i64,
    data: &Layout,
    node: &node::Node,
) -> Result<(), Failure> {
    let attached = attached();
    // A buffer of the communicator takes precedence over that of the process.
    let found = [Some(inter.id), None].into_iter().find_map(|of| Some((of, attached.get(&of)?)));
    let (of, buffer) = found.ok_or_else(|| Failure::new(Class::Buffer, format!("{call}: no buffer is attached")))?;
    let abi = abi::get();
    let need = data.bytes() + abi.bsend_overhead as u64;
    let taken = detached::taken(of);
    // MPI_BUFFER_AUTOMATIC has no bounds; its constant is 0 for an MPI that does not know it.
    let has_bounds = buffer.at == 0 || buffer.at != abi.buffer_automatic;
    if need > buffer.size.saturating_sub(taken) && has_bounds {
        let size = buffer.size;
        let text = format!("{call}: {taken} of the {size} bytes attached are taken, and this message needs {need}");
        return Err(Failure::new(Class::Buffer, text));
    }
    let op = node.isend(inter.id, dest, tag, data.packed(), Mode::Standard);
    detached::keep(Request::new(inter, Work::Op(op), call, Peer::To(dest)), Some((of, need)));
    Ok(())
}
