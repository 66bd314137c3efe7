//! Fetches a share of a file.

use crate::client::Client;
use crate::error::{Error, Kind};
use crate::line::Line;
use crate::message::{Answer, Ask, Chunk, chunks, length};
use crate::part::Part;
use crate::share::Share;
use crate::source::About;
use crate::writer::Writer;
use base::protocol::files::CHUNK;
use std::sync::Arc;

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
    part: &Arc<Part>,
) -> Result<(), (Share, Error)> {
    let mut writer = Writer::begin(part.clone()).map_err(|e| (share, e))?;
    // What is not written yet.
    let mut left = share;
    let got = client.keep_trying(|line| {
        let share = left;
        let mut written = |index| {
            client.note(length(index, found.size));
            left = left.rest();
        };
        let heard = hear(line, path, found, share, &mut writer, &mut written);
        // What has come is written, whatever has become of the connection.
        while let Some(index) = writer.wait()? {
            written(index);
        }
        heard
    });
    got.and_then(|()| client.go_on())
        .and_then(|()| part.sync().map_err(|e| Error::of(&e, "the disk")))
        .map_err(|e| (left, e))
}

/// Hears the chunks of a share over one connection. `written` is told of each that is on its way to the disk.
fn hear(
    line: &mut Line<'_>,
    path: &[u8],
    found: &Found,
    share: Share,
    writer: &mut Writer,
    written: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    if !read(line, path)?.is_same(found) {
        return Err(Error::there(Kind::Changed, "the file has changed since its transfer began"));
    }
    line.ask(&Ask::Send { first: share.first, step: share.step })?;
    for index in share.chunks(chunks(found.size)) {
        let body = line.hear()?;
        let Some(chunk) = Chunk::decode(body, CHUNK) else {
            Answer::decode(body).map_err(|_| Error::unexpected())?.good()?;
            return Err(Error::unexpected());
        };
        if chunk.index != index || chunk.data.len() != length(index, found.size) {
            return Err(Error::unexpected());
        }
        if !chunk.is_good {
            return Err(Error::there(Kind::Damaged, "a chunk came damaged"));
        }
        while let Some(index) = if writer.is_full() { writer.wait() } else { writer.written() }? {
            written(index);
        }
        writer.write(index, line)?;
    }
    line.hear_done()
}
