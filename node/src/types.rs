//! `MPI_CONNECT_CHECK=types`: the types of a message travel with it as a note, and the receiver compares them with its
//! own.
//!
//! Two types are equal if their values have the same meaning and the same size in the sender's representation. So
//! `MPI_INT` and `MPI_INTEGER` are equal if they have the same size. A note is small however irregular a datatype is:
//! it has the number of values, a hash of their types in order, and the types as text, which may be abbreviated.
//! Invariant: the hash of a part that repeats is computed once, and not for each repetition.

use crate::convert::{Kind, Representation};
use base::bytes::{Malformed, Put, Take};
use base::protocol::message::note::{self as numbers, BASE, MODULUS};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The meaning of a value, as far as MPI's rules for type matching tell types apart (MPI 4.1, section 3.3.1).
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

/// The type of one value.
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

    /// The code of a type, which goes into the hash. Types with the same code match.
    fn code(self, of: Representation) -> u64 {
        let parts = if matches!(self.class, Class::Complex | Class::LongComplex) { 2 } else { 1 };
        (self.class as u64) << 8 | (parts * self.kind.size(of)) as u64
    }
}

/// The meaning of the values of an MPI type.
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

/// The name for [`Types::named`] of a type that `MPI_Type_create_f90_integer` made.
pub const F90_INTEGER: &str = "MPI_Type_create_f90_integer";
/// The name for [`Types::named`] of a type that `MPI_Type_create_f90_real` made.
pub const F90_REAL: &str = "MPI_Type_create_f90_real";
/// The name for [`Types::named`] of a type that `MPI_Type_create_f90_complex` made.
pub const F90_COMPLEX: &str = "MPI_Type_create_f90_complex";

/// The types of the values of a datatype, in order.
#[derive(Clone, Debug)]
pub struct Types {
    body: Body,
    /// The number of values.
    len: u64,
    /// Their size in bytes in this job, without gaps.
    bytes: usize,
    /// Some values are unknown or may have any type (`MPI_PACKED`), so nothing is compared.
    any: bool,
}

/// A tree of types, in which a part that repeats is stored once.
#[derive(Clone, Debug)]
enum Body {
    Run(Basic, u64),
    Repeat(Arc<Types>, u64),
    List(Arc<[Types]>),
}

impl Types {
    /// The types of a datatype without values.
    pub fn nothing() -> Types {
        Types { body: Body::List(Arc::new([])), len: 0, bytes: 0, any: false }
    }

    /// The types of a predefined datatype with this name. `kinds` are the basic types of its values; a complex number
    /// has two. `here` is the representation of this job.
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
            // Complex numbers, and Fortran's pairs of them such as MPI_2COMPLEX.
            _ if class(name, kinds[0]) == Class::Complex || class(name, kinds[0]) == Class::LongComplex => {
                let name = if kinds.len() == 2 { name } else { plain_name(kinds[0], true) };
                kinds.iter().step_by(2).map(|kind| Basic::of(name, *kind)).collect()
            }
            _ => kinds.iter().map(|kind| Basic::of(plain_name(*kind, false), *kind)).collect(),
        };
        Types::list(all.into_iter().map(|basic| Some(single(basic)))).unwrap_or_else(|| Types::unknown(bytes))
    }

    /// Values of unknown types, which match all types.
    pub fn unknown(bytes: usize) -> Types {
        Types { any: true, bytes, ..Types::nothing() }
    }

    /// The size of the values in bytes in this job, without gaps.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// These types `count` times, one after the other. `None`: more bytes than an address space has.
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

    /// These types one after the other. `None`: one of them is `None`, or they have more bytes than an address space.
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

    /// The hash of the types of the first `n` values.
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

    /// Appends the types as text for the user. Beyond [`TEXT`] bytes, it is abbreviated.
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

/// The MPI name of a part of a pair type such as `MPI_DOUBLE_INT`.
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

/// A text longer than this, in bytes, is abbreviated.
const TEXT: usize = 120;
/// The most bytes of the text in a note.
const MOST_TEXT: usize = 320;

/// A polynomial hash of a sequence of types, modulo 2^61 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hash {
    value: u64,
    /// The power of the base by which the hash of what follows is multiplied.
    power: u64,
}

