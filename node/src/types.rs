//! `MPI_CONNECT_CHECK=types`: the types of a message travel with it as a note, and the receiver compares.
//!
//! Types are compared by what their values are and how large they are where the message comes from, so `MPI_INT` and
//! `MPI_INTEGER` are the same where they are as large. A note is small however irregular a datatype is: it says how many
//! values there are, a hash of their types in order, and the types as a user reads them, perhaps abbreviated. Invariant:
//! the hash of a part of a sequence is found without walking through all of it, as often as something in it repeats.

use crate::convert::{Kind, Representation};
use base::bytes::{Malformed, Put, Take};
use base::protocol::message::note::{self as numbers, BASE, MODULUS};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// What a value means, as far as MPI tells types apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Class {
    Byte = numbers::BYTE,
    Character = numbers::CHARACTER,
    Signed = numbers::SIGNED,
    Unsigned = numbers::UNSIGNED,
    Float = numbers::FLOAT,
    Brain = numbers::BRAIN_FLOAT,
    LongDouble = numbers::LONG_DOUBLE,
    Complex = numbers::COMPLEX,
    LongComplex = numbers::LONG_DOUBLE_COMPLEX,
    Logical = numbers::LOGICAL,
    Wide = numbers::WIDE_CHARACTER,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Basic {
    name: &'static str,
    class: Class,
    kind: Kind,
}

impl Basic {
    fn of(name: &'static str, kind: Kind) -> Basic {
        Basic { name, class: class(name, kind), kind }
    }

    /// Two with the same are the same to MPI.
    fn code(self, of: Representation) -> u64 {
        let parts = if matches!(self.class, Class::Complex | Class::LongComplex) { 2 } else { 1 };
        (self.class as u64) << 8 | (parts * self.kind.size(of)) as u64
    }
}

fn class(name: &str, kind: Kind) -> Class {
    let is = |part| name.contains(part);
    match kind {
        Kind::LongDouble if is("COMPLEX") => Class::LongComplex,
        Kind::LongDouble => Class::LongDouble,
        _ if is("COMPLEX") || is("f90_complex") => Class::Complex,
        _ if is("LOGICAL") || kind == Kind::Bool => Class::Logical,
        _ if is("BF") => Class::Brain,
        Kind::Wchar => Class::Wide,
        Kind::F16 | Kind::F32 | Kind::F64 | Kind::F128 | Kind::Real => Class::Float,
        Kind::U16 | Kind::U32 | Kind::U64 | Kind::UnsignedLong => Class::Unsigned,
        Kind::Byte => match name {
            "MPI_CHAR" | "MPI_CHARACTER" => Class::Character,
            "MPI_UNSIGNED_CHAR" | "MPI_UINT8_T" => Class::Unsigned,
            "MPI_SIGNED_CHAR" | "MPI_INT8_T" | "MPI_INTEGER1" | F90_INTEGER => Class::Signed,
            _ => Class::Byte,
        },
        _ => Class::Signed,
    }
}

pub const F90_INTEGER: &str = "MPI_Type_create_f90_integer";
pub const F90_REAL: &str = "MPI_Type_create_f90_real";
pub const F90_COMPLEX: &str = "MPI_Type_create_f90_complex";

/// What the values of a type are, in order.
#[derive(Clone, Debug)]
pub struct Types {
    body: Body,
    /// How many there are.
    len: u64,
    /// Packed, here.
    bytes: usize,
    /// Some are not known or may be anything (`MPI_PACKED`): nothing is compared.
    any: bool,
}

#[derive(Clone, Debug)]
enum Body {
    Run(Basic, u64),
    Repeat(Arc<Types>, u64),
    List(Arc<[Types]>),
}

impl Types {
    pub fn nothing() -> Types {
        Types { body: Body::List(Arc::new([])), len: 0, bytes: 0, any: false }
    }

