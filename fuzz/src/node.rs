//! What `node` reads of messages beyond their envelopes: notes of types, and data of jobs that lay it out otherwise.

use crate::Target;
use crate::input::{Script, put_bytes};
use node::fuzzing::{convert, judge, note};
use node::{Kind, Representation, Signature, Types};

const KINDS: [Kind; 20] = [
    Kind::Byte,
    Kind::I16,
    Kind::I32,
    Kind::I64,
    Kind::I128,
    Kind::U16,
    Kind::U32,
    Kind::U64,
    Kind::F16,
    Kind::F32,
    Kind::F64,
    Kind::F128,
    Kind::Long,
    Kind::UnsignedLong,
    Kind::Address,
    Kind::Wchar,
    Kind::Bool,
    Kind::Integer,
    Kind::Real,
    Kind::LongDouble,
];

/// The types of a receive, by number.
fn types(which: u8) -> Types {
    let here = Representation::here();
    let named = |name, kinds: &[Kind]| Types::named(name, kinds, here);
    let (int, pair) = (named("MPI_INT", &[Kind::I32]), named("MPI_DOUBLE_INT", &[Kind::F64, Kind::I32]));
    let all = match which % 6 {
        0 => Some(int),
        1 => pair.repeat(3),
        2 => Types::list([int.repeat(2), pair.repeat(5), Some(named("MPI_C_DOUBLE_COMPLEX", &[Kind::F64; 2]))]),
        3 => Some(Types::nothing()),
        4 => Some(Types::unknown(8)),
        _ => Types::list([pair.repeat(2), int.repeat(1000)]).and_then(|one| one.repeat(1 << 20)),
    };
    all.unwrap_or_else(Types::nothing)
}

/// A representation that a job may name: mostly a good one.
fn representation(s: &mut Script<'_>) -> Representation {
    let number = u32::from(s.short()) | u32::from(s.short()) << 16;
    let known = Representation::from_number(number);
    assert!(known.is_none_or(|one| one.number() == number));
    known.unwrap_or_else(Representation::here)
}

fn judged(input: &[u8]) {
    let mut s = Script(input);
    let (types, count, whole) = (types(s.byte()), s.number(), s.byte());
    let of = representation(&mut s);
    let whole = (whole & 1 == 1).then_some(u64::from(whole));
    let count = usize::try_from(count).unwrap_or(usize::MAX) % (1 << 16);
    if let Some(wrong) = judge(&types, count, of, s.0, whole) {
        // Users see these texts.
        assert!([&wrong.sent, &wrong.received].iter().all(|text| text.bytes().all(|b| (b' '..=b'~').contains(&b))));
        assert!(wrong.differ || wrong.whole.is_some());
    }
    // The same types fit.
    if of == Representation::here() {
        assert_eq!(judge(&types, count, of, &note(&types, count), None), None);
    }
}

/// The notes of `MPI_CONNECT_CHECK=types`, compared with the types of a receive.
pub const NOTE: Target = Target {
    run: judged,
    seeds: || {
        let number = Representation::here().number().to_le_bytes();
        let one = |which: u8, count: u8, of: u8| {
            [&[which, count, of][..], &number, &note(&types(of), usize::from(count) + 1)].concat()
        };
        (0..6).flat_map(|which| [one(which, 3, which), one(which, 2, 1), one(which, 0, 5)]).collect()
    },
    longest: 600,
    memory: 64 << 10,
};

fn converted(input: &[u8]) {
    let mut s = Script(input);
    let from = representation(&mut s);
    let to = representation(&mut s);
    let made = s.bytes();
    let parts = made.chunks(2).map(|part| {
        let count = usize::from(*part.last().unwrap_or(&0)) % 40;
        let one = Signature::one(KINDS[usize::from(part[0]) % KINDS.len()]);
        if part[0] < 128 {
            one.repeat(count)
        } else {
            Signature::list([one.repeat(2), Some(one)]).and_then(|two| two.repeat(count))
        }
    });
    let Some(signature) = Signature::list(parts.collect::<Vec<_>>()) else { return };
    if signature.obstacle(from, to).is_some() {
        // The receive is refused.
        return;
    }
    let (Some(ours), Some(theirs)) = (signature.size(to), signature.size(from)) else { return };
    let mut out = 0;
    let bytes = convert(&signature, from, to, s.0, |piece| out += piece.len());
    assert!(bytes == out as u64 && out <= ours, "more than the buffer has");
    if s.0.len() >= theirs {
        assert_eq!(out, ours, "all of it came");
    }
    // Nothing is lost on the way to another layout of the same sizes.
    if from == to {
        let mut same = Vec::new();
        convert(&signature, from, to, s.0, |piece| same.extend_from_slice(piece));
        assert!(same.len() <= s.0.len());
    }
}

/// Data of a job with another representation.
pub const CONVERT: Target = Target {
    run: converted,
    seeds: || {
        let here = Representation::here();
        let others = [here, here.with_fortran(8, 8)].map(|one| one.number());
        let mut all = Vec::new();
        for from in others.into_iter().chain(others.map(|number| number ^ base::protocol::representation::BIG_ENDIAN)) {
            for kinds in [&[1u8, 3, 2, 5][..], &[9, 2, 10, 2, 130, 2], &[17, 4, 18, 4, 12, 1, 16, 3]] {
                let mut one = [from.to_le_bytes(), here.number().to_le_bytes()].concat();
                put_bytes(&mut one, kinds);
                one.extend((0..100u8).map(|n| n.wrapping_mul(29)));
                all.push(one);
            }
        }
        all
    },
    longest: 400,
    memory: 256 << 10,
};
