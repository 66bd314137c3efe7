//! The type signature of a datatype: its basic types, in order.
//!
//! A signature is a tree, about as small as the constructor calls that made the datatype: a part that repeats is stored
//! once.

use super::{Kind, Representation};
use std::sync::Arc;

/// MPI's type signature (MPI 4.1, section 5.1): the basic types of a datatype or of a message, in order.
#[derive(Clone, Debug)]
pub struct Signature {
    body: Body,
    /// The number of values of each basic type.
    counts: [usize; Kind::COUNT],
}

/// A tree of basic types. The empty signature is an empty list; no other part is empty.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Run(Kind, usize),
    Repeat(Arc<Repeat>),
    List(Arc<[Body]>),
}

/// A body several times.
#[derive(Debug)]
pub(super) struct Repeat {
    pub count: usize,
    pub body: Body,
}

impl Signature {
    /// The signature without any value.
    pub fn nothing() -> Signature {
        Signature { body: Body::List(Arc::new([])), counts: [0; Kind::COUNT] }
    }

    /// The signature of a single value.
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

    /// `count` of this signature, one after the other. `None`: more values than an address space has bytes.
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

    /// These signatures one after the other. `None`: one of them is `None`, or they have more values than an address
    /// space has bytes.
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

    /// The size of the data in bytes, without gaps, in a job with this representation. `None`: more than an address
    /// space has.
    pub fn size(&self, of: Representation) -> Option<usize> {
        let bytes = |(kind, n): (Kind, usize)| n.checked_mul(kind.size(of));
        let mut all = Kind::ALL.into_iter().zip(self.counts).map(bytes);
        all.try_fold(0usize, |sum, n| sum.checked_add(n?)).filter(|s| isize::try_from(*s).is_ok())
    }

    /// A basic type of the signature whose values cannot be converted between these representations, if there is one.
    pub fn obstacle(&self, from: Representation, to: Representation) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| self.counts[*kind as usize] > 0 && !kind.converts(from, to))
    }
}