    /// A type that MPI has made, of so many values of these kinds.
    pub fn named(name: &'static str, kinds: &[Kind], here: Representation) -> Types {
        let single = |basic: Basic| Types {
            body: Body::Run(basic, 1),
            len: 1,
            bytes: basic.code(here) as u8 as usize,
            any: false,
        };
        let bytes = kinds.iter().map(|kind| kind.size(here)).sum();
        if name == "MPI_PACKED" {
            return Types::unknown(bytes);
        }
        let all: Vec<Basic> = match kinds {
            [kind] => vec![Basic::of(name, *kind)],
            // Fortran's pairs of complex numbers, and those numbers.
            _ if class(name, kinds[0]) == Class::Complex || class(name, kinds[0]) == Class::LongComplex => {
                let name = if kinds.len() == 2 { name } else { plain_name(kinds[0], true) };
                kinds.iter().step_by(2).map(|kind| Basic::of(name, *kind)).collect()
            }
            _ => kinds.iter().map(|kind| Basic::of(plain_name(*kind, false), *kind)).collect(),
        };
        Types::list(all.into_iter().map(|basic| Some(single(basic)))).unwrap_or_else(|| Types::unknown(bytes))
    }

    /// What fits to everything.
    pub fn unknown(bytes: usize) -> Types {
        Types { any: true, bytes, ..Types::nothing() }
    }

    /// Packed bytes, here.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// Several of it. `None`: more than an address space has.
    pub fn repeat(&self, count: usize) -> Option<Types> {
        let n = count as u64;
        let body = match &self.body {
            _ if count == 0 || self.len == 0 => Body::List(Arc::new([])),
            body if count == 1 => body.clone(),
            Body::Run(basic, of) => Body::Run(*basic, of.checked_mul(n)?),
            Body::Repeat(one, of) => Body::Repeat(one.clone(), of.checked_mul(n)?),
            Body::List(_) => Body::Repeat(Arc::new(self.clone()), n),
        };
        Some(Types { body, len: self.len.checked_mul(n)?, bytes: self.bytes.checked_mul(count)?, any: self.any })
    }

    /// One after the other. `None`: one of them is none, or more than an address space has.
    pub fn list(all: impl IntoIterator<Item = Option<Types>>) -> Option<Types> {
        let mut parts: Vec<Types> = Vec::new();
        let (mut len, mut bytes, mut any) = (0u64, 0usize, false);
        for types in all {
            let types = types?;
            len = len.checked_add(types.len)?;
            bytes = bytes.checked_add(types.bytes)?;
            any |= types.any;
            match (parts.last_mut().map(|last| (&mut last.body, &mut last.len)), &types.body) {
                _ if types.len == 0 => {}
                (Some((Body::Run(before, n), of)), Body::Run(basic, more)) if before == basic => {
                    *n += more;
                    *of += more;
                }
                _ => parts.push(types),
            }
        }
        let body = if parts.len() == 1 { parts.swap_remove(0).body } else { Body::List(parts.into()) };
        Some(Types { body, len, bytes, any })
    }

    fn hash(&self, of: Representation) -> Hash {
        self.beginning(self.len, of)
    }

    /// Of the first `n`, at most all.
    fn beginning(&self, n: u64, of: Representation) -> Hash {
        match &self.body {
            Body::Run(basic, all) => Hash::of(basic.code(of)).times(n.min(*all)),
            Body::Repeat(one, _) => {
                let (whole, rest) = (n / one.len, n % one.len);
                let begun = if rest > 0 { one.beginning(rest, of) } else { Hash::NONE };
                if whole > 0 { one.hash(of).times(whole).then(begun) } else { begun }
            }
            Body::List(parts) => {
                let (mut hash, mut left) = (Hash::NONE, n);
                for part in parts.iter().take_while(|_| left > 0).collect::<Vec<_>>() {
                    hash = hash.then(part.beginning(left.min(part.len), of));
                    left = left.saturating_sub(part.len);
                }
                hash
            }
        }
    }

    fn first(&self) -> Option<Basic> {
        match &self.body {
            Body::Run(basic, _) => Some(*basic),
            Body::Repeat(one, _) => one.first(),
            Body::List(parts) => parts.first()?.first(),
        }
    }

