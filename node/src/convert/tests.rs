use super::{Converted, Kind, LongDouble, Representation, Signature};

/// x86-64's, whatever these tests run on.
fn ours() -> Representation {
    Representation::here().with_words(8, 8).with_wchar(4, true).with_long_double(LongDouble::X87(16)).with_fortran(4, 4)
}

fn windows() -> Representation {
    ours().with_words(4, 8).with_wchar(2, false).with_long_double(LongDouble::Double)
}

/// 32-bit, big-endian.
fn old() -> Representation {
    windows().swapped().with_words(4, 4).with_wchar(4, true)
}

fn all() -> [Representation; 5] {
    let integers = old().with_fortran(8, 8).with_bool(4);
    [ours(), windows(), old(), integers, ours().swapped().with_long_double(LongDouble::Quad)]
}

fn convert(s: &Signature, from: Representation, to: Representation, data: &[u8]) -> (Vec<u8>, Converted) {
    let mut out = Vec::new();
    let done = s.convert(from, to, data, |piece| out.extend_from_slice(piece));
    assert_eq!(done.bytes, out.len() as u64);
    (out, done)
}

fn run(kind: Kind, n: usize) -> Signature {
    Signature::one(kind).repeat(n).unwrap()
}

/// A small generator, so that runs repeat.
struct Rng(u64);

impl Rng {
    fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn roll(&mut self, below: usize) -> usize {
        (self.word() >> 33) as usize % below
    }
}

// ------------------------------------------------------------------------------------------------- representations

#[test]
fn a_representation_survives_the_wire() {
    for r in all() {
        assert_eq!(Representation::from_number(r.number()), Some(r));
    }
    // As the protocol's description says.
    let expected = if cfg!(target_endian = "big") { 0x2441_4881 } else { 0x2441_4880 };
    assert_eq!(ours().number(), expected);
}

#[test]
fn unknown_machines_are_refused() {
    let good = ours().number();
    for bit in [2, 3] {
        assert_eq!(Representation::from_number(good | 1 << bit), None);
    }
    for field in 1..8 {
        for value in [3, 9, 15] {
            assert_eq!(
                Representation::from_number(good & !(15 << (4 * field)) | value << (4 * field)),
                match value {
                    3 if field == 7 => Some(ours().with_long_double(LongDouble::Quad)),
                    _ => None,
                }
            );
        }
    }
    assert_eq!(Representation::from_number(0), None);
}

// ---------------------------------------------------------------------------------------------------- whole numbers

