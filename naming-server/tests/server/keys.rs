//! Who may ask: the key, its exchange, strangers, and who listens or meddles on the way.

use crate::kit::{
    LIMIT, Local, Raw, claim, hello, is_there, lookup_body, of_keys, open, open_as, record, trust, wait_until,
    with_keys,
};
use naming::{Kind, LookupError, StoreError};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::spawn;
use std::time::{Duration, Instant};
use trust::{Encrypt, GREETING, Key, KeyFile, Trust};

const LEASE: Duration = Duration::from_secs(60);
/// Far less than any time limit of a client.
const AT_ONCE: Duration = Duration::from_millis(900);

/// Why this process may not ask.
#[track_caller]
fn refused(url: &str, trust: &Arc<Trust>) -> String {
    match open_as(url, trust).lookup(Kind::Job, "ocean") {
        Err(LookupError::Store(e @ StoreError::Untrusted(_))) => e.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wrong_key_is_told_to_both_sides_at_once() {
    let server = Local::start(LEASE, 100);
    let key = Key::new();
    let (ours, theirs) = (key.id().to_string(), trust().ring().own().id().to_string());
    let other = of_keys(&key, &[]);
    let begun = Instant::now();
    let error = refused(&server.url, &other);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert!(error.contains(&ours) && error.contains(&theirs) && error.contains("mpi-connect key path"), "{error}");
    let told = server.tells("is refused");
    assert!(told.contains(&ours) && told.contains(&theirs) && told.contains("mpi-connect key path"), "{told}");
    // A claim is not tried until a time limit is over either.
    let begun = Instant::now();
    let claimed = open_as(&server.url, &other).claim(&record("ocean")).err().unwrap().to_string();
    assert!(begun.elapsed() < AT_ONCE && claimed.contains(&theirs), "{claimed}");
    assert!(!is_there(&server.url, "ocean"));
}

/// Of two servers, one has another key: the other is enough, and the first is named by a check.
#[test]
fn one_server_of_another_key_does_not_stop_the_other() {
    let (first, second) = (Local::trusting(&of_keys(&Key::new(), &[])), Local::start(LEASE, 100));
    let url = format!("{},{}", first.url, second.url.strip_prefix("tcp://").unwrap());
    let held = claim(&url, "ocean");
    assert!(is_there(&url, "ocean"));
    let notes = open(&url).check().unwrap();
    assert!(notes.iter().any(|note| note.contains("mpi-connect key path")), "{notes:?}");
    drop(held);
}

#[test]
fn while_keys_are_exchanged_old_and_new_are_accepted() {
    let (old, new) = (Key::new(), Key::new());
    let both = of_keys(&new, std::slice::from_ref(&old));
    let server = Local::trusting(&both);
    for trust in [of_keys(&old, &[]), of_keys(&new, &[]), both] {
        assert!(open_as(&server.url, &trust).claim(&record("ocean")).is_ok());
    }
    // The client has the new key already, and the server does not: the client's second try is the old one.
    let server = Local::trusting(&of_keys(&old, &[]));
    let client = of_keys(&new, &[old]);
    assert!(open_as(&server.url, &client).claim(&record("ocean")).is_ok());
}

/// Both sides read their files again: nothing has to be started anew.
#[test]
fn a_key_that_was_replaced_is_refused_and_connections_with_it_end() {
    let dir = std::env::temp_dir().join(format!("keys-{:016x}", u64::from_le_bytes(base::ident::random())));
    fs::create_dir(&dir).unwrap();
    let (ours, theirs) = (KeyFile::at(dir.join("ours")), KeyFile::at(dir.join("theirs")));
    let served = Arc::new(Trust::from_file(ours.clone(), Encrypt::Network).unwrap());
    fs::copy(ours.path(), theirs.path()).unwrap();
    let server = Local::trusting(&served);
    let client = Arc::new(Trust::from_file(theirs.clone(), Encrypt::Network).unwrap());
    let store = open_as(&server.url, &client);
    let held = store.claim(&record("ocean")).unwrap();
    ours.renew(true).unwrap();
    served.reload().unwrap();
    assert!(store.lookup(Kind::Job, "ocean").unwrap().is_some(), "the key before is accepted");
    // The key before is forgotten, in the file first.
    ours.renew(false).unwrap();
    assert!(store.lookup(Kind::Job, "ocean").unwrap().is_some(), "nothing was read again");
    served.reload().unwrap();
    wait_until("the connection ends, and its key is refused", || store.lookup(Kind::Job, "ocean").is_err());
    assert!(refused(&server.url, &client).contains(&served.ring().own().id().to_string()));
    // The file is copied, and the client finds it.
    fs::copy(ours.path(), theirs.path()).unwrap();
    wait_until("the new key", || store.lookup(Kind::Job, "ocean").is_ok_and(|found| found.is_some()));
    drop(held);
    assert!(store.lookup(Kind::Job, "ocean").unwrap().is_none());
    fs::remove_dir_all(&dir).unwrap();
}

/// Who has listened says a greeting of another one, with its proof. It is answered once, and cannot go on.
#[test]
fn a_repeated_proof_leads_to_nothing() {
    let server = Local::start(LEASE, 100);
    for last in [[0; 16].as_slice(), &[]] {
        let said = hello();
        let mut raw = Raw::connect(server.address());
        raw.0.write_all(&said).unwrap();
        assert_eq!(raw.status(), Some(0));
        raw.0.read_exact(&mut [0; 100]).unwrap();
        raw.0.write_all(last).unwrap();
        // In place of the last word, or behind a wrong one.
        raw.send(&lookup_body("ocean"));
        assert!(raw.is_closed());
        let told = server.tells("is refused");
        assert!(told.contains("proof of the key is wrong"), "{told}");
        // Once more, and it is not even answered.
        let mut raw = Raw::connect(server.address());
        raw.0.write_all(&said).unwrap();
        assert_eq!(raw.status(), Some(4));
        drop(raw);
        server.tells("is refused");
    }
    let said = hello();
    // Nor is the answer of a true server good for another connection.
    let mut raw = Raw::connect(server.address());
    raw.0.write_all(&said).unwrap();
    let mut answer = vec![0; GREETING + 100];
    raw.0.read_exact(&mut answer).unwrap();
    let false_server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = false_server.local_addr().unwrap();
    let answering = spawn(move || {
        let (mut stream, _) = false_server.accept().unwrap();
        stream.read_exact(&mut [0; GREETING + 96]).unwrap();
        stream.write_all(&answer).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        rest.len()
    });
    let error = refused(&format!("tcp://{address}"), &trust());
    assert!(error.contains("proof of the key is wrong"), "{error}");
    assert_eq!(answering.join().unwrap(), 0, "nothing more is said to it");
}

/// Each is closed within the time limit of the handshake, whatever it says or does not.
#[test]
fn strangers_get_nothing_and_do_not_stay() {
    let server = Local::start(LEASE, 100);
    let held = claim(&server.url, "ocean");
    let half = &hello()[..GREETING / 2];
    let all: [&[u8]; 4] = [b"", half, &hello()[..GREETING + 95], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"];
    let begun = Instant::now();
    let mut strangers = all.map(|words| {
        let mut raw = Raw::connect(server.address());
        raw.0.write_all(words).unwrap();
        raw
    });
    for raw in &mut strangers {
        let mut said = Vec::new();
        match raw.0.read_to_end(&mut said) {
            Ok(_) => {}
            Err(e) => assert_eq!(e.kind(), ErrorKind::ConnectionReset),
        }
        assert!(said.is_empty());
    }
    assert!(begun.elapsed() < LIMIT);
    // Those who say something are told of; who says nothing is none of the people that ask.
    let told: Vec<String> = (0..3).map(|_| server.tells("is refused")).collect();
    assert!(told.iter().all(|line| line.contains("too slow, or quiet")), "{told:?}");
    drop(held);
}

/// The limit of open files of this process, as high as it may be.
fn many_files() -> u64 {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    getrlimit(Resource::RLIMIT_NOFILE).unwrap().0
}

/// 5,000 connections that say nothing, from as many addresses as they like: a client that has proved the key keeps its
/// connection and its answers, and a new one gets in.
#[test]
fn a_flood_of_silent_connections_pushes_nobody_out() {
    const FLOOD: u32 = 5000;
    let server = Local::start(LEASE, 100);
    if many_files() < 2 * u64::from(FLOOD) {
        println!("NOT CHECKED, since this process may have too few files open: 5,000 connections at once");
        return;
    }
    let SocketAddr::V4(address) = server.address() else { panic!("127.0.0.1") };
    let mut proved = Raw::greeted(server.address());
    let held = claim(&server.url, "ocean");
    let over = Arc::new(AtomicBool::new(false));
    let done = over.clone();
    let flood = spawn(move || {
        let from = |n| Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + n);
        let all: Vec<Raw> = (0..FLOOD).map(|n| Raw::connect_from(from(n), address)).collect();
        done.store(true, Ordering::Release);
        all
    });
    let (mut asked, mut tries, mut new, mut longest) = (0, 0, 0, Duration::ZERO);
    let flooded = Instant::now();
    // At least one new client comes, however quick the flood is: its connections stay.
    while !over.load(Ordering::Acquire) || tries == 0 {
        let begun = Instant::now();
        assert_eq!(proved.ask(&lookup_body("ocean"))[..2], [3, 1], "after {asked} answers");
        longest = longest.max(begun.elapsed());
        asked += 1;
        if asked % 50 == 1 {
            // A client that comes meanwhile, with a memory of its own of which servers answer.
            let store = open_as(&server.url, &of_keys(trust().ring().own(), &[]));
            tries += 1;
            new += u32::from(store.lookup(Kind::Job, "ocean").is_ok_and(|found| found.is_some()));
        }
    }
    let mut flood = flood.join().unwrap();
    println!(
        "{asked} answers beside {FLOOD} silent connections in {:?}, the longest after {longest:?}; {new} of {tries} new clients",
        flooded.elapsed()
    );
    assert!(longest < LIMIT && new > 0);
    // All but a few are closed at once, and the rest when the time of the handshake is over.
    let begun = Instant::now();
    assert!(flood.iter_mut().all(Raw::is_closed) && begun.elapsed() < LIMIT);
    assert_eq!(proved.ask(&lookup_body("ocean"))[..2], [3, 1]);
    drop(held);
}

/// What goes by, each way.
#[derive(Default)]
struct Heard([Vec<u8>; 2]);

/// Stands between clients and a server, and changes one bit of the byte at this place of a direction: 0 to the server.
fn between(server: SocketAddr, change: Option<(usize, usize)>) -> (String, Arc<Mutex<Heard>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(Heard::default()));
    let all = heard.clone();
    spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(server) else { return };
            let ways = [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server.try_clone().unwrap(), client.try_clone().unwrap()),
            ];
            for (way, (mut from, mut to)) in ways.into_iter().enumerate() {
                let all = all.clone();
                spawn(move || {
                    let (mut at, mut room) = (0, [0; 4096]);
                    while let Ok(n) = from.read(&mut room)
                        && n > 0
                    {
                        if let Some((_, place)) =
                            change.filter(|(of, place)| *of == way && (at..at + n).contains(place))
                        {
                            room[place - at] ^= 1;
                        }
                        at += n;
                        all.lock().unwrap().0[way].extend_from_slice(&room[..n]);
                        if to.write_all(&room[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    (url, heard)
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

#[test]
fn what_is_encrypted_is_not_on_the_way() {
    const NAME: &str = "a name that nobody else is to know";
    for (encrypt, seen) in [(Encrypt::Network, true), (Encrypt::Always, false)] {
        let trust = with_keys(&Key::new(), &[], encrypt);
        let server = Local::trusting(&trust);
        let (url, heard) = between(server.address(), None);
        let store = open_as(&url, &trust);
        let held = store.claim(&record(NAME)).unwrap();
        let found = store.lookup(Kind::Job, NAME).unwrap().unwrap();
        let names: Vec<_> = store.list().unwrap().into_iter().map(|(record, _)| record.name).collect();
        assert_eq!(names, [NAME]);
        drop(held);
        let heard = heard.lock().unwrap();
        for bytes in &heard.0 {
            assert!(bytes.len() > GREETING);
            assert_eq!(contains(bytes, NAME), seen, "{encrypt:?}");
            assert_eq!(bytes.windows(16).any(|window| window == found.cookie), seen, "{encrypt:?}: the cookie");
        }
    }
    // One side wants it, and the other does not care.
    let key = Key::new();
    let server = Local::trusting(&with_keys(&key, &[], Encrypt::Always));
    let (url, heard) = between(server.address(), None);
    drop(open_as(&url, &with_keys(&key, &[], Encrypt::Network)).claim(&record(NAME)).unwrap());
    assert!(!contains(&heard.lock().unwrap().0[0], NAME));
    let error = refused(&server.url, &with_keys(&key, &[], Encrypt::Never));
    assert!(error.contains("MPI_CONNECT_ENCRYPT=never"), "{error}");
}

/// Whatever byte is changed on the way: the client gets the right answer or none.
#[test]
fn whoever_meddles_on_the_way_is_noticed() {
    let key = Key::new();
    let encrypted = || with_keys(&key, &[], Encrypt::Always);
    let server = Local::trusting(&encrypted());
    let ocean = record("ocean");
    let held = open_as(&server.url, &encrypted()).claim(&ocean).unwrap();
    // The proofs of both sides, the confirmation, and the first records.
    let proof = [GREETING + 96 + 16, GREETING + 100];
    let mut noticed = 0;
    for way in [0, 1] {
        for place in (0..proof[way]).step_by(9).chain(proof[way]..proof[way] + 26) {
            let (url, _) = between(server.address(), Some((way, place)));
            match open_as(&url, &encrypted()).lookup(Kind::Job, "ocean") {
                Ok(found) => {
                    assert!(found.as_ref() == Some(&ocean) && place < GREETING, "{way} {place}");
                }
                Err(LookupError::Store(StoreError::Untrusted(_) | StoreError::Unreachable(_))) => noticed += 1,
                Err(e) => panic!("{way} {place}: {e}"),
            }
        }
    }
    println!("{noticed} changes were noticed");
    assert!(noticed > 60);
    assert!(open_as(&server.url, &encrypted()).lookup(Kind::Job, "ocean").unwrap().is_some());
    drop(held);
}
