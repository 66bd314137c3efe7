//! A file with the images of several processes: those of one host (`MPI_CONNECT_CHECKPOINT=per-node`).
//!
//! Each process appends its image under a lock on the file, and behind it where the image begins. Invariants: an image of which that is
//! there is on the disk whole; what a process that died has left behind the last of them is cut off by the next one that writes.

use crate::disk::{Disk, Input, Output};
use crate::error::StoreError;
use crate::image::Head;
use crate::layout::{Reader, crc};
use base::bytes::{Put, Take};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Behind each image: the rank, where the image begins, CRC-32 of both.
const FOOT: u64 = 16;

/// An image in such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) rank: u32,
    pub(crate) from: u64,
    pub(crate) length: u64,
}

impl Section {
    fn end(&self) -> u64 {
        self.from + self.length + FOOT
    }

    fn foot(&self) -> Vec<u8> {
        let mut foot = Vec::with_capacity(FOOT as usize);
        foot.put_u32(self.rank);
        foot.put_u64(self.from);
        let checksum = crc(0, &foot);
        foot.put_u32(checksum);
        foot
    }

    /// The section that ends here.
    fn before(file: &File, end: u64) -> io::Result<Option<Section>> {
        let mut foot = [0; FOOT as usize];
        let Some(at) = end.checked_sub(FOOT) else { return Ok(None) };
        file.read_exact_at(&mut foot, at)?;
        let mut fields = Take(&foot);
        let (Ok(rank), Ok(from)) = (fields.u32(), fields.u64()) else { return Ok(None) };
        let section = Section { rank, from, length: at.saturating_sub(from) };
        Ok((from < at && section.foot() == foot).then_some(section))
    }

    /// Its bytes.
    pub(crate) fn open(self, mut file: File) -> io::Result<io::Take<Input>> {
        file.seek(SeekFrom::Start(self.from))?;
        Ok(Input::new(file, self.from).take(self.length))
    }
}

/// The images of a file, and of which process an image is begun behind them, if that is known.
pub(crate) fn sections(file: &File) -> io::Result<(Vec<Section>, Option<u32>)> {
    let mut all = Vec::new();
    let mut end = file.metadata()?.len();
    while let Some(section) = Section::before(file, end)? {
        all.push(section);
        end = section.from;
    }
    all.reverse();
    if end == 0 {
        return Ok((all, None));
    }
    // What a process left that died, or something that was changed: forwards as far as it is whole.
    let (first, half) = whole(file)?;
    let half = half.filter(|_| all.is_empty());
    let last = first.last().map_or(0, Section::end);
    all.retain(|section| section.from >= last);
    Ok((first.into_iter().chain(all).collect(), half))
}

/// The images from the beginning on.
fn whole(file: &File) -> io::Result<(Vec<Section>, Option<u32>)> {
    let mut all: Vec<Section> = Vec::new();
    loop {
        let from = all.last().map_or(0, Section::end);
        let mut reader = file.try_clone()?;
        reader.seek(SeekFrom::Start(from))?;
        let mut reader = BufReader::new(reader);
        let Ok((head, body)) = Reader::begin::<Head>(&mut reader) else { return Ok((all, None)) };
        let half = Some(head.rank);
        let Ok(length) = body.skip() else { return Ok((all, half)) };
        let section = Section { rank: head.rank, from, length };
        let mut foot = Vec::new();
        reader.take(FOOT).read_to_end(&mut foot)?;
        if foot != section.foot() {
            return Ok((all, half));
        }
        all.push(section);
    }
}

/// Appends what `write` writes, the image of this process. `Ok(false)`: there are no locks here, and nothing was done.
pub(crate) fn append(
    disk: &Disk,
    path: &Path,
    rank: u32,
    write: impl FnOnce(&mut Output<'_>) -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
    let at = |e| StoreError::System(path.into(), e);
    let mut output = disk.open(path)?;
    if let Err(e) = output.file.lock() {
        base::log!(Info, "no lock on {}: {e}; each process writes a file of its own", path.display());
        return Ok(false);
    }
    let length = output.file.metadata().map_err(at)?.len();
    let last = Section::before(&output.file, length).map_err(at)?;
    let from = match last {
        Some(_) => length,
        None => whole(&output.file).map_err(at)?.0.last().map_or(0, Section::end),
    };
    if from < length {
        output.set_length(from)?;
    }
    output.go_to(from).map_err(at)?;
    let written = write(&mut output).and_then(|()| {
        let section = Section { rank, from, length: output.written() - from };
        output.write_all(&section.foot()).map_err(at)?;
        output.sync()
    });
    if written.is_err() {
        // It takes room, perhaps the last.
        let _ = output.set_length(from);
    }
    written?;
    // Whoever made the file may have died before its name was on the disk.
    if from == 0 {
        disk.sync_folder(path.parent().unwrap_or(Path::new("/")))?;
    }
    Ok(true)
}
