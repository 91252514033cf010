//! Page images in files: written in one pass with their checksum, and read back with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use craton_slab::Extent;
use crc32c::{crc32c_append, crc32c_combine};
use rustix::fs::{Advice, OFlags};

use crate::api::PageBuffer;
use crate::error::Error;
use crate::images::{Image, Layout};

// Bytes that are checked and handed to the system at a time: few enough to stay in a core's cache.
const CHUNK: usize = 1 << 20;
// Bodies of at least this many bytes are read by several threads.
const PARALLEL: usize = 16 << 20;
const READERS: usize = 4;
// The unit of direct I/O, in bytes: no block device that matters has a larger one.
const BLOCK: usize = 4096;
// Slices that the system takes in one call.
const SLICES: usize = 1024;

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
    let mut slices: Vec<&[u8]> = layout.slices(buffers).into_iter().flat_map(|slice| slice.chunks(CHUNK)).collect();
    let checksum = slices.iter().fold(0, |checksum, slice| crc32c_append(checksum, slice));
    let tail = layout.tail(checksum);
    slices.push(&tail);
    let attempt = |access| {
        create(path, access).and_then(|(file, access)| {
            let written = match access {
                Access::Buffered => write_buffered(&file, &slices),
                Access::Direct => write_direct(&file, &slices),
            };
            written.inspect_err(|_| drop(fs::remove_file(path)))
        })
    };
    let written = match attempt(access) {
        Err(error) if matches!(access, Access::Direct) && refused(&error) => attempt(Access::Buffered),
        other => other,
    };
    written.map_err(|error| Error::io(format!("write the page image {}", path.display()), &error))?;
    Ok(layout.image(buffers, crc32c_append(checksum, &tail)))
}

/// Whether this is how a file system says, when the file is opened or later, that it has no direct I/O of such blocks.
fn refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
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
            Err(error) if refused(&error) => {}
            other => return other.map(|file| (file, access)),
        }
    }
    options.open(path).map(|file| (file, Access::Buffered))
}

fn write_buffered(file: &File, slices: &[&[u8]]) -> io::Result<()> {
    let (mut offset, mut next) = (0, 0);
    while next < slices.len() {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while next < slices.len() && batch.len() < SLICES && (batch.is_empty() || bytes + slices[next].len() <= CHUNK) {
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
    Ok(())
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

fn write_direct(file: &File, slices: &[&[u8]]) -> io::Result<()> {
    let mut bounce = Bounce::new();
    let (mut offset, mut filled) = (0, 0);
    for slice in slices {
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
    Ok(())
}

/// Read an image's buffers into `extent`, which is as long as they are together, and compare the whole file with what was written.
pub(crate) fn read(path: &Path, image: &Image, extent: &mut Extent, access: Access) -> Result<(), Fault> {
    match read_by(path, image, extent, access) {
        Err(Fault::System(error)) if matches!(access, Access::Direct) && refused(&error) => {
            read_by(path, image, extent, Access::Buffered)
        }
        other => other,
    }
}

fn read_by(path: &Path, image: &Image, extent: &mut Extent, access: Access) -> Result<(), Fault> {
    let mut options = OpenOptions::new();
    options.read(true);
    let direct = matches!(access, Access::Direct)
        .then(|| options.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(path).ok())
        .flatten();
    let access = if direct.is_some() { Access::Direct } else { Access::Buffered };
    let file = direct.map_or_else(|| options.open(path), Ok)?;
    let found = file.metadata()?.len();
    if found != image.total {
        return Err(Fault::Damaged(format!("the file has {found} bytes, and {} were written", image.total)));
    }
    let scratch = |from: u64, to: u64| {
        let length = usize::try_from(to - from).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok::<_, io::Error>(vec![0; length])
    };
    let Range { start, end } = image.body;
    let memory = extent.as_mut_slice().ok_or_else(|| Fault::System(io::ErrorKind::PermissionDenied.into()))?;
    let mut compressed = Vec::new();
    let body: &mut [u8] = if image.is_compressed() {
        compressed = scratch(start, end)?;
        &mut compressed
    } else {
        &mut *memory
    };
    let length = body.len();
    let before = read_range(&file, &mut scratch(0, start)?, 0, access)?;
    let checksum = crc32c_combine(before, read_body(&file, body, start, access)?, length);
    let mut after = scratch(end, image.total)?;
    let checksum = crc32c_combine(checksum, read_range(&file, &mut after, end, access)?, after.len());
    if checksum != image.checksum {
        return Err(Fault::Damaged(format!("its checksum is {checksum:08x}, and {:08x} was written", image.checksum)));
    }
    if image.is_compressed() {
        image.decompress(&compressed, memory).map_err(Fault::Damaged)?;
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

/// A page's buffers in the extent that it was read into.
pub(crate) fn buffers(image: &Image, extent: &Arc<Extent>) -> Vec<PageBuffer> {
    let place = |range: &Range<usize>| PageBuffer { extent: Arc::clone(extent), range: range.clone() };
    image.ranges.iter().map(place).collect()
}
