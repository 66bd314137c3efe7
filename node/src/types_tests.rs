use super::*;
use Kind::*;

const HERE: Representation = Representation::here();

fn one(name: &'static str, kind: Kind) -> Types {
    Types::named(name, &[kind], HERE)
}

fn int() -> Types {
    one("MPI_INT", I32)
}

fn double() -> Types {
    one("MPI_DOUBLE", F64)
}

fn signed(types: &Types, count: usize) -> Signed {
    Signed::new(Arc::new(Element::new(types.clone(), HERE)), count)
}

/// Compares a number of elements that are sent with a number that is received.
fn judge(sent: (&Types, usize), received: (&Types, usize)) -> Option<Wrong> {
    let (sent, received) = (signed(sent.0, sent.1), signed(received.0, received.1));
    let bytes = |s: &Signed| s.element.types.size() as u64 * s.count;
    received.judge(&sent.note(), (bytes(&sent) > bytes(&received)).then_some(bytes(&sent)))
}

fn fits(sent: (&Types, usize), received: (&Types, usize)) -> bool {
    judge(sent, received).is_none()
}

#[test]
fn doubles_are_no_integers() {
    let wrong = judge((&double(), 4), (&int(), 8)).unwrap();
    assert!(wrong.differ && wrong.whole.is_none());
    assert_eq!((&*wrong.sent, &*wrong.received), ("MPI_DOUBLE x 4", "MPI_INT x 8"));
    assert!(!fits((&int(), 8), (&double(), 4)));
    assert!(fits((&double(), 4), (&double(), 4)) && fits((&double(), 4), (&double(), 9)));
    assert!(fits((&double(), 0), (&int(), 8)));
    // Longer than the buffer: both are told, and whether it is only that.
    let long = judge((&double(), 4), (&double(), 2)).unwrap();
    assert!(!long.differ && long.whole == Some(32));
    assert!(judge((&double(), 4), (&int(), 2)).unwrap().differ);
}

#[test]
fn the_same_values_by_other_constructors_are_the_same() {
    let pair = Types::list([Some(double()), Some(int())]).unwrap();
    let nested = Types::list([pair.repeat(3), Some(double())]).unwrap();
    let flat = Types::list([double(), int(), double(), int(), double(), int(), double()].map(Some)).unwrap();
    assert!(fits((&nested, 1), (&flat, 1)) && fits((&flat, 5), (&nested, 5)));
    assert!(fits((&double().repeat(10).unwrap(), 3), (&double(), 30)));
    // The beginning of a receive, wherever it ends.
    for n in 0..=40usize {
        let beginning = Types::list((0..n).map(|i| Some(if i % 2 == 0 { double() } else { int() }))).unwrap();
        assert!(fits((&beginning, 1), (&pair, 20)), "{n}");
        let many = Types::list([pair.repeat(2), pair.repeat(18)]).unwrap().repeat(1).unwrap();
        assert!(fits((&beginning, 1), (&many, 1)), "{n}");
        if n > 0 {
            let other = Types::list([beginning.clone(), int(), int()].map(Some)).unwrap();
            assert!(!fits((&other, 1), (&pair, 40)), "{n}");
        }
    }
    assert_eq!(judge((&nested, 1), (&int(), 99)).unwrap().sent, "(MPI_DOUBLE x 1, MPI_INT x 1) x 3, MPI_DOUBLE x 1");
    let text = judge((&pair, 1000), (&int(), 9000)).unwrap().sent;
    assert_eq!(text, "(MPI_DOUBLE x 1, MPI_INT x 1) x 1000");
}

#[test]
fn a_huge_irregular_type_has_a_small_note_and_large_counts_take_no_time() {
    let irregular =
        Types::list((0..100_000usize).map(|i| Types::list([double().repeat(i % 7 + 1), int().repeat(i % 3 + 1)])))
            .unwrap();
    let note = signed(&irregular, 1000).note();
    assert!(note.len() <= engine::MAX_NOTE, "{}", note.len());
    assert!(fits((&irregular, 1000), (&irregular, 1001)));
    let changed = Types::list([Some(irregular.clone()), Some(int()), Some(double())]).unwrap();
    assert!(!fits((&changed, 2), (&irregular, 3)));
    let huge = double().repeat(1 << 40).unwrap();
    assert!(fits((&huge, 1 << 10), (&double(), 1 << 50)));
    assert!(!fits((&huge, 1 << 10), (&Types::list([huge.repeat(1023), int().repeat(1 << 42)]).unwrap(), 1)));
    // Nested as deep as it comes.
    let deep = (0..200).fold(irregular.clone(), |t, _| Types::list([Some(t), Some(int()), Some(double())]).unwrap());
    assert!(signed(&deep, 1).note().len() <= engine::MAX_NOTE && fits((&deep, 1), (&deep, 1)));
}