#[test]
fn a_long_grows_with_its_sign_and_shrinks_within_its_limits() {
    let little = |v: &[i64]| -> Vec<u8> { v.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let big = |v: &[i32]| -> Vec<u8> { v.iter().flat_map(|v| v.to_be_bytes()).collect() };
    if cfg!(target_endian = "big") {
        return;
    }
    let (small, large) = ([1, -2, i32::MAX, i32::MIN], [1, -2, i64::from(i32::MAX), i64::from(i32::MIN)]);
    let (out, done) = convert(&run(Kind::Long, 4), old(), ours(), &big(&small));
    assert_eq!((out, done.fits), (little(&large), true));
    let (out, done) = convert(&run(Kind::Long, 4), ours(), old(), &little(&large));
    assert_eq!((out, done.fits), (big(&small), true));
    // Beyond the limits: the nearest, and it is said.
    let (out, done) = convert(&run(Kind::Long, 3), ours(), old(), &little(&[1 << 31, -(1 << 31) - 1, 5]));
    assert_eq!((out, done.fits), (big(&[i32::MAX, i32::MIN, 5]), false));
    // Without a sign.
    let (out, done) = convert(&run(Kind::UnsignedLong, 1), old(), ours(), &[0xff; 4]);
    assert_eq!((out, done.fits), (little(&[0xffff_ffff]), true));
    let (out, done) = convert(&run(Kind::UnsignedLong, 1), ours(), windows(), &[0xff; 8]);
    assert_eq!((out, done.fits), (vec![0xff; 4], false));
    // A sign on one side only.
    let (out, done) = convert(&run(Kind::Wchar, 1), windows(), ours(), &[0xff, 0xff]);
    assert_eq!((out, done.fits), (vec![0xff, 0xff, 0, 0], true));
    let (out, done) = convert(&run(Kind::Wchar, 1), ours(), windows(), &[0xff; 4]);
    assert_eq!((out, done.fits), (vec![0, 0], false));
}

#[test]
fn equal_sizes_only_change_their_order() {
    let data: Vec<u8> = (1..=32).collect();
    for kind in [Kind::I16, Kind::U32, Kind::F64, Kind::I128, Kind::F128, Kind::Byte] {
        let size = kind.size(ours());
        let expected: Vec<u8> = data.chunks(size).flat_map(|v| v.iter().rev().copied()).collect();
        let (out, done) = convert(&run(kind, 32 / size), old(), ours(), &data);
        assert_eq!((out, done.fits), (expected, true), "{kind:?}");
    }
}

// ----------------------------------------------------------------------------------------------------------- floats

fn long_double(from: LongDouble, to: LongDouble, bits: u128) -> (u128, bool) {
    let of = |format| ours().with_long_double(format);
    let size = Kind::LongDouble.size(of(from));
    let (out, done) = convert(&Signature::one(Kind::LongDouble), of(from), of(to), &bits.to_le_bytes()[..size]);
    let mut bytes = [0; 16];
    bytes[..out.len()].copy_from_slice(&out);
    (u128::from_le_bytes(bytes), done.fits)
}

#[test]
fn long_doubles_between_formats() {
    use LongDouble::{Double, Quad, X87};
    if cfg!(target_endian = "big") {
        return;
    }
    // Pi as each format has it.
    let (double, x87) = (0x4009_21fb_5444_2d18, 0x4000_c90f_daa2_2168_c235);
    let quad = 0x4000_921f_b544_42d1_8469_898c_c517_01b8;
    assert_eq!(long_double(Quad, X87(16), quad), (x87, true));
    assert_eq!(long_double(Quad, Double, quad), (double, true));
    assert_eq!(long_double(X87(16), Double, x87), (double, true));
    assert_eq!(long_double(X87(12), X87(16), x87), (x87, true));
    // Wider formats hold it exactly.
    for bits in [double, 1 << 63 | double, 0, 1 << 63, 1, 0x000f_ffff_ffff_ffff, 0x7fef_ffff_ffff_ffff, 0x7ff0 << 48] {
        for wide in [X87(16), X87(12), Quad] {
            let (there, fits) = long_double(Double, wide, bits);
            assert!(fits);
            assert_eq!(long_double(wide, Double, there), (bits, true), "{bits:#x} by {wide:?}");
        }
    }
    assert_eq!(long_double(Double, X87(16), 1), (0x3bcd_8000_0000_0000_0000, true));
    assert_eq!(long_double(Double, Quad, 0x3ff0 << 48), (0x3fff << 112, true));
    // The least of the narrow format, and what rounds to it or to nothing.
    assert_eq!(long_double(X87(16), Double, 0x3bcd_8000_0000_0000_0000), (1, true));
    assert_eq!(long_double(X87(16), Double, 0x3bcc_8000_0000_0000_0000), (0, true));
    assert_eq!(long_double(X87(16), Double, 0x3bcc_8000_0000_0000_0001), (1, true));
    assert_eq!(long_double(X87(16), Double, 0x0001_8000_0000_0000_0000), (0, true));
    // The same of x87's own small numbers.
    assert_eq!(long_double(Quad, X87(16), 1), (0, true));
    assert_eq!(long_double(X87(16), Quad, 1), (long_double(X87(16), Quad, 1).0, true));
    assert_eq!(long_double(Quad, X87(16), long_double(X87(16), Quad, 1).0), (1, true));
    // Too large: the largest, and it is said.
    assert_eq!(long_double(X87(16), Double, 0x7ffe_8000_0000_0000_0000), (0x7fef_ffff_ffff_ffff, false));
    let most = 0x7ffe_ffff_ffff_ffff_ffff_ffff_ffff_ffff;
    assert_eq!(long_double(Quad, X87(16), most), (0x7ffe_ffff_ffff_ffff_ffff, false));
    // What is no number stays none.
    assert_eq!(long_double(Double, X87(16), 0x7ff0_0000_0000_0001), (0x7fff_c000_0000_0000_0000, true));
    assert_eq!(long_double(X87(16), Double, 0x7fff_8000_0000_0000_0000), (0x7ff0 << 48, true));
}

/// Every double is itself again after a way through a wider format, in either byte order.
#[test]
fn doubles_survive_any_wider_format() {
    let mut rng = Rng(3);
    let data: Vec<u8> = (0..20_000).flat_map(|_| rng.word().to_le_bytes()).collect();
    // What is no number keeps only that.
    let kept: Vec<u8> =
        data.chunks(8).filter(|v| !f64::from_le_bytes((*v).try_into().unwrap()).is_nan()).flatten().copied().collect();
    let s = run(Kind::LongDouble, kept.len() / 8);
    let narrow = ours().with_long_double(LongDouble::Double);
    for wide in [ours(), ours().with_long_double(LongDouble::Quad), all()[4]] {
        let (there, _) = convert(&s, narrow, wide, &kept);
        let (back, done) = convert(&s, wide, narrow, &there);
        assert!(done.fits && back == kept);
    }
}

#[test]
fn reals_of_two_sizes() {
    if cfg!(target_endian = "big") {
        return;
    }
    let wide = old().with_fortran(8, 8);
    let sent: Vec<u8> = [1.5f64, -0.1, 1e300, f64::NEG_INFINITY].iter().flat_map(|v| v.to_be_bytes()).collect();
    let (out, done) = convert(&run(Kind::Real, 4), wide, ours(), &sent);
    let got: Vec<f32> = out.chunks(4).map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect();
    assert_eq!((got, done.fits), (vec![1.5, -0.1, f32::MAX, f32::NEG_INFINITY], false));
    let (back, done) = convert(&run(Kind::Real, 1), ours(), wide, &1.5f32.to_le_bytes());
    assert_eq!((back, done.fits), (1.5f64.to_be_bytes().to_vec(), true));
}

#[test]
fn what_cannot_be_converted_is_known_beforehand() {
    let pairs = ours().with_long_double(LongDouble::Pair);
    let s = Signature::list([Some(run(Kind::Long, 3)), Some(run(Kind::LongDouble, 1))]).unwrap();
    assert_eq!(s.obstacle(pairs, ours()), Some(Kind::LongDouble));
    assert_eq!(s.obstacle(pairs, pairs.swapped()), None);
    assert_eq!(s.obstacle(ours().swapped(), ours()), Some(Kind::LongDouble));
    assert_eq!(s.obstacle(windows(), ours()), None);
    assert_eq!(run(Kind::Long, 3).obstacle(pairs, ours()), None);
    let data: Vec<u8> = (0..16).collect();
    let (out, _) = convert(&run(Kind::LongDouble, 1), pairs.swapped(), pairs, &data);
    assert_eq!(out, [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8]);
}

// ------------------------------------------------------------------------------------------------------- signatures

#[test]
fn what_repeats_is_held_once_and_sizes_are_each_sides_own() {
    let one = Signature::list([Some(run(Kind::F64, 1)), Some(run(Kind::Long, 2))]).unwrap();
    let many = one.repeat(1 << 30).unwrap().repeat(4).unwrap();
    assert_eq!(many.size(ours()), Some(24 << 32));
    assert_eq!(many.size(old()), Some(16 << 32));
    assert!(one.repeat(usize::MAX).is_none() && run(Kind::F64, usize::MAX / 2).size(ours()).is_none());
    assert_eq!(Signature::list([None, Some(one.clone())]).map(|_| ()), None);
    let none = Signature::list([Some(one.repeat(0).unwrap()), Some(Signature::nothing())]).unwrap();
    assert_eq!((none.size(old()), none.repeat(9).unwrap().size(old())), (Some(0), Some(0)));
}

/// A random signature, and its kinds one by one.
fn random(rng: &mut Rng, depth: u32) -> (Signature, Vec<Kind>) {
    let kind = |rng: &mut Rng| Kind::ALL[rng.roll(Kind::COUNT)];
    match rng.roll(if depth == 0 { 1 } else { 3 }) {
        0 => {
            let (kind, n) = (kind(rng), rng.roll(4));
            (run(kind, n), vec![kind; n])
        }
        1 => {
            let (s, kinds) = random(rng, depth - 1);
            let n = rng.roll(4);
            (s.repeat(n).unwrap(), kinds.repeat(n))
        }
        _ => {
            let parts: Vec<_> = (0..rng.roll(4)).map(|_| random(rng, depth - 1)).collect();
            let kinds = parts.iter().flat_map(|(_, kinds)| kinds.clone()).collect();
            (Signature::list(parts.into_iter().map(|(s, _)| Some(s))).unwrap(), kinds)
        }
    }
}

/// Any signature converts like its kinds one by one, wherever the message ends; and there and back is where it was,
/// if the values fit both.
#[test]
fn random_signatures_there_and_back() {
    let mut rng = Rng(11);
    for _ in 0..400 {
        let (s, kinds) = random(&mut rng, 4);
        for (from, to) in all().into_iter().flat_map(|from| all().map(|to| (from, to))) {
            if s.obstacle(from, to).is_some() {
                continue;
            }
            // Small numbers fit everywhere.
            let mut data = Vec::new();
            let mut ends = vec![(0, 0)];
            let mut expected = Vec::new();
            for kind in &kinds {
                let bits = 1 + rng.roll(100) as u8;
                let mut value = vec![0; kind.size(from)];
                match kind {
                    // One, in any format that there is.
                    Kind::LongDouble => {
                        let as_double = from.with_long_double(LongDouble::Double);
                        let one = if from.is_big_endian() { 1f64.to_be_bytes() } else { 1f64.to_le_bytes() };
                        value = convert(&Signature::one(*kind), as_double, from, &one).0;
                    }
                    Kind::Real if value.len() == 8 => {
                        let v = f64::from(bits);
                        value = if from.is_big_endian() { v.to_be_bytes() } else { v.to_le_bytes() }.to_vec();
                    }
                    Kind::Real => {
                        let v = f32::from(bits);
                        value = if from.is_big_endian() { v.to_be_bytes() } else { v.to_le_bytes() }.to_vec();
                    }
                    _ if from.is_big_endian() => *value.last_mut().unwrap() = bits,
                    _ => value[0] = bits,
                }
                let (out, done) = convert(&Signature::one(*kind), from, to, &value);
                assert!(done.fits, "{kind:?}");
                assert_eq!(out.len(), kind.size(to));
                data.extend(value);
                expected.extend(out);
                ends.push((data.len(), expected.len()));
            }
            assert_eq!((s.size(from), s.size(to)), (Some(data.len()), Some(expected.len())));
            let (out, done) = convert(&s, from, to, &data);
            assert!(done.fits && out == expected);
            assert_eq!(convert(&s, to, from, &out).0, data);
            // Cut anywhere: the whole values that are there.
            let cut = rng.roll(data.len() + 1);
            let whole = ends[ends.partition_point(|(end, _)| *end <= cut) - 1].1;
            assert_eq!(convert(&s, from, to, &data[..cut]).0, expected[..whole], "cut at {cut}");
        }
    }
}

/// More than is converted at a time.
#[test]
fn long_messages_come_in_pieces() {
    let n = 300_001usize;
    let data: Vec<u8> = (0..n as i32).flat_map(|v| v.wrapping_mul(7_919).to_be_bytes()).collect();
    let mixed = Signature::list([Some(run(Kind::Long, 1)), Some(run(Kind::I32, 2))]).unwrap();
    for s in [run(Kind::Long, n), mixed.repeat(n / 3).unwrap()] {
        let mut pieces = 0;
        let mut out = Vec::new();
        let done = s.convert(old().swapped().swapped(), ours(), &data[..s.size(old()).unwrap()], |piece| {
            pieces += 1;
            out.extend_from_slice(piece);
        });
        assert!(pieces > 10 && done.fits);
        assert_eq!(Some(out.len()), s.size(ours()));
        assert_eq!(convert(&s, ours(), old(), &out).0, data[..s.size(old()).unwrap()]);
    }
}
