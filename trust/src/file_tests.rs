use super::*;
use std::os::unix::fs::PermissionsExt;
use std::thread;

/// A folder of this test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let name = format!("trust-{:016x}", u64::from_le_bytes(base::ident::random()));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn key(&self) -> KeyFile {
        KeyFile::at(self.0.join("config/mpi-connect/key"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_first_who_comes_makes_it_for_all() {
    let folder = Folder::new();
    let rings: Vec<Ring> = thread::scope(|scope| {
        let makers: Vec<_> = (0..16).map(|_| scope.spawn(|| folder.key().read_or_make().unwrap())).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    assert!(rings.iter().all(|ring| *ring == rings[0]));
    let file = folder.key();
    assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
    let folder = file.path().parent().unwrap();
    assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "nothing else is left there");
}

#[test]
fn what_others_can_use_is_not_used() {
    let folder = Folder::new();
    let file = folder.key();
    let ring = file.read_or_make().unwrap();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610] {
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        let refused = file.read_or_make().unwrap_err();
        assert!(matches!(&refused, FileError::Open(path, m) if path == file.path() && *m == mode), "{refused}");
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
    }
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o400)).unwrap();
    assert_eq!(file.read().unwrap(), ring);
}

#[test]
fn a_new_key_comes_first_and_the_one_before_stays_for_a_while() {
    let folder = Folder::new();
    let file = folder.key();
    let first = file.renew(true).unwrap();
    assert_eq!(first.others().count(), 0);
    let second = file.renew(true).unwrap();
    assert_ne!(second.own(), first.own());
    assert_eq!(second.others().collect::<Vec<_>>(), [first.own()]);
    let third = file.renew(true).unwrap();
    assert_eq!(third.others().collect::<Vec<_>>(), [second.own()], "two keys at most");
    assert_eq!(file.renew(false).unwrap().others().count(), 0);
}

#[test]
fn what_is_no_key_is_told_with_its_line() {
    let folder = Folder::new();
    let file = folder.key();
    file.read_or_make().unwrap();
    let good = fs::read_to_string(file.path()).unwrap();
    fs::write(file.path(), format!("{good}\n0123\n")).unwrap();
    assert!(matches!(file.read(), Err(FileError::Line(_, 4))));
    for (text, why) in [("", "no key"), ("# nothing\n\n", "a comment alone")] {
        fs::write(file.path(), text).unwrap();
        assert!(matches!(file.read(), Err(FileError::Number(_))), "{why}");
    }
    let many: String = (0..17).map(|_| format!("{}\n", *Key::new().text())).collect();
    fs::write(file.path(), many).unwrap();
    assert!(matches!(file.read(), Err(FileError::Number(_))));
    fs::write(file.path(), [0xff, 0xfe]).unwrap();
    assert!(matches!(file.read(), Err(FileError::Io(..))));
    assert!(matches!(KeyFile::at(folder.0.clone()).read(), Err(FileError::Kind(_))), "a folder");
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_exchanged() {
    let folder = Folder::new();
    let file = folder.key();
    let first = file.read_or_make().unwrap();
    let link = KeyFile::at(folder.0.join("link"));
    std::os::unix::fs::symlink(file.path(), link.path()).unwrap();
    let second = link.renew(true).unwrap();
    assert_eq!(second.others().next(), Some(first.own()));
    assert_eq!(file.read().unwrap(), second);
    assert!(fs::symlink_metadata(link.path()).unwrap().is_symlink());
}

/// The key of a service with a user of its own, in the hands of root.
#[test]
fn root_manages_the_keys_of_others_and_leaves_them_to_them() {
    if !geteuid().is_root() {
        println!("NOT CHECKED, since only root can give a file to another user");
        return;
    }
    let folder = Folder::new();
    let file = folder.key();
    let first = file.read_or_make().unwrap();
    std::os::unix::fs::chown(file.path(), Some(65_534), Some(65_533)).unwrap();
    assert_eq!(file.read().unwrap(), first);
    let second = file.renew(true).unwrap();
    assert_eq!(second.others().next(), Some(first.own()));
    let about = fs::metadata(file.path()).unwrap();
    assert_eq!((about.uid(), about.gid(), about.mode() & 0o777), (65_534, 65_533, 0o600));
}

/// Root exchanges the keys of services. A user cannot have it write over any other file.
#[test]
fn root_follows_no_link_of_another_user() {
    if !geteuid().is_root() {
        println!("NOT CHECKED, since only root can give a link to another user");
        return;
    }
    let folder = Folder::new();
    let precious = folder.0.join("precious");
    fs::write(&precious, "a file of root").unwrap();
    fs::set_permissions(&precious, fs::Permissions::from_mode(0o600)).unwrap();
    let theirs = folder.0.join("theirs");
    fs::create_dir(&theirs).unwrap();
    let (link, over) = (theirs.join("key"), folder.0.join("over"));
    for link in [&link, &over] {
        std::os::unix::fs::symlink("../precious", link).unwrap();
        std::os::unix::fs::lchown(link, Some(65_534), None).unwrap();
    }
    // One of root's own that leads to it.
    let own = folder.0.join("own");
    std::os::unix::fs::symlink("theirs", &own).unwrap();
    for path in [&link, &own.join("key")] {
        assert!(matches!(KeyFile::at(path).renew(false), Err(FileError::Link(_, at)) if at.ends_with("theirs/key")));
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "a file of root");
}

#[test]
fn the_setting_names_a_file() {
    assert_eq!(KeyFile::find(Some("file:/a/b")).unwrap().path(), Path::new("/a/b"));
    assert!(KeyFile::find(Some("file:b")).unwrap().path().is_absolute());
    for bad in ["/a/b", "file:", "key"] {
        assert!(matches!(KeyFile::find(Some(bad)), Err(FileError::Setting(_))), "{bad}");
    }
    let default = KeyFile::find(None).unwrap();
    assert!(default.path().ends_with(".config/mpi-connect/key"), "{default:?}");
    assert_eq!(KeyFile::find(Some(" ")).unwrap(), default);
}

#[test]
fn what_is_no_key_can_be_replaced() {
    let folder = Folder::new();
    let file = folder.key();
    file.read_or_make().unwrap();
    for text in ["", "nonsense\n"] {
        fs::write(file.path(), text).unwrap();
        assert!(file.renew(true).is_err(), "nothing is lost unasked");
        assert_eq!(file.renew(false).unwrap(), file.read().unwrap());
    }
}
