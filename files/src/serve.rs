//! One connection for files, as the serving side has it.
//!
//! Runs in a thread of its own. Invariants: what is asked is done below the folders that are open and nowhere else; each answer is
//! for what was asked last; a part that was begun here is finished, or removed when nobody comes again for it.

use crate::error::{Error, Kind};
use crate::folders::Folders;
use crate::line::Line;
use crate::message::{Answer, Ask, Chunk, length};
use crate::part::{Part, Token};
use crate::share::Share;
use crate::shelf::{Place, Shelf};
use crate::source::{About, Source};
use crate::writer::Writer;
use base::protocol::files as numbers;
use std::sync::Arc;
use std::time::Duration;
use transports::control::ControlStream;

/// How long the other side may be silent, or take nothing.
const PATIENCE: Duration = Duration::from_secs(60);

struct Served<'a> {
    shelf: &'a Shelf,
    folders: &'a Folders,
    place: &'a Place<'a>,
    reads: Option<Source>,
    writes: Option<Writes>,
}

/// A part that is written into.
struct Writes {
    token: Token,
    part: Arc<Part>,
    writer: Writer,
}

/// Serves a connection until it ends. `is_cut` says that it has to end, `is_over` that the process does.
pub fn serve(
    stream: ControlStream,
    shelf: &Shelf,
    folders: &Folders,
    is_cut: &dyn Fn() -> bool,
    is_over: &dyn Fn() -> bool,
) {
    let Some(place) = shelf.enter() else {
        let busy = Error::here(Kind::Busy, "too many files move there at this moment");
        return Line::new(stream, is_cut, PATIENCE).say_why(&busy);
    };
    let has_to_end = || is_cut() || place.is_lost();
    let mut line = Line::new(stream, &has_to_end, PATIENCE);
    let mut served = Served { shelf, folders, place: &place, reads: None, writes: None };
    if let Err(e) = served.serve(&mut line) {
        line.say_why(&e);
    }
    drop(line);
    // What has come is written first.
    let writes = served.writes.take().map(|Writes { token, part, writer: _ }| (token, part));
    drop(place);
    if let Some((token, part)) = writes
        && shelf.leave(&token, &|| part.changed(), is_over)
    {
        part.remove();
    }
}