#[test]
fn names_differ_where_values_do_not() {
    for (a, b) in [
        (int(), one("MPI_INTEGER", Integer)),
        (int(), one("MPI_INT32_T", I32)),
        (one("MPI_LONG", Long), one("MPI_INT64_T", I64)),
        (double(), one("MPI_DOUBLE_PRECISION", F64)),
        (double(), one(F90_REAL, F64)),
        (one("MPI_CHAR", Byte), one("MPI_CHARACTER", Byte)),
        (one("MPI_UINT8_T", Byte), one("MPI_UNSIGNED_CHAR", Byte)),
        (Types::named("MPI_COMPLEX", &[Real, Real], HERE), Types::named("MPI_C_COMPLEX", &[F32, F32], HERE)),
        (Types::named("MPI_DOUBLE_INT", &[F64, I32], HERE), Types::list([Some(double()), Some(int())]).unwrap()),
        (Types::named("MPI_2INT", &[I32, I32], HERE), int().repeat(2).unwrap()),
        (
            Types::named("MPI_2COMPLEX", &[Real; 4], HERE),
            Types::named("MPI_COMPLEX", &[Real, Real], HERE).repeat(2).unwrap(),
        ),
    ] {
        assert!(fits((&a, 3), (&b, 3)) && fits((&b, 3), (&a, 3)), "{a:?} {b:?}");
    }
    let all = [
        one("MPI_BYTE", Byte),
        one("MPI_CHAR", Byte),
        one("MPI_SIGNED_CHAR", Byte),
        one("MPI_UNSIGNED_CHAR", Byte),
        one("MPI_LOGICAL1", Byte),
        int(),
        one("MPI_UNSIGNED", U32),
        one("MPI_FLOAT", F32),
        one("MPI_LOGICAL", Integer),
        one("MPI_WCHAR", Wchar),
        double(),
        one("MPI_INT64_T", I64),
        Types::named("MPI_COMPLEX", &[Real, Real], HERE),
        one("MPI_LONG_DOUBLE", LongDouble),
        one("MPI_REAL16", F128),
        one("MPI_REAL2", F16),
        one("MPIX_BFLOAT16", F16),
    ];
    for (i, a) in all.iter().enumerate() {
        for (k, b) in all.iter().enumerate() {
            assert_eq!(fits((a, 16), (b, 256)), i == k, "{a:?} {b:?}");
        }
    }
    // MPI_PACKED fits to everything, on either side.
    let packed = one("MPI_PACKED", Byte);
    assert!(all.iter().all(|t| fits((&packed, 16), (t, 16)) && fits((t, 16), (&packed, 256))));
    let with = Types::list([Some(int()), Some(packed)]).unwrap();
    assert!(fits((&with, 1), (&double(), 1)));
}

#[test]
fn sizes_are_those_of_where_it_comes_from() {
    let there = HERE.with_words(4, 4);
    let long = one("MPI_LONG", Long);
    let theirs = |types: &Types| Signed::new(Arc::new(Element::new(types.clone(), there)), 4).note();
    let ours = |types: &Types| signed(types, 4).seen_by(there);
    assert_eq!(ours(&long).judge(&theirs(&long), None), None);
    // There it is as long as an int, here it is not.
    assert_eq!(ours(&int()).judge(&theirs(&long), None), None);
    assert!(ours(&one("MPI_INT64_T", I64)).judge(&theirs(&long), None).is_some());
}

#[test]
fn nonsense_is_no_alarm_and_the_last_reports_are_kept() {
    let ours = signed(&int(), 4);
    let mut bad = signed(&double(), 4).note();
    let last = bad.len() - 1;
    bad[last] = 0x1b;
    for note in [&bad[..], &bad[..10], &[]] {
        assert_eq!(ours.judge(note, None), None);
    }
    let wrong = |n| Wrong { sent: format!("{n}"), received: String::new(), whole: None, differ: true };
    let numbers: Vec<u64> = (0..2 * MOST_WRONG as u64).map(|n| wrong(n).keep()).collect();
    assert_eq!(Wrong::by_number(numbers[0]), None);
    let last = numbers.len() - 1;
    assert_eq!(Wrong::by_number(numbers[last]), Some(wrong(last as u64)));
    assert_eq!(Wrong::by_number(u64::MAX), None);
}
