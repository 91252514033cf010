//! Page images in files: written in one pass with their checksum, and read back with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use craton_slab::Extent;
use crc32c::{crc32c_append, crc32c_combine};
use rustix::fs::{Advice, OFlags};

use crate::api::PageBuffer;
use crate::error::Error;
use crate::images::Layout;

// Bytes that are checked and handed to the system at a time: few enough to stay in a core's cache.
const CHUNK: usize = 1 << 20;
// Bodies of at least this many bytes are read by several threads.
const PARALLEL: usize = 16 << 20;
const READERS: usize = 4;
// The unit of direct I/O, in bytes: no block device that matters has a larger one.
const BLOCK: usize = 4096;
// Slices that the system takes in one call.
const SLICES: usize = 1024;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// What is remembered of an image, to read it back and to know that it is the one that was written.
#[derive(Debug)]
pub(crate) struct Image {
    /// Each buffer's bytes from the start of the file, and its length.
    pub(crate) places: Vec<(u64, u64)>,
    /// Bytes of the file.
    pub(crate) total: u64,
    /// crc32c of the file.
    pub(crate) checksum: u32,
}

impl Image {
    /// Where the buffers are: from the start of the first to the end of the last, in bytes of the file.
    pub(crate) fn body(&self) -> (u64, u64) {
        match (self.places.first(), self.places.last()) {
            (Some(first), Some(last)) => (first.0, last.0 + last.1),
            _ => (0, 0),
        }
    }

    /// Bytes of memory that reading it takes.
    pub(crate) fn body_length(&self) -> usize {
        let (start, end) = self.body();
        usize::try_from(end - start).unwrap_or(usize::MAX)
    }
}

/// Why an image could not be read.
pub(crate) enum Fault {
    /// It is not what was written.
    Damaged(String),
    /// The system refused, maybe for a while.
    System(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Fault::Damaged("the file is gone".into()),
            io::ErrorKind::UnexpectedEof => Fault::Damaged("the file ends too early".into()),
            _ => Fault::System(error),
        }
    }
}

/// How files are opened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    /// Through the system's page cache, of which no more is kept than is needed.
    Buffered,
    /// Past it.
    Direct,
}

/// Write an image to a new file; its folder is made if need be. After an error there is no file.
pub(crate) fn write(path: &Path, layout: &Layout, buffers: &[PageBuffer], access: Access) -> Result<Image, Error> {
    let written = create(path, access).and_then(|(file, access)| {
        let slices = slices(layout, buffers);
        let checksum = match access {
            Access::Buffered => write_buffered(&file, &slices),
            Access::Direct => write_direct(&file, &slices),
        };
        checksum.inspect_err(|_| drop(fs::remove_file(path)))
    });
    let checksum = written.map_err(|error| Error::io(format!("write the page image {}", path.display()), &error))?;
    let lengths = buffers.iter().map(|buffer| buffer.range.len() as u64);
    let places = layout.offsets.iter().copied().zip(lengths).collect();
    Ok(Image { places, total: layout.total, checksum })
}

fn create(path: &Path, access: Access) -> io::Result<(File, Access)> {
    match open_new(path, access) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                match fs::create_dir(folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
            }
            open_new(path, access)
        }
        other => other,
    }
}

fn open_new(path: &Path, access: Access) -> io::Result<(File, Access)> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    if matches!(access, Access::Direct) {
        let direct = options.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(path);
        match direct {
            // The file system has no direct I/O.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {}
            other => return other.map(|file| (file, access)),
        }
    }
    options.open(path).map(|file| (file, Access::Buffered))
}

/// The whole file, piece by piece.
fn slices<'a>(layout: &'a Layout, buffers: &'a [PageBuffer]) -> Vec<&'a [u8]> {
    let mut slices: Vec<&[u8]> = vec![&layout.prefix];
    let mut at = layout.prefix.len() as u64;
    let fill = |slices: &mut Vec<&'a [u8]>, mut at: u64, to: u64| {
        while at < to {
            let zeros = &ZEROS[..(to - at).min(BLOCK as u64) as usize];
            slices.push(zeros);
            at += zeros.len() as u64;
        }
    };
    for (offset, buffer) in layout.offsets.iter().zip(buffers) {
        fill(&mut slices, at, *offset);
        slices.extend(buffer.as_slice().chunks(CHUNK));
        at = *offset + buffer.range.len() as u64;
    }
    fill(&mut slices, at, layout.total - layout.tail.len() as u64);
    slices.push(&layout.tail);
    slices
}

