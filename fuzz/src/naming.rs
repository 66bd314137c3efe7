//! What `naming-server` reads: records, the messages between client and server, names of files in a shared folder, and the
//! texts of settings.

use crate::Target;
use naming::fuzzing as door;
use naming::{Kind, MAX_RECORD, Record};

/// Records of all kinds.
fn records() -> Vec<Record> {
    let one = |name: &str| Record {
        name: name.into(),
        run: String::new(),
        incarnation: 0x1234,
        cookie: [3; 16],
        size: 4,
        leader: vec![1, 2, 3],
        mpi: "MPICH 4.0.2".into(),
        host: "host".into(),
        boot: [4; 16],
        pid: 77,
        since: 1_700_000_000,
        port: None,
        coupled: None,
        metadata: vec![("grid".into(), "t63".into())],
    };
    vec![
        one("ocean"),
        Record { run: "case7".into(), port: Some("mpic:AAAA".into()), ..one("urn:site:ice") },
        Record { coupled: Some("air".into()), metadata: Vec::new(), ..one("land") },
    ]
}

fn record(input: &[u8]) {
    let Some(record) = door::record(input) else { return };
    naming::check_name(&record.name).expect("a name");
    naming::check_metadata(&record.metadata).expect("metadata");
    let shown = [&record.name, &record.run, &record.mpi, &record.host].into_iter().chain(&record.coupled);
    assert!(shown.chain(record.metadata.iter().flat_map(|(k, v)| [k, v])).all(|text| !text.contains(char::is_control)));
    let bytes = door::written(&record).expect("what was read can be written");
    assert!(bytes.len() <= MAX_RECORD);
    assert_eq!(door::record(&bytes).as_ref(), Some(&record));
    let public = door::record(&door::without_secrets(&record).expect("it is shorter")).expect("a record");
    assert!(public.cookie == [0; 16] && public.leader.is_empty() && public.port.is_none_or(|port| port.is_empty()));
    // The folder's file of it leads to it, unless its name was cut.
    let file = door::file_of(&record.run, record.kind(), &record.name);
    assert!(file.len() <= 255 && !file.contains('/') && !file.starts_with('.'));
}

/// `naming::Record`, from a folder or a server.
pub const RECORD: Target = Target {
    run: record,
    seeds: || records().iter().filter_map(door::written).collect(),
    longest: 2048,
    memory: 512 << 10,
};

/// What holds of a message that was read: framed again, it has its length before it, and is the same.
fn same(read: impl Fn(&[u8]) -> Option<(Vec<u8>, String)>, body: &[u8]) {
    let Some((frame, text)) = read(body) else { return };
    let length = door::body_length(&frame).expect("a length within the limit");
    assert_eq!(length, frame.len() - door::BEFORE);
    assert_eq!(read(&frame[door::BEFORE..]), Some((frame, text)));
}

/// A client's request, as the server reads it.
pub const REQUEST: Target = Target {
    run: |input| same(door::request, input),
    seeds: || records().iter().flat_map(door::requests).collect(),
    longest: 2048,
    memory: 512 << 10,
};

/// A server's answer, as the client reads it.
pub const ANSWER: Target = Target {
    run: |input| same(door::answer, input),
    seeds: || records().iter().flat_map(door::answers).collect(),
    longest: 2048,
    memory: 512 << 10,
};

fn header(input: &[u8]) {
    let Some(length) = door::body_length(input) else { return };
    assert!(length <= MAX_RECORD + 1024);
    let header = [&(length as u32).to_le_bytes()[..], &[0; 4]].concat();
    assert_eq!(header, input[..door::BEFORE], "one header has one form");
}

/// The header before each message, of client and server.
pub const NAMING_HEADER: Target = Target {
    run: header,
    seeds: || [0, 100, MAX_RECORD + 1025].map(|length| (length as u64).to_le_bytes().to_vec()).to_vec(),
    longest: 16,
    memory: 4096,
};

fn file_name(input: &[u8]) {
    let Ok(file) = std::str::from_utf8(input) else { return };
    let Some((key, again)) = door::key_of_file(file) else { return };
    assert!(again.len() <= 255 && !again.contains('/'));
    // A file that nobody has made for a record may have no name at all.
    if naming::check_name(&key.name).is_err() {
        return;
    }
    assert!(!again.starts_with('.'));
    // The file of a key leads to that key, unless it was cut.
    if !again.contains('~') {
        assert_eq!(door::key_of_file(&again), Some((key, again)));
    }
}

/// The names of files in a folder.
pub const FILE_NAME: Target = Target {
    run: file_name,
    seeds: || {
        let names = [("", Kind::Job, "ocean"), ("case7", Kind::Port, "a@b/c é"), ("a.b", Kind::Coupling, "%zz%4")];
        names.map(|(run, kind, name)| door::file_of(run, kind, name).into_bytes()).to_vec()
    },
    longest: 300,
    memory: 32 << 10,
};

fn settings(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Some(pairs) = door::metadata(text) {
        naming::check_metadata(&pairs).expect("what was read is good");
        let again: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let again = again.join(",");
        // A blank at the end of a value is none of it when it stands alone.
        if !pairs.is_empty() {
            assert_eq!(door::metadata(&again).map(|pairs| pairs.len()), Some(pairs.len()));
        }
    }
    if let Some(servers) = door::servers(text) {
        assert!((1..=8).contains(&servers));
    }
    if let Ok(run) = naming::run_of(text) {
        assert!(run.len() <= 255 && naming::run_of(run) == Ok(run));
    }
    if let Ok(store) = naming::open(text) {
        assert!(naming::open(&store.url()).is_ok_and(|again| again.url() == store.url()), "a store's URL opens it");
    }
}

/// URLs of stores, lists of servers, runs, and metadata: from the environment, and from command lines of others.
pub const SETTINGS: Target = Target {
    run: settings,
    seeds: || {
        let all = [
            "grid=t63, run=a=b ;empty=",
            "file:/a/b",
            "file:x",
            "tcp://host:7431,[::1]:80;b",
            "[fe80::1%eth0]",
            "case 7",
        ];
        all.map(|text| text.as_bytes().to_vec()).to_vec()
    },
    longest: 256,
    memory: 128 << 10,
};
