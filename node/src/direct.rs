//! Sends that are over with the call: small ones whose turn it is at once. They need no operation.
//!
//! Part of the core. Invariant: nothing is overtaken by them; the engine says when that is so.

use crate::core::Core;
use crate::memory::Layout;
use crate::{InterId, Mode};

impl Core {
    /// A send in standard mode, if it can leave now, or be copied, and is complete with that. `false`: nothing has changed,
    /// and [`Core::isend`] is the way.
    pub fn send_now(&mut self, inter: InterId, dest: u32, tag: i64, data: &Layout) -> bool {
        let (ctx, size) = (self.ctx(inter), data.bytes());
        let Some((peer, head)) = self.engine.start_eager(ctx, dest, tag, size, Mode::Standard) else { return false };
        let i = peer.0 as usize;
        let mut body = head.with_room(size as usize);
        data.read(0, size as usize, &mut body);
        let pair = &mut self.pairs[i];
        pair.path.send(body);
        if pair.lane.is_none() {
            self.timed.insert(i);
        }
        self.write(i);
        true
    }
}