fn write_buffered(file: &File, slices: &[&[u8]]) -> io::Result<u32> {
    let (mut checksum, mut offset, mut next) = (0, 0, 0);
    while next < slices.len() {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while next < slices.len() && batch.len() < SLICES && (batch.is_empty() || bytes + slices[next].len() <= CHUNK) {
            checksum = crc32c_append(checksum, slices[next]);
            bytes += slices[next].len();
            batch.push(IoSlice::new(slices[next]));
            next += 1;
        }
        let mut rest = &mut batch[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match rustix::io::pwritev(file, rest, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(checksum)
}

/// A buffer at a multiple of [`BLOCK`], as direct I/O wants it.
struct Bounce {
    bytes: Vec<u8>,
    start: usize,
}

impl Bounce {
    fn new() -> Self {
        let bytes = vec![0; CHUNK + BLOCK];
        let start = bytes.as_ptr().align_offset(BLOCK);
        Self { bytes, start }
    }

    fn block(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + CHUNK]
    }
}

fn write_direct(file: &File, slices: &[&[u8]]) -> io::Result<u32> {
    let mut bounce = Bounce::new();
    let (mut checksum, mut offset, mut filled) = (0, 0, 0);
    for slice in slices {
        checksum = crc32c_append(checksum, slice);
        let mut slice = *slice;
        while !slice.is_empty() {
            let (now, later) = slice.split_at(slice.len().min(CHUNK - filled));
            bounce.block()[filled..filled + now.len()].copy_from_slice(now);
            filled += now.len();
            slice = later;
            if filled == CHUNK {
                file.write_all_at(bounce.block(), offset)?;
                offset += CHUNK as u64;
                filled = 0;
            }
        }
    }
    if filled > 0 {
        let end = filled.next_multiple_of(BLOCK);
        bounce.block()[filled..end].fill(0);
        file.write_all_at(&bounce.block()[..end], offset)?;
        file.set_len(offset + filled as u64)?;
    }
    Ok(checksum)
}

/// Read an image's buffers into `extent`, which is as long as its body, and compare the whole file with what was written.
pub(crate) fn read(path: &Path, image: &Image, extent: Option<&mut Extent>, access: Access) -> Result<(), Fault> {
    let mut options = OpenOptions::new();
    options.read(true);
    let direct = matches!(access, Access::Direct)
        .then(|| options.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(path).ok())
        .flatten();
    let direct = direct.filter(|_| image.total >= BLOCK as u64);
    let access = if direct.is_some() { Access::Direct } else { Access::Buffered };
    let file = direct.map_or_else(|| options.open(path), Ok)?;
    let found = file.metadata()?.len();
    if found != image.total {
        return Err(Fault::Damaged(format!("the file has {found} bytes, and {} were written", image.total)));
    }
    let (start, end) = image.body();
    let body: &mut [u8] = match extent {
        Some(extent) => extent.as_mut_slice().ok_or_else(|| Fault::System(io::ErrorKind::PermissionDenied.into()))?,
        None => &mut [],
    };
    let small = |from: u64, to: u64| -> Result<u32, Fault> {
        let mut bytes = vec![0; usize::try_from(to - from).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?];
        Ok(read_range(&file, &mut bytes, from, access)?)
    };
    let (prefix, tail) = (small(0, start)?, small(end, image.total)?);
    let length = body.len();
    let middle = read_body(&file, body, start, access)?;
    let checksum = crc32c_combine(prefix, middle, length);
    let checksum = crc32c_combine(checksum, tail, (image.total - end) as usize);
    if checksum != image.checksum {
        return Err(Fault::Damaged(format!("its checksum is {checksum:08x}, and {:08x} was written", image.checksum)));
    }
    if matches!(access, Access::Buffered) {
        // The bytes are in memory once now; the system need not keep a second copy.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    }
    Ok(())
}

fn read_body(file: &File, body: &mut [u8], start: u64, access: Access) -> io::Result<u32> {
    if body.len() < PARALLEL {
        return read_range(file, body, start, access);
    }
    let part = body.len().div_ceil(READERS).next_multiple_of(CHUNK);
    let mut sums = Vec::new();
    std::thread::scope(|scope| {
        let readers: Vec<_> = body
            .chunks_mut(part)
            .zip((start..).step_by(part))
            .map(|(part, offset)| scope.spawn(move || (part.len(), read_range(file, part, offset, access))))
            .collect();
        sums.extend(readers.into_iter().map(|reader| reader.join()));
    });
    let mut checksum = 0;
    for sum in sums {
        let (length, sum) = sum.map_err(|_| io::Error::other("a reader panicked"))?;
        checksum = crc32c_combine(checksum, sum?, length);
    }
    Ok(checksum)
}

fn read_range(file: &File, bytes: &mut [u8], start: u64, access: Access) -> io::Result<u32> {
    let mut checksum = 0;
    match access {
        Access::Buffered => {
            let mut offset = start;
            for chunk in bytes.chunks_mut(CHUNK) {
                file.read_exact_at(chunk, offset)?;
                checksum = crc32c_append(checksum, chunk);
                offset += chunk.len() as u64;
            }
        }
        Access::Direct => {
            let mut bounce = Bounce::new();
            let mut offset = start;
            let mut rest = bytes;
            while !rest.is_empty() {
                let skip = (offset % BLOCK as u64) as usize;
                let length = rest.len().min(CHUNK - skip);
                let wanted = skip + length;
                let found =
                    read_blocks(file, &mut bounce.block()[..wanted.next_multiple_of(BLOCK)], offset - skip as u64)?;
                if found < wanted {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                let (now, later) = rest.split_at_mut(length);
                now.copy_from_slice(&bounce.block()[skip..wanted]);
                checksum = crc32c_append(checksum, now);
                offset += length as u64;
                rest = later;
            }
        }
    }
    Ok(checksum)
}

/// As many bytes as there are, in whole blocks until the end of the file.
fn read_blocks(file: &File, blocks: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut found = 0;
    while found < blocks.len() {
        match file.read_at(&mut blocks[found..], offset + found as u64) {
            Ok(0) => break,
            Ok(bytes) => {
                found += bytes;
                if bytes % BLOCK != 0 {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// A page's buffers in the extent that its body was read into.
pub(crate) fn buffers(image: &Image, extent: &Arc<Extent>) -> Vec<PageBuffer> {
    let start = image.body().0;
    let place = |&(offset, length): &(u64, u64)| {
        let from = (offset - start) as usize;
        PageBuffer { extent: Arc::clone(extent), range: from..from + length as usize }
    };
    image.places.iter().map(place).collect()
}
