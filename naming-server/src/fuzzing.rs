//! What `fuzz/` needs of decoders that are private: records, the messages between client and server, file names, settings.

use crate::fate::Fate;
use crate::file::names;
use crate::metadata;
use crate::record::{Key, Kind, Record};
use crate::tcp::Address;
use crate::wire::{self, Answer, Change, HEADER, Refusal, Request, Token};

/// A record of these bytes.
pub fn record(bytes: &[u8]) -> Option<Record> {
    Record::decode(bytes).ok()
}

/// A record as it is written.
pub fn written(record: &Record) -> Option<Vec<u8>> {
    record.encode().ok()
}

/// The record without secrets, as it is written.
pub fn without_secrets(record: &Record) -> Option<Vec<u8>> {
    record.without_secrets()
}

/// The request in a body, framed again, and as text.
pub fn request(body: &[u8]) -> Option<(Vec<u8>, String)> {
    let request: Request = wire::parse(body).ok()?;
    Some((wire::frame(&request).unwrap_or_default(), format!("{request:?}")))
}

/// The answer in a body, framed again, and as text.
pub fn answer(body: &[u8]) -> Option<(Vec<u8>, String)> {
    let answer: Answer = wire::parse(body).ok()?;
    Some((wire::frame(&answer).unwrap_or_default(), format!("{answer:?}")))
}

/// The bytes of a body, from the header before it.
pub fn body_length(frame: &[u8]) -> Option<usize> {
    wire::body_length(frame.first_chunk()?).ok()
}

/// Bytes before a body.
pub const BEFORE: usize = HEADER;

/// Bodies of every request, about this record.
pub fn requests(record: &Record) -> Vec<Vec<u8>> {
    let (token, bytes, key): (Token, _, _) = ([7; 16], written(record).unwrap_or_default(), record.key());
    let all = [
        Request::Claim { token, record: bytes.clone() },
        Request::Renew { token, number: 1 << 50, record: bytes },
        Request::Release { token, key: key.clone() },
        Request::Lookup { key: key.clone() },
        Request::List { after: Some(key) },
        Request::Changes { after: Some(7) },
    ];
    all.iter().filter_map(|one| Some(wire::frame(one).ok()?.split_off(HEADER))).collect()
}

/// Bodies of every answer, about this record.
pub fn answers(record: &Record) -> Vec<Vec<u8>> {
    let bytes = without_secrets(record).unwrap_or_default();
    let all = [
        Answer::Granted { lease: 15000, number: u64::MAX, common: true },
        Answer::Held { record: bytes.clone(), doubtful: true },
        Answer::Released,
        Answer::Found { record: Some(bytes.clone()), number: 7, common: true },
        Answer::Names { records: vec![bytes.clone(), vec![]], more: true, common: false },
        Answer::Refused(Refusal::RecordVersion(2)),
        Answer::Changes {
            next: 7,
            changes: vec![Change { fate: Fate::Claimed, age: 5, record: bytes }],
            common: false,
        },
    ];
    all.iter().filter_map(|one| Some(wire::frame(one).ok()?.split_off(HEADER))).collect()
}

/// The key in the name of a file that is a record's, and the file name of that key.
pub fn key_of_file(file: &str) -> Option<(Key, String)> {
    names::is_record(file).then(|| {
        let key = names::key(file);
        let name = names::file_name(&key);
        (key, name)
    })
}

/// The file name of a record.
pub fn file_of(run: &str, kind: Kind, name: &str) -> String {
    names::file_name(&Key::of(run, kind, name))
}

/// The pairs of a setting.
pub fn metadata(text: &str) -> Option<Vec<(String, String)>> {
    metadata::parse(text).ok()
}

/// How many servers a list of addresses has.
pub fn servers(text: &str) -> Option<usize> {
    Address::parse_all(text).ok().map(|all| all.len())
}
