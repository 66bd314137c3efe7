//! Which files are opened, and what is said of those that are not.

use crate::kit::{Client, Folder, LONG, NEVER, Remote, Said, below, open, record, token};
use naming::server::Ledger;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use store::{OpenError, Store};

fn rows(store: &mut Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    store.read(&mut |key, value| all.push((key.to_vec(), value.to_vec()))).unwrap();
    all
}

fn said(file: &Path) -> String {
    open(file, None).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_file_is_made_for_its_user_alone() {
    let folder = Folder::new();
    let mut store = open(&folder.file(), None).unwrap();
    let about = fs::metadata(folder.file()).unwrap();
    assert_eq!((about.mode() & 0o7777, about.nlink()), (0o600, 1));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is left beside it");
    store.write(&[(b"a".into(), Some(b"1".into())), (b"b".into(), Some(b"2".into()))]).unwrap();
    store.write(&[(b"b".into(), None), (b"c".into(), Some(vec![7; 70_000]))]).unwrap();
    drop(store);
    let mut store = open(&folder.file(), None).unwrap();
    assert_eq!(rows(&mut store), [(b"a".into(), b"1".into()), (b"c".into(), vec![7; 70_000])]);
}

#[test]
fn a_second_server_is_told_of_the_first() {
    let folder = Folder::new();
    let first = open(&folder.file(), None).unwrap();
    let file = folder.file();
    let busy = Store::open(&file).unwrap_err().to_string();
    assert_eq!(busy, format!("another server has {0} open; 'fuser -v {0}' shows its process", file.display()));
    drop(first);
    let server = Remote::start(&file, LONG, NEVER);
    let second = Remote::start(&file, LONG, NEVER);
    assert!(second.address.contains("another server has"), "{}", second.address);
    drop(server);
    open(&file, None).unwrap();
}

#[test]
fn files_that_are_not_ours_are_left_as_they_are() {
    let folder = Folder::new();
    let file = folder.file();
    drop(open(&file, None).unwrap());
    let whole = fs::read(&file).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o666] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        assert!(said(&file).contains(&format!("(mode {mode:o})")));
    }
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&file, Some(4321), None).unwrap();
        assert!(matches!(open(&file, None), Err(OpenError::Foreign(_, 4321))));
        std::os::unix::fs::chown(&file, Some(0), None).unwrap();
    } else {
        println!("NOT CHECKED, since this is not root: a file of another user");
    }
    let link = folder.0.join("link");
    symlink(&file, &link).unwrap();
    assert!(said(&link).starts_with("a symbolic link lies at "));
    assert!(said(&folder.0).starts_with("a folder lies at "));
    assert!(said(Path::new("/dev/null")).starts_with("something else lies at "));
    assert!(matches!(open(&folder.0.join("none/names"), None), Err(OpenError::Io("making", ..))));
    assert_eq!(fs::read(&file).unwrap(), whole);
}

#[test]
fn other_files_are_told_apart_and_never_replaced() {
    let folder = Folder::new();
    let put = |bytes: &[u8]| {
        let file = folder.0.join("other");
        let _ = fs::remove_file(&file);
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        file
    };
    for (bytes, word) in [(&b""[..], "is empty"), (b"notes\n", "is no store"), (&[b'x'; 100_000], "is no store")] {
        let file = put(bytes);
        assert!(said(&file).contains(word), "{}", said(&file));
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
    // A database of another program.
    let file = put(b"");
    drop(redb::Database::create(&file).unwrap());
    assert!(said(&file).contains("is no store of names"), "{}", said(&file));
}

/// Whatever byte the disk has lost, what is there is right, or the file is refused and left as it is.
#[test]
fn damage_is_noticed() {
    let folder = Folder::new();
    let file = folder.file();
    let server = Remote::start(&file, LONG, NEVER);
    let mut client = Client::connect(&server.address).unwrap();
    for i in 0..100 {
        assert!(matches!(client.claim(token(), &record(&format!("name {i}"))), Some(Said::Granted(_))));
    }
    server.end();
    let whole = fs::read(&file).unwrap();
    let right = rows(&mut open(&file, None).unwrap());
    let whole_again = fs::read(&file).unwrap();
    assert_eq!(right.len(), 201);
    let (mut refused, mut harmless) = (0, 0);
    let places = (0..512).chain((0..200).map(|_| below(whole.len() as u64) as usize));
    for at in places {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << below(8);
        fs::write(&file, &bytes).unwrap();
        match open(&file, None) {
            Ok(mut store) => {
                assert_eq!(rows(&mut store), right, "byte {at}");
                harmless += 1;
            }
            Err(OpenError::Damaged(..) | OpenError::NoStore(_)) => {
                refused += 1;
            }
            Err(e) => panic!("byte {at}: {e}"),
        }
    }
    println!("of {} bytes flipped {refused} were noticed, {harmless} did not matter", refused + harmless);
    assert!(refused > 100);
    for length in [1, 100, 4096, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();
        assert!(matches!(open(&file, None), Err(OpenError::Damaged(..) | OpenError::NoStore(_))), "{length}");
        assert_eq!(fs::read(&file).unwrap(), whole[..length]);
    }
    fs::write(&file, &whole_again).unwrap();
    assert_eq!(rows(&mut open(&file, None).unwrap()), right);
}
