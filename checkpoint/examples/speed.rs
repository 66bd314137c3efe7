//! How fast an image is written, beside `dd conv=fsync` of the same bytes to the same folder, and how fast it is read, beside
//! its file read into memory: `make images-speed`.
//!
//!     speed FOLDER [MEGABYTES [ROUNDS]]
//!
//! In turns; medians. The source of dd lies in memory (/dev/shm), as the messages of an image do.

use checkpoint::{Head, Image, LineId, OfPair, Outcomes, Packing, Remote, Store};
use engine::{ContextId, Kept};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const LINE: LineId = LineId { by: 1, count: 1 };
/// Bytes of the messages, in turns: what is sent eagerly, and large ones.
const SIZES: [usize; 5] = [100, 8_000, 60_000, 1 << 20, 16 << 20];

fn image(bytes: usize) -> Image {
    let jobs = ["air".to_owned(), "ocean".to_owned()].into();
    let head = Head { job: "air".into(), rank: 0, size: 1, serial: 1, label: "speed".into(), line: LINE, jobs };
    let (mut of, mut left, mut seed) = (OfPair { sent: (1, 1), ..OfPair::default() }, bytes, 1u64);
    for (number, size) in (1..).zip(SIZES.into_iter().cycle()) {
        let size = size.min(left);
        let mut data = vec![0; size];
        // Numbers as simulations have them: the last bits differ.
        for piece in data.chunks_exact_mut(8) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            piece.copy_from_slice(&(1.0 + (seed >> 40) as f64 * 1e-9).to_le_bytes());
        }
        of.line.kept.push(Kept { number, context: ContextId::root(1), source: 0, tag: 0, note: Vec::new(), data });
        left -= size;
        if left == 0 {
            break;
        }
    }
    let remotes = vec![Remote { name: "ocean".into(), size: 1, contexts: 0, of: vec![(0, of)] }];
    Image { head, remotes, inters: Vec::new(), outcomes: Outcomes::default() }
}

fn seconds<T>(what: impl FnOnce() -> T) -> f64 {
    let begun = Instant::now();
    let result = what();
    let seconds = begun.elapsed().as_secs_f64();
    drop(result);
    seconds
}

fn dd(words: &[String]) {
    let done = Command::new("dd").args(words).arg("status=none").status().expect("dd");
    assert!(done.success(), "dd {words:?}");
}

/// A file that is not in memory any more.
fn forget(path: &Path) {
    dd(&[format!("if={}", path.display()), "iflag=nocache".into(), "count=0".into()]);
}

/// The median, and the least and the most.
fn median(mut all: Vec<f64>) -> (f64, f64, f64) {
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[0], all[all.len() - 1])
}

fn main() {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().expect("speed FOLDER [MEGABYTES [ROUNDS]]"));
    let mut number = |otherwise| words.next().map_or(otherwise, |word| word.parse().expect("a number"));
    let (megabytes, rounds) = (number(512usize), number(9usize));
    let folder = folder.join(format!("images-speed-{}", std::process::id()));
    let source = Path::new("/dev/shm").join(format!("images-speed-{}", std::process::id()));
    let image = image(megabytes * 1_000_000);
    let store = Store::new(&folder, "air");
    store.open(&mut None).expect("a folder");
    let mut file = File::create(&source).expect("a file in memory");
    image.write(Packing::None, &mut file).expect("room in memory");
    let bytes = file.metadata().expect("its length").len() as f64;
    drop(file);

    let to = folder.join("dd");
    let by_dd = || {
        let words = [format!("if={}", source.display()), format!("of={}", to.display())];
        dd(&[&words[..], &["bs=1M".into(), "conv=fsync".into()]].concat());
    };
    let found = || store.lines().expect("lines").into_iter().next().expect("the line");
    let write = |packing| store.clone().packed(packing).write(&image).expect("written");
    let mut of: [Vec<f64>; 8] = Default::default();
    for round in 0..=rounds {
        // Each comes first as often: what was removed before costs the first sync.
        let mut now = if round % 2 == 0 {
            let written = seconds(|| write(Packing::None));
            vec![seconds(by_dd), written]
        } else {
            let by_dd = seconds(by_dd);
            vec![by_dd, seconds(|| write(Packing::None))]
        };
        let path = found().folder.join("000000.image");
        let is_same = fs::metadata(&path).expect("the image").len() as f64 == bytes;
        assert!(is_same, "dd has written as many bytes");
        let whole = || found().image(0).expect("whole").expect("there");
        for is_cold in [true, false] {
            let read = |path| fs::read(path).expect("a file that can be read");
            let prepare = |path| if is_cold { forget(path) } else { drop(read(path)) };
            prepare(&to);
            now.push(seconds(|| read(&to)));
            prepare(&path);
            now.push(seconds(whole));
        }
        now.push(seconds(|| found().check(0).expect("whole")));
        found().remove().expect("removed");
        now.push(seconds(|| write(Packing::Lz4)));
        found().remove().expect("removed");
        fs::remove_file(&to).expect("removed");
        // The first round warms up.
        if round > 0 {
            of.iter_mut().zip(now).for_each(|(all, one)| all.push(one));
        }
    }
    fs::remove_dir_all(&folder).expect("a folder of ours");
    fs::remove_file(&source).expect("a file of ours");

    println!("{:.0} MB, medians of {rounds} (and from the slowest to the fastest), MB/s", bytes / 1e6);
    let names = [
        "dd conv=fsync",
        "an image, written",
        "the file, from disk to memory",
        "the image, from the disk",
        "the file, from the cache to memory",
        "the image, from the cache",
        "the image, checked in the cache",
        "an image packed by LZ4, written",
    ];
    let rate = |seconds: f64| bytes / 1e6 / seconds;
    for (name, times) in names.iter().zip(&of) {
        let (middle, least, most) = median(times.clone());
        println!("  {name:<34} {:>6.0}  ({:.0} to {:.0})", rate(middle), rate(most), rate(least));
    }
    let ratio = |one: usize, other: usize| {
        let all = of[one].iter().zip(&of[other]).map(|(one, other)| other / one).collect();
        median(all)
    };
    let (middle, least, most) = ratio(1, 0);
    println!("written, beside dd of the same round: {middle:.2} ({least:.2} to {most:.2})");
    for (one, other, what) in [(2, 3, "from the disk"), (4, 5, "from the cache")] {
        let (middle, least, most) = ratio(one, other);
        println!("time to read the image {what}, beside that to read the file: {middle:.2} ({least:.2} to {most:.2})");
    }
}