impl Served<'_> {
    /// Answers until the other side ends, which is an error too.
    fn serve(&mut self, line: &mut Line<'_>) -> Result<(), Error> {
        loop {
            self.hear(line)?;
            self.place.moved();
            if let Some(chunk) = Chunk::decode(line.body(), numbers::PUT) {
                let index = self.check(&chunk)?;
                self.writes()?.writer.write(index, line)?;
                continue;
            }
            // What is asked now comes behind what is under way.
            while self.answer_written(line, true)? {}
            let malformed = |_| Error::here(Kind::Malformed, "what was asked has no meaning there");
            match Ask::decode(line.body()).map_err(malformed)? {
                Ask::Read(path) => {
                    let source = Source::new(self.folders.open(&path)?)?;
                    let about = *source.about();
                    self.reads = Some(source);
                    base::log!(Info, "a file is read by another job: '{}'", shown(&path));
                    line.answer(&opened(&about))?;
                }
                Ask::Send { first, step } => self.send(Share { first, step }, line)?,
                Ask::Write { path, token, size, mode, new } => {
                    // One that is whole has its name, which the other side may not have heard.
                    if !self.shelf.is_finished(&token) {
                        self.write(&path, &token, size, mode, new)?;
                    }
                    line.answer(&Answer::Opened { size, mode, changed: 0, inode: 0 })?;
                }
                Ask::Sync => {
                    self.writes()?.part.sync().map_err(|e| Error::of(&e, "the disk"))?;
                    line.answer(&Answer::Done)?;
                }
                Ask::Finish(path, token) => {
                    self.finish(&path, &token)?;
                    line.answer(&Answer::Done)?;
                }
                Ask::Abandon(path, token) => {
                    let (folder, name) = self.folders.to_write(&path)?;
                    if let Ok(part) = Part::open(folder, name, &token, 0, 0, false) {
                        part.remove();
                    }
                    self.shelf.forget(&token);
                    line.answer(&Answer::Done)?;
                }
            }
        }
    }

    fn send(&mut self, share: Share, line: &mut Line<'_>) -> Result<(), Error> {
        let Some(source) = &self.reads else { return Err(untimely()) };
        let mut message = Vec::new();
        for index in source.chunks(share) {
            source.read(index, numbers::CHUNK, &mut message)?;
            line.say_whole(&mut message)?;
            self.place.moved();
        }
        source.still_same()?;
        line.answer(&Answer::Done)
    }

    fn write(&mut self, path: &[u8], token: &Token, size: u64, mode: u32, new: bool) -> Result<(), Error> {
        if self.writes.is_some() || i64::try_from(size).is_err() {
            return Err(untimely());
        }
        let (folder, name) = self.folders.to_write(path)?;
        if !self.shelf.begin(token) {
            return Err(Error::here(Kind::Busy, "too many files are written there at this moment"));
        }
        let opened = Part::open(folder, name, token, size, mode, new);
        let part = opened.map_err(|e| {
            self.shelf.cancel(token);
            Error::of(&e, format!("'{}'", shown(path)))
        })?;
        if new {
            base::log!(Info, "a file is written by another job: '{}', {size} bytes", shown(path));
        }
        let part = Arc::new(part);
        let writer = Writer::begin(part.clone()).inspect_err(|_| {
            if new {
                part.remove();
            }
            self.shelf.cancel(token);
        })?;
        self.writes = Some(Writes { token: *token, part, writer });
        Ok(())
    }

    fn writes(&mut self) -> Result<&mut Writes, Error> {
        self.writes.as_mut().ok_or_else(untimely)
    }

    /// Hears what is said next. What was written meanwhile is answered, and there is room for one more chunk.
    fn hear(&mut self, line: &mut Line<'_>) -> Result<(), Error> {
        loop {
            let is_full = self.writes.as_ref().is_some_and(|writes| writes.writer.is_full());
            if self.answer_written(line, is_full)? {
                continue;
            }
            if line.hear_some()? {
                return Ok(());
            }
            // Nothing has come: the other side may wait for the disk here.
            if !self.answer_written(line, true)? {
                return line.hear().map(drop);
            }
        }
    }

    /// Answers for the next chunk that is written, if one is, or has it awaited. Returns whether there was one.
    fn answer_written(&mut self, line: &mut Line<'_>, waits: bool) -> Result<bool, Error> {
        let Some(Writes { writer, .. }) = &mut self.writes else { return Ok(false) };
        match if waits { writer.wait()? } else { writer.written()? } {
            Some(index) => line.answer(&Answer::Written(index)).map(|()| true),
            None => Ok(false),
        }
    }

    /// Which chunk it is, if it is one of the file.
    fn check(&mut self, chunk: &Chunk<'_>) -> Result<u64, Error> {
        let part = &self.writes()?.part;
        if chunk.data.is_empty() || chunk.data.len() != length(chunk.index, part.size()) {
            return Err(untimely());
        }
        if !chunk.is_good {
            return Err(Error::here(Kind::Damaged, "a chunk came damaged"));
        }
        Ok(chunk.index)
    }

    fn finish(&mut self, path: &[u8], token: &Token) -> Result<(), Error> {
        if self.shelf.is_finished(token) {
            return Ok(());
        }
        match &self.writes {
            Some(writes) if writes.token == *token => {
                writes.part.finish().map_err(|e| Error::of(&e, format!("'{}'", shown(path))))?;
            }
            _ => return Err(untimely()),
        }
        self.writes = None;
        self.shelf.finish(token);
        Ok(())
    }
}

fn opened(about: &About) -> Answer {
    Answer::Opened { size: about.size, mode: about.mode, changed: about.changed, inode: about.inode }
}

fn untimely() -> Error {
    Error::here(Kind::Malformed, "what was asked comes at a wrong time")
}

/// A path of the other side, for people.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).replace(char::is_control, "?")
}
