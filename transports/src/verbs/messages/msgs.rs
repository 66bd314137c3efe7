//! MSG frames as messages of their own: they are no bytes of the stream, so nothing is gathered on one side and cut apart on the other.
//!
//! Part of [`super`]. Invariant: a message goes so only when all frames before it have gone; so it comes when the stream is between
//! two frames, and the order of all is that of the messages.

use super::{Held, Messages};
use crate::verbs::INLINE;
use crate::verbs::bodies::Numbers;
use base::bytes::Malformed;
use base::protocol::rdma::{FIRST_MSG, NEXT_MSG, SLOT, first_msg, message};
use std::io;
use wire::frame::{Header, Kind};
use wire::lane::{Fill, Sink};

/// The longest body that goes so.
const MOST: usize = SLOT - message::BYTES - first_msg::BYTES;

impl Messages {
    /// Sends a MSG whose body `fill` writes, if it fits in one message and there is room for that.
    pub(in crate::verbs) fn send_msg(&mut self, header: &Header, fill: &mut Fill<'_>) -> bool {
        let n = header.len as usize;
        if n > MOST {
            return false;
        }
        if !self.can_send() {
            self.pump();
            if !self.can_send() {
                return false;
            }
        }
        let numbers = Numbers { sequence: header.a, acknowledged: header.b };
        let advance = self.sent.tell(numbers);
        let (kind, at) = match advance {
            Some(_) => (NEXT_MSG, message::BYTES),
            None => (FIRST_MSG, message::BYTES + first_msg::BYTES),
        };
        let (mut number, mut len) = (u32::from(advance.unwrap_or(0)) << 16, at + n);
        if len <= INLINE as usize {
            fill(0, &mut self.short[at..len]);
            if advance.is_none() {
                numbers.write(&mut self.short[message::BYTES..at]);
            } else {
                let (left_out, left) = self.sent.leave_out(&mut self.short[at..len]);
                (number, len) = (number | left_out, at + left);
            }
            let head = self.head(kind, number);
            self.short[..message::BYTES].copy_from_slice(&head);
            self.post_short(len);
        } else {
            let head = self.head(kind, number);
            let Some((slot, to)) = self.take_slot() else {
                self.fail(io::ErrorKind::InvalidInput.into());
                return true;
            };
            to[..message::BYTES].copy_from_slice(&head);
            if advance.is_none() {
                numbers.write(&mut to[message::BYTES..at]);
            }
            fill(0, &mut to[at..len]);
            self.post_slot(slot, len);
        }
        self.credit -= 1;
        true
    }

    /// Whether such a MSG is the next that is to be handed out.
    pub(in crate::verbs) fn has_msg(&self) -> bool {
        self.inbox.front().is_some_and(|held| held.msg.is_some())
    }

    /// Delivers the MSGs that come before the next bytes of the stream: how many bytes. All headers have `common`.
    pub(in crate::verbs) fn deliver_msgs(&mut self, sink: &mut dyn Sink, common: &Header) -> Result<usize, Malformed> {
        let mut delivered = 0;
        while let Some(&Held { at, end, msg: Some(Numbers { sequence, acknowledged }), .. }) = self.inbox.front()
            && let Some(Held { slot, .. }) = self.inbox.pop_front()
        {
            let body = &self.link.pool().bytes(&slot)[at..end];
            let header = Header { len: body.len() as u32, kind: Kind::Msg, a: sequence, b: acknowledged, ..*common };
            let taken = sink.on_frame(&header, body);
            delivered += end;
            self.has_spent(slot);
            taken?;
        }
        if delivered > 0 {
            self.go_on();
        }
        Ok(delivered)
    }
}
