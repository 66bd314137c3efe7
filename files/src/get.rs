//! Fetches a share of a file.

use crate::client::Client;
use crate::error::{Error, Kind, Side};
use crate::line::Line;
use crate::message::{Answer, Ask, Chunk, chunks, length};
use crate::part::Part;
use crate::share::Share;
use crate::source::About;
use base::protocol::files::CHUNK;

/// What a file there was when it was looked at.
pub type Found = About;

/// Has a file opened there.
fn read(line: &mut Line<'_>, path: &[u8]) -> Result<Found, Error> {
    line.ask(&Ask::Read(path.to_vec()))?;
    match line.hear_answer()? {
        Answer::Opened { size, mode, changed, inode } if i64::try_from(size).is_ok() => {
            Ok(About { size, mode, changed, inode })
        }
        _ => Err(Error::unexpected()),
    }
}

/// Looks at a file there.
pub fn look(client: &Client<'_>, path: &[u8]) -> Result<Found, Error> {
    client.keep_trying(|line| read(line, path))
}

/// Fetches a share of it into a part of a file here. An error says what is left of the share.
pub fn get(
    client: &Client<'_>,
    path: &[u8],
    found: &Found,
    share: Share,
    part: &mut Part,
) -> Result<(), (Share, Error)> {
    let mut left = share;
    let all = chunks(found.size);
    let got = client.keep_trying(|line| {
        if !read(line, path)?.is_same(found) {
            let text = "the file has changed since its transfer began".into();
            return Err(Error { kind: Kind::Changed, side: Side::There, text });
        }
        line.ask(&Ask::Send { first: left.first, step: left.step })?;
        for index in left.chunks(all) {
            let body = line.hear()?;
            let Some(chunk) = Chunk::decode(body, CHUNK) else {
                Answer::decode(body).map_err(|_| Error::unexpected())?.good()?;
                return Err(Error::unexpected());
            };
            if chunk.index != index || chunk.data.len() != length(index, found.size) {
                return Err(Error::unexpected());
            }
            if !chunk.is_good {
                let text = "a chunk came damaged".into();
                return Err(Error { kind: Kind::Damaged, side: Side::There, text });
            }
            part.write(index, chunk.data).map_err(|e| Error::of(&e, "the file cannot be written"))?;
            client.note(chunk.data.len());
            left = left.rest();
        }
        line.hear_done()
    });
    got.and_then(|()| part.sync().map_err(|e| Error::of(&e, "the disk"))).map_err(|e| (left, e))
}
