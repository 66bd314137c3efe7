//! Puts a share of a file of this side into a folder there.

use crate::client::Client;
use crate::error::Error;
use crate::line::Line;
use crate::message::{Answer, Ask, chunks, length};
use crate::part::Token;
use crate::share::Share;
use crate::source::{About, Source};
use base::protocol::files::PUT;
use std::time::Duration;

/// How long the disk there may take to have all of it.
const TO_SYNC: Duration = Duration::from_secs(600);

fn write(line: &mut Line<'_>, path: &[u8], token: &Token, about: &About, new: bool) -> Result<(), Error> {
    line.ask(&Ask::Write { path: path.to_vec(), token: *token, size: about.size, mode: about.mode, new })?;
    match line.hear_answer()? {
        Answer::Opened { size, .. } if size == about.size => Ok(()),
        _ => Err(Error::unexpected()),
    }
}

/// Begins a file there: takes room for it.
pub fn begin(client: &Client<'_>, path: &[u8], token: &Token, about: &About) -> Result<(), Error> {
    client.keep_trying(|line| write(line, path, token, about, true))
}

/// Puts a share of a file into one that was begun. When it returns, the share is on the disk there; an error leaves all of it to be
/// done.
pub fn put(client: &Client<'_>, path: &[u8], token: &Token, source: &Source, share: Share) -> Result<(), Error> {
    let mut left = share;
    let all = chunks(source.about().size);
    let mut message = Vec::new();
    client.keep_trying(|line| {
        write(line, path, token, source.about(), false)?;
        for index in source.chunks(left) {
            source.read(index, PUT, &mut message)?;
            if let Err(e) = line.say_whole(&mut message) {
                // It may have said why before it closed the connection.
                while let Ok(Some(body)) = line.heard() {
                    written(client, body, &mut left, source.about())?;
                }
                return Err(e);
            }
            while let Some(body) = line.heard()? {
                written(client, body, &mut left, source.about())?;
            }
        }
        while left.first < all {
            written(client, line.hear()?, &mut left, source.about())?;
        }
        line.set_patience(TO_SYNC);
        line.ask(&Ask::Sync)?;
        line.hear_done()
    })
}

/// Takes an answer to a chunk.
fn written(client: &Client<'_>, body: &[u8], left: &mut Share, about: &About) -> Result<(), Error> {
    match Answer::decode(body).map_err(|_| Error::unexpected())?.good()? {
        Answer::Written(index) if index == left.first => {
            client.note(length(index, about.size));
            *left = left.rest();
            Ok(())
        }
        _ => Err(Error::unexpected()),
    }
}

/// Gives the file its name, once all shares of it are there.
pub fn finish(client: &Client<'_>, path: &[u8], token: &Token, source: &Source) -> Result<(), Error> {
    source.still_same()?;
    client.keep_trying(|line| {
        write(line, path, token, source.about(), false)?;
        line.set_patience(TO_SYNC);
        line.ask(&Ask::Finish(path.to_vec(), *token))?;
        line.hear_done()
    })
}

/// Has what was put of a file removed.
pub fn abandon(client: &Client<'_>, path: &[u8], token: &Token) -> Result<(), Error> {
    client.keep_trying(|line| {
        line.ask(&Ask::Abandon(path.to_vec(), *token))?;
        line.hear_done()
    })
}