/// The product of two numbers modulo 2^61 - 1.
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

    /// The hash of this sequence with `next` behind it.
    fn then(self, next: Hash) -> Hash {
        let sum = self.value + multiply(self.power, next.value);
        let value = if sum >= MODULUS { sum - MODULUS } else { sum };
        Hash { value, power: multiply(self.power, next.power) }
    }

    /// The hash of this sequence repeated `n` times.
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

/// The types of one element of a datatype, with their hash and text, which are computed once.
#[derive(Debug)]
pub struct Element {
    types: Types,
    here: Representation,
    hash: Hash,
    /// The types as text for the user: the element consists of `text`, `times` times.
    text: String,
    times: u64,
}

impl Element {
    /// An element with these types. `here` is the representation of this job.
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

/// The types as text in parentheses, cut off after [`MOST_TEXT`] bytes.
fn in_brackets(types: &Types) -> String {
    let mut out = String::from("(");
    types.write(&mut out);
    out.push(')');
    let end = (0..=MOST_TEXT.min(out.len())).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
    out.truncate(end);
    out
}

/// The types of a user buffer: a number of elements of a datatype.
#[derive(Clone, Debug)]
pub struct Signed {
    element: Arc<Element>,
    count: u64,
    /// The representation in which the sizes of the types are compared: the sender's.
    of: Representation,
}

/// The note of a sender: the types of its message.
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
        // The text is printed on a terminal.
        let plain = text.bytes().all(|b| (b' '..=b'~').contains(&b));
        if plain { Ok(Note { any, len, hash, first, times, text }) } else { Err(Malformed) }
    }
}

/// The text for `times` times `text`, which are `len` values.
fn readable(text: &str, times: u64, len: u64) -> String {
    match (len, times) {
        (0, _) => "nothing".into(),
        (_, 1) if text.starts_with('(') => text[1..].strip_suffix(')').unwrap_or(&text[1..]).into(),
        _ => format!("{text} x {times}"),
    }
}

impl Signed {
    /// The types of `count` elements.
    pub fn new(element: Arc<Element>, count: usize) -> Signed {
        Signed { count: count as u64, of: element.here, element }
    }

    /// The same types with their sizes in a job of this representation.
    pub(crate) fn seen_by(&self, of: Representation) -> Signed {
        Signed { of, ..self.clone() }
    }

    fn len(&self) -> u64 {
        self.element.types.len.saturating_mul(self.count)
    }

    fn text(&self) -> String {
        readable(&self.element.text, self.element.times.saturating_mul(self.count), self.len())
    }

    /// The note that travels with a message of these types.
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

    /// Compares the types of a message, given by its note, with these types of its receive. `whole` is the size of a
    /// message that is longer than the buffer. `None`: the message fits, or its types are unknown.
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

    /// The hash of the types of the first `n` values.
    fn beginning(&self, n: u64) -> u64 {
        let Element { types, hash, here, .. } = &*self.element;
        let hash = if *here == self.of { *hash } else { types.hash(self.of) };
        let (whole, rest) = (n / types.len, n % types.len);
        let begun = if rest > 0 { types.beginning(rest, self.of) } else { Hash::NONE };
        hash.times(whole).then(begun).value
    }
}

/// Why a message does not fit its receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The types of the message, as text for the user.
    pub sent: String,
    /// The types of the receive, as text for the user.
    pub received: String,
    /// The size in bytes of a message that is longer than the buffer.
    pub whole: Option<u64>,
    /// Whether the types differ.
    pub differ: bool,
}

/// The number of the next report, and the last reports. Only the last ones are kept: a report is asked for soon after
/// its outcome.
static WRONG: Mutex<(u64, VecDeque<Wrong>)> = Mutex::new((0, VecDeque::new()));
const MOST_WRONG: usize = 1024;

impl Wrong {
    /// Keeps a report, and returns the number by which [`Wrong::by_number`] finds it.
    pub(crate) fn keep(self) -> u64 {
        let (next, kept) = &mut *WRONG.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MOST_WRONG {
            kept.pop_front();
        }
        kept.push_back(self);
        *next += 1;
        *next - 1
    }

    /// The report that [`engine::Outcome::Wrong`] names by its number. `None`: there have been more than 1,024 since.
    pub fn by_number(why: u64) -> Option<Wrong> {
        let (next, kept) = &*WRONG.lock().unwrap_or_else(PoisonError::into_inner);
        let first = next - kept.len() as u64;
        kept.get(usize::try_from(why.checked_sub(first)?).ok()?).cloned()
    }
}

#[cfg(test)]
#[path = "types_tests.rs"]
mod tests;
