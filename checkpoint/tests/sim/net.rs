//! The channels between the processes: messages keep their order, and so do pieces of bulk. A seed brings them when it likes.

use crate::rng::Rng;
use std::collections::VecDeque;

/// A piece of a long message: the receive, the offset, and the bytes.
pub type Bulk = (u64, u64, Vec<u8>);

#[derive(Default)]
struct Channel {
    messages: VecDeque<Vec<u8>>,
    bulk: VecDeque<Bulk>,
    listed: bool,
    /// It brings something once in so many times.
    slow: u64,
}

/// What a channel brings.
pub enum Parcel {
    Messages(Vec<Vec<u8>>),
    Bulk(Bulk),
}

pub struct Net {
    n: usize,
    channels: Vec<Channel>,
    /// Those that may have something.
    active: Vec<usize>,
    /// The most messages that come at once.
    batch: usize,
}

impl Net {
    pub fn new(n: usize, slow: &[(usize, u64)], batch: usize) -> Net {
        let mut channels: Vec<Channel> = (0..n * n).map(|_| Channel { slow: 1, ..Channel::default() }).collect();
        slow.iter().for_each(|(at, times)| channels[*at].slow = *times);
        Net { n, channels, active: Vec::new(), batch }
    }

    fn channel(&mut self, from: usize, to: usize) -> &mut Channel {
        let at = from * self.n + to;
        let channel = &mut self.channels[at];
        if !std::mem::replace(&mut channel.listed, true) {
            self.active.push(at);
        }
        channel
    }

    pub fn send(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        self.channel(from, to).messages.push_back(bytes);
    }

    pub fn send_bulk(&mut self, from: usize, to: usize, bulk: Bulk) {
        self.channel(from, to).bulk.push_back(bulk);
    }

    pub fn is_empty(&self) -> bool {
        self.active.iter().all(|at| self.channels[*at].messages.is_empty() && self.channels[*at].bulk.is_empty())
    }

    /// Something that comes now, from and to these processes. Some messages may come at once.
    pub fn bring(&mut self, rng: &mut Rng) -> Option<(usize, usize, Parcel)> {
        while !self.active.is_empty() {
            let place = rng.index(self.active.len());
            let at = self.active[place];
            let channel = &mut self.channels[at];
            let has = (!channel.messages.is_empty(), !channel.bulk.is_empty());
            if has == (false, false) {
                channel.listed = false;
                self.active.swap_remove(place);
                continue;
            }
            if !rng.one_in(channel.slow) {
                return None;
            }
            let (from, to) = (at / self.n, at % self.n);
            if has.1 && (!has.0 || rng.one_in(2)) {
                return channel.bulk.pop_front().map(|bulk| (from, to, Parcel::Bulk(bulk)));
            }
            let some = channel.messages.len().min(1 + rng.index(self.batch));
            return Some((from, to, Parcel::Messages(channel.messages.drain(..some).collect())));
        }
        None
    }

    /// A process is killed. Of what it has sent, some is lost.
    pub fn killed(&mut self, who: usize, rng: &mut Rng) {
        for other in 0..self.n {
            let back = &mut self.channels[other * self.n + who];
            back.messages.clear();
            back.bulk.clear();
            let out = &mut self.channels[who * self.n + other];
            let left = rng.index(out.messages.len() + 1);
            out.messages.truncate(left);
            out.bulk.clear();
        }
    }
}
