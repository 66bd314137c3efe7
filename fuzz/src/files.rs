//! What is said on connections that carry files.

use crate::Target;
use base::protocol::files::{MAX_PATH, MAX_TEXT};
use files::{Answer, Ask, Chunk, Kind};

fn ask(input: &[u8]) {
    let _ = Chunk::decode(input, base::protocol::files::PUT);
    let Ok(ask) = Ask::decode(input) else { return };
    assert_eq!(ask.encode(), input, "one form");
    match ask {
        Ask::Read(path) | Ask::Write { path, .. } | Ask::Finish(path, _) | Ask::Abandon(path, _) => {
            assert!(path.len() <= MAX_PATH);
        }
        Ask::Send { step, .. } => assert!(step > 0),
        Ask::Sync => (),
    }
}

/// `files::Ask::decode`.
pub const ASK: Target = Target {
    run: ask,
    seeds: || {
        let path = || b"out/air.nc".to_vec();
        let all = [
            Ask::Read(path()),
            Ask::Send { first: 3, step: 4 },
            Ask::Write { path: path(), token: [7; 16], size: 1 << 32, mode: 0o644, new: true },
            Ask::Sync,
            Ask::Finish(path(), [7; 16]),
            Ask::Abandon(path(), [7; 16]),
        ];
        all.map(|ask| ask.encode()).into()
    },
    longest: 4200,
    memory: 64 << 10,
};

fn answer(input: &[u8]) {
    if let Some(chunk) = Chunk::decode(input, base::protocol::files::CHUNK) {
        assert!(chunk.data.len() < input.len());
    }
    let Ok(answer) = Answer::decode(input) else { return };
    if let Answer::Failed(_, text) = &answer {
        assert!(text.len() <= MAX_TEXT && !text.contains(char::is_control));
    }
    assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
}

/// `files::Answer::decode`.
pub const ANSWER: Target = Target {
    run: answer,
    seeds: || {
        let all = [
            Answer::Opened { size: 5, mode: 0o644, changed: 1_700_000_000_000_000_000, inode: 12 },
            Answer::Written(3),
            Answer::Done,
            Answer::Failed(Kind::NoSpace, "'out.nc': No space left on device".into()),
        ];
        let mut chunk = vec![base::protocol::files::CHUNK, 5, 0, 0, 0, 0, 0, 0, 0];
        chunk.extend(crc32fast::hash(b"abc").to_le_bytes());
        chunk.extend(b"abc");
        all.iter().map(Answer::encode).chain([chunk]).collect()
    },
    longest: 1024,
    memory: 64 << 10,
};
