//! What a message consists of: the basic types of a datatype, in order.
//!
//! A tree, as small as what the program said to make the type: what repeats is held once, however often it does.

use super::{Kind, Representation};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Signature {
    body: Body,
    /// How many there are of each kind.
    counts: [usize; Kind::COUNT],
}

/// Nothing is an empty list; no other part is empty.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Run(Kind, usize),
    Repeat(Arc<Repeat>),
    List(Arc<[Body]>),
}

#[derive(Debug)]
pub(super) struct Repeat {
    pub count: usize,
    pub body: Body,
}

impl Signature {
    pub fn nothing() -> Signature {
        Signature { body: Body::List(Arc::new([])), counts: [0; Kind::COUNT] }
    }

    pub fn one(kind: Kind) -> Signature {
        let mut counts = [0; Kind::COUNT];
        counts[kind as usize] = 1;
        Signature { body: Body::Run(kind, 1), counts }
    }

    pub(super) fn body(&self) -> &Body {
        &self.body
    }

    fn is_nothing(&self) -> bool {
        matches!(&self.body, Body::List(parts) if parts.is_empty())
    }

    /// Several of it. `None`: more than an address space has.
    pub fn repeat(&self, count: usize) -> Option<Signature> {
        if count == 0 || self.is_nothing() {
            return Some(Signature::nothing());
        }
        let mut counts = self.counts;
        for n in &mut counts {
            *n = n.checked_mul(count)?;
        }
        let body = match &self.body {
            body if count == 1 => body.clone(),
            Body::Run(kind, n) => Body::Run(*kind, n * count),
            Body::Repeat(r) => {
                Body::Repeat(Arc::new(Repeat { count: r.count.checked_mul(count)?, body: r.body.clone() }))
            }
            body => Body::Repeat(Arc::new(Repeat { count, body: body.clone() })),
        };
        Some(Signature { body, counts })
    }

    /// One after the other. `None`: one of them is none, or more than an address space has.
    pub fn list(signatures: impl IntoIterator<Item = Option<Signature>>) -> Option<Signature> {
        let mut parts: Vec<Body> = Vec::new();
        let mut counts = [0usize; Kind::COUNT];
        for signature in signatures {
            let signature = signature?;
            for (n, more) in counts.iter_mut().zip(signature.counts) {
                *n = n.checked_add(more)?;
            }
            match (parts.last_mut(), signature.body) {
                (_, Body::List(none)) if none.is_empty() => {}
                (Some(Body::Run(before, n)), Body::Run(kind, more)) if *before == kind => *n += more,
                (_, body) => parts.push(body),
            }
        }
        let body = if parts.len() == 1 { parts.swap_remove(0) } else { Body::List(parts.into()) };
        Some(Signature { body, counts })
    }

    /// Packed bytes, as a job has them. `None`: more than an address space has.
    pub fn size(&self, of: Representation) -> Option<usize> {
        let bytes = |(kind, n): (Kind, usize)| n.checked_mul(kind.size(of));
        let mut all = Kind::ALL.into_iter().zip(self.counts).map(bytes);
        all.try_fold(0usize, |sum, n| sum.checked_add(n?)).filter(|s| isize::try_from(*s).is_ok())
    }

    /// A kind in it whose values cannot be converted.
    pub fn obstacle(&self, from: Representation, to: Representation) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| self.counts[*kind as usize] > 0 && !kind.converts(from, to))
    }
}