    /// Writes it down as a user reads it, as far as it takes no more than [`TEXT`] bytes.
    fn write(&self, out: &mut String) {
        match &self.body {
            _ if out.len() > TEXT => {}
            Body::Run(basic, n) => *out += &format!("{} x {n}", basic.name),
            Body::Repeat(one, n) => {
                out.push('(');
                one.write(out);
                *out += &format!(") x {n}");
            }
            Body::List(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    if out.len() > TEXT {
                        *out += ", ...";
                        return;
                    }
                    *out += if i > 0 { ", " } else { "" };
                    part.write(out);
                }
            }
        }
    }
}

/// How C or Fortran calls a part of a pair.
fn plain_name(kind: Kind, complex: bool) -> &'static str {
    match kind {
        Kind::Real if complex => "MPI_COMPLEX",
        _ if complex => "MPI_DOUBLE_COMPLEX",
        Kind::I16 => "MPI_SHORT",
        Kind::I32 => "MPI_INT",
        Kind::Long => "MPI_LONG",
        Kind::F32 => "MPI_FLOAT",
        Kind::F64 => "MPI_DOUBLE",
        Kind::LongDouble => "MPI_LONG_DOUBLE",
        Kind::Integer => "MPI_INTEGER",
        Kind::Real => "MPI_REAL",
        _ => "MPI_BYTE",
    }
}

/// Where abbreviation begins, in bytes.
const TEXT: usize = 120;
/// Most bytes of the text in a note.
const MOST_TEXT: usize = 320;

/// A polynomial over the types of a sequence, modulo 2^61 - 1: its value, and the power that what follows is multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hash {
    value: u64,
    power: u64,
}

fn multiply(a: u64, b: u64) -> u64 {
    let whole = u128::from(a) * u128::from(b);
    let sum = (whole as u64 & MODULUS) + (whole >> 61) as u64;
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

impl Hash {
    const NONE: Hash = Hash { value: 0, power: 1 };

    fn of(code: u64) -> Hash {
        Hash { value: code, power: BASE }
    }

    fn then(self, next: Hash) -> Hash {
        let sum = self.value + multiply(self.power, next.value);
        let value = if sum >= MODULUS { sum - MODULUS } else { sum };
        Hash { value, power: multiply(self.power, next.power) }
    }

    /// One after the other, all the same.
    fn times(self, mut n: u64) -> Hash {
        let (mut out, mut each) = (Hash::NONE, self);
        while n > 0 {
            if n & 1 == 1 {
                out = out.then(each);
            }
            n >>= 1;
            if n > 0 {
                each = each.then(each);
            }
        }
        out
    }
}

/// One element of a datatype, with what is found out of it once.
#[derive(Debug)]
pub struct Element {
    types: Types,
    here: Representation,
    hash: Hash,
    /// The element as a user reads it, and how many of that there are in it.
    text: String,
    times: u64,
}

impl Element {
    pub fn new(types: Types, here: Representation) -> Element {
        let (text, times) = match &types.body {
            Body::Run(basic, n) => (basic.name.to_owned(), *n),
            _ if types.any => ("what is not known or MPI_PACKED".to_owned(), 1),
            Body::Repeat(one, n) => (in_brackets(one), *n),
            Body::List(_) => (in_brackets(&types), 1),
        };
        Element { hash: types.hash(here), here, types, text, times }
    }
}

fn in_brackets(types: &Types) -> String {
    let mut out = String::from("(");
    types.write(&mut out);
    out.push(')');
    let end = (0..=MOST_TEXT.min(out.len())).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
    out.truncate(end);
    out
}

/// The types of a buffer: so many elements, seen as a job has them that lays out data like this.
#[derive(Clone, Debug)]
pub struct Signed {
    element: Arc<Element>,
    count: u64,
    of: Representation,
}

/// What the sender says.
#[derive(Debug)]
struct Note<'a> {
    any: bool,
    len: u64,
    hash: u64,
    first: u64,
    times: u64,
    text: &'a str,
}

