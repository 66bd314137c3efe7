//! A full disk: what is new is refused and says so, the rest goes on, and so does the new once there is room.

use crate::kit::{Client, Folder, LONG, NEVER, Remote, Said, record, token, trust, wait_until};
use naming::Record;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The number of the refusal that speaks of a full disk.
const DISK_FULL: u8 = 5;

fn large(i: usize) -> Record {
    Record { metadata: vec![("k".into(), "v".repeat(1000))], ..record(&format!("large {i}")) }
}

#[test]
fn what_is_new_is_refused_until_there_is_room() {
    let folder = Folder::new();
    let mut server = Remote::start(&folder.file(), LONG, NEVER);
    let mut client = Client::connect(&server.address).unwrap();
    let (mine, air) = (token(), record("air"));
    let Some(Said::Granted(number)) = client.claim(mine, &air) else { panic!("not granted") };
    let full = folder.0.join("names.full");
    fs::write(&full, "").unwrap();
    for _ in 0..20 {
        assert_eq!(client.claim(token(), &record("ocean")), Some(Said::Refused(DISK_FULL)));
        assert_eq!(client.lookup("ocean"), Some(None));
        assert_eq!(client.release(mine, "air"), Some(Said::Refused(DISK_FULL)), "it could not be kept");
        assert_eq!(client.lookup("air"), Some(Some(air.clone())));
        assert_eq!(client.renew(mine, number, &air), Some(Said::Granted(number)));
    }
    let store = naming::open_trusting(&format!("tcp://{}", server.address), "", || Ok(trust())).unwrap();
    let said = store.claim(&record("ocean")).err().unwrap().to_string();
    assert!(said.contains("has no room on its disk"), "{said}");
    fs::remove_file(&full).unwrap();
    wait_until("room", || matches!(client.claim(token(), &record("ocean")), Some(Said::Granted(n)) if n > number));
    server.kill();
    let server = Remote::start(&folder.file(), LONG, NEVER);
    let mut client = Client::connect(&server.address).unwrap();
    assert_eq!(client.lookup("air"), Some(Some(air)));
    assert!(client.lookup("ocean").unwrap().is_some());
    server.end();
}

/// A file system that is really full, if this user may mount one.
#[test]
fn a_file_system_that_is_full() {
    let folder = Folder::new();
    let mount = format!("mount -t tmpfs -o size=600k,mode=700 none {} && exec \"$0\" \"$@\"", folder.0.display());
    if !Command::new("unshare").args(["-rm", "sh", "-c", &mount, "true"]).status().is_ok_and(|s| s.success()) {
        println!("NOT CHECKED, since this user may mount nothing: a file system that is really full");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &mount]).arg(std::env::current_exe().unwrap());
    let server = Remote::by(command, &folder.file(), LONG, NEVER);
    let inside = PathBuf::from(format!("/proc/{}/root{}", server.id(), folder.0.display()));
    assert!(inside.join("names").exists(), "{}", server.address);
    let mut client = Client::connect(&server.address).unwrap();
    let mut held = Vec::new();
    let refused = (0..10_000).find_map(|i| {
        let (token, record) = (token(), large(i));
        match client.claim(token, &record).unwrap() {
            Said::Granted(number) => held.push((token, number, record)),
            other => return Some(other),
        }
        None
    });
    assert_eq!(refused, Some(Said::Refused(DISK_FULL)));
    println!("{} names until the disk was full", held.len());
    assert!(held.len() > 50);
    for (token, number, record) in &held {
        assert_eq!(client.renew(*token, *number, record), Some(Said::Granted(*number)));
        assert_eq!(client.lookup(&record.name), Some(Some(record.clone())));
    }
    let remount = format!("mount -o remount,size=20m {}", folder.0.display());
    let inside = ["-t", &server.id().to_string(), "-m", "-U", "sh", "-c", &remount].map(str::to_owned);
    assert!(Command::new("nsenter").args(inside).status().unwrap().success());
    wait_until("room", || matches!(client.claim(token(), &large(10_000)), Some(Said::Granted(_))));
    for i in 0..100 {
        assert!(matches!(client.claim(token(), &large(20_000 + i)), Some(Said::Granted(_))));
    }
    server.end();
}
