//! Sends that are over with the call: small ones whose turn it is at once. They need no operation.
//!
//! Part of the core. Invariant: nothing is overtaken by them; the engine says when that is so.

use crate::core::Core;
use crate::memory::{Buffers, Layout};
use crate::pair::Lane;
use crate::{InterId, Mode};
use engine::EagerHead;
use transports::lane::Lane as _;

impl Core {
    /// A send in standard mode, if it can leave now, or be copied, and is complete with that. `false`: nothing has changed,
    /// and [`Core::isend`] is the way.
    pub fn send_now(&mut self, inter: InterId, dest: u32, tag: i64, data: &Layout) -> bool {
        let (ctx, size) = (self.ctx(inter), data.bytes());
        let Some((peer, head)) = self.engine.start_eager(ctx, dest, tag, size, Mode::Standard) else { return false };
        let (i, size) = (peer.0 as usize, size as usize);
        let pair = &mut self.pairs[i];
        if let Some(Lane { lane, .. }) = &mut pair.lane {
            let mut fill = |to: &mut [u8]| {
                let (first, rest) = to.split_at_mut(EagerHead::BYTES);
                first.copy_from_slice(head.bytes());
                data.pack(0, rest);
            };
            if pair.path.send_now::<Buffers>(lane, EagerHead::BYTES + size, &mut fill) {
                lane.flush(&self.mem);
                return true;
            }
        }
        let mut body = pair.path.spare(EagerHead::BYTES + size);
        body.extend_from_slice(head.bytes());
        data.read(0, size, &mut body);
        pair.path.send(body);
        if pair.lane.is_none() {
            self.look_soon(i);
        }
        self.write(i);
        true
    }
}