impl<'a> Note<'a> {
    fn decode(bytes: &'a [u8]) -> Result<Note<'a>, Malformed> {
        let mut t = Take(bytes);
        let any = t.u8()? != 0;
        let (len, hash, first, times) = (t.u64()?, t.u64()?, t.u64()?, t.u64()?);
        let text = std::str::from_utf8(t.rest()).map_err(|_| Malformed)?;
        // It goes to a terminal.
        let plain = text.bytes().all(|b| (b' '..=b'~').contains(&b));
        if plain { Ok(Note { any, len, hash, first, times, text }) } else { Err(Malformed) }
    }
}

fn readable(text: &str, times: u64, len: u64) -> String {
    match (len, times) {
        (0, _) => "nothing".into(),
        (_, 1) if text.starts_with('(') => text[1..].strip_suffix(')').unwrap_or(&text[1..]).into(),
        _ => format!("{text} x {times}"),
    }
}

impl Signed {
    pub fn new(element: Arc<Element>, count: usize) -> Signed {
        Signed { count: count as u64, of: element.here, element }
    }

    /// As a job has them that lays out data like this.
    pub(crate) fn seen_by(&self, of: Representation) -> Signed {
        Signed { of, ..self.clone() }
    }

    fn len(&self) -> u64 {
        self.element.types.len.saturating_mul(self.count)
    }

    fn text(&self) -> String {
        readable(&self.element.text, self.element.times.saturating_mul(self.count), self.len())
    }

    /// What travels with a message.
    pub(crate) fn note(&self) -> Vec<u8> {
        let Element { types, hash, text, times, here } = &*self.element;
        let mut out = Vec::with_capacity(40 + text.len());
        out.put_u8(types.any.into());
        out.put_u64(self.len());
        out.put_u64(hash.times(self.count).value);
        out.put_u64(types.first().map_or(0, |first| first.code(*here)));
        out.put_u64(times.saturating_mul(self.count));
        out.extend_from_slice(text.as_bytes());
        out
    }

    /// Whether a message with this note fits to a receive into this. `whole`: the message is longer than the buffer.
    pub(crate) fn judge(&self, note: &[u8], whole: Option<u64>) -> Option<Wrong> {
        let note = match Note::decode(note) {
            Ok(note) => note,
            Err(Malformed) => {
                base::log!(Error, "the types of a message cannot be read, and are not checked");
                return None;
            }
        };
        let types = &self.element.types;
        if note.any || types.any || note.len == 0 {
            return None;
        }
        let first = types.first().map(|first| first.code(self.of));
        let same = if note.len <= self.len() {
            self.beginning(note.len) == note.hash
        } else {
            whole.is_some() && first.is_none_or(|first| first == note.first)
        };
        let sent = readable(note.text, note.times, note.len);
        let wrong = Wrong { sent, received: self.text(), whole, differ: !same };
        (!same || whole.is_some()).then_some(wrong)
    }

    fn beginning(&self, n: u64) -> u64 {
        let Element { types, hash, here, .. } = &*self.element;
        let hash = if *here == self.of { *hash } else { types.hash(self.of) };
        let (whole, rest) = (n / types.len, n % types.len);
        let begun = if rest > 0 { types.beginning(rest, self.of) } else { Hash::NONE };
        hash.times(whole).then(begun).value
    }
}

/// Why a message does not fit to its receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The types of both, as a user reads them.
    pub sent: String,
    pub received: String,
    /// The message is longer than the buffer: so many bytes.
    pub whole: Option<u64>,
    /// The types differ.
    pub differ: bool,
}

/// The last ones, by number. Nobody asks for one late: an outcome is told when it is known.
static WRONG: Mutex<(u64, VecDeque<Wrong>)> = Mutex::new((0, VecDeque::new()));
const MOST_WRONG: usize = 1024;

impl Wrong {
    /// Keeps it for whoever tells the user.
    pub(crate) fn keep(self) -> u64 {
        let (next, kept) = &mut *WRONG.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MOST_WRONG {
            kept.pop_front();
        }
        kept.push_back(self);
        *next += 1;
        *next - 1
    }

    /// What [`engine::Outcome::Wrong`] means by its number.
    pub fn by_number(why: u64) -> Option<Wrong> {
        let (next, kept) = &*WRONG.lock().unwrap_or_else(PoisonError::into_inner);
        let first = next - kept.len() as u64;
        kept.get(usize::try_from(why.checked_sub(first)?).ok()?).cloned()
    }
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
