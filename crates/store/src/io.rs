//! Writing page images to files, and reading and verifying them, each in one pass that also computes the checksum.

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
use crate::bounce::{BLOCK, Bounces};
use crate::error::Error;
use crate::images::{Image, Layout};

// Bytes that are checksummed and copied, or written to the page cache, at a time: few enough to stay in a core's cache.
const CHUNK: usize = 256 << 10;
// Bytes of a direct I/O request: enough to keep a disk busy, and few enough that processing overlaps well with I/O.
const DIRECT: usize = 4 << 20;
// Smaller images go through the system's page cache and may stay there, because a disk request for each would take longer.
const SMALL: u64 = 64 << 10;
// Bodies of at least this many bytes are read from the page cache by several threads.
const PARALLEL: usize = 16 << 20;
const READERS: usize = 4;
// The most slices that one system call takes (IOV_MAX).
const SLICES: usize = 1024;

/// Why an image could not be read.
pub(crate) enum Fault {
    /// The file is not what was written.
    Damaged(String),
    /// An error of the system, which may be temporary.
    System(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Fault::Damaged("the file does not exist any more".into()),
            io::ErrorKind::UnexpectedEof => Fault::Damaged("the file ends too early".into()),
            _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                Fault::Damaged("it is a link, and not a regular file".into())
            }
            _ => Fault::System(error),
        }
    }
}

/// How files are opened.
#[derive(Clone, Copy)]
pub(crate) enum Access<'a> {
    /// Through the system's page cache, from which the pages are dropped afterwards.
    Buffered,
    /// By direct I/O through these bounce buffers.
    Direct(&'a Bounces),
}

impl Access<'_> {
    /// The access for an image of that many bytes.
    fn of(self, length: u64) -> Self {
        if length < SMALL { Access::Buffered } else { self }
    }
}

/// A function that opens a file for direct I/O; tests replace it.
type Opener = fn(&OpenOptions, &Path) -> io::Result<File>;

// Do not block on pipes and do not follow links: images are regular files.
const PLAIN: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW);

fn open_direct(options: &OpenOptions, path: &Path) -> io::Result<File> {
    options.clone().custom_flags(PLAIN.union(OFlags::DIRECT).bits() as i32).open(path)
}

/// Write an image to a new file, and create its folder if needed. After an error the file does not exist.
pub(crate) fn write(path: &Path, layout: &Layout, buffers: &[PageBuffer], access: Access<'_>) -> Result<Image, Error> {
    write_with(path, layout, buffers, access.of(layout.length()), open_direct)
}

fn write_with(
    path: &Path,
    layout: &Layout,
    buffers: &[PageBuffer],
    access: Access<'_>,
    opener: Opener,
) -> Result<Image, Error> {
    let slices = layout.slices(buffers);
    let attempt = |access| {
        create(path, access, opener).and_then(|(file, access)| {
            let written = match access {
                Access::Buffered => write_buffered(&file, &slices, layout),
                Access::Direct(bounces) => write_direct(&file, &slices, layout, bounces),
            };
            written.inspect_err(|_| drop(fs::remove_file(path)))
        })
    };
    let written = match attempt(access) {
        Err(error) if matches!(access, Access::Direct(_)) && refused(&error) => attempt(Access::Buffered),
        other => other,
    };
    let checksum = written.map_err(|error| Error::io(format!("write the page image {}", path.display()), &error))?;
    Ok(layout.image(buffers, checksum))
}

/// Whether the error, on opening or later, means that the file system does not support direct I/O of this block size.
fn refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
}

fn create<'a>(path: &Path, access: Access<'a>, opener: Opener) -> io::Result<(File, Access<'a>)> {
    match open_new(path, access, opener) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                match fs::create_dir(folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
            }
            open_new(path, access, opener)
        }
        other => other,
    }
}

fn open_new<'a>(path: &Path, access: Access<'a>, opener: Opener) -> io::Result<(File, Access<'a>)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(PLAIN.bits() as i32);
    match open_with(&options, path, access, opener) {
        // No other process writes to the folder, so an existing file is a leftover.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            open_with(&options, path, access, opener)
        }
        other => other,
    }
}

fn open_with<'a>(
    options: &OpenOptions,
    path: &Path,
    access: Access<'a>,
    opener: Opener,
) -> io::Result<(File, Access<'a>)> {
    if matches!(access, Access::Direct(_)) {
        match opener(options, path) {
            // The file system does not support direct I/O.
            Err(error) if refused(&error) => {}
            other => return other.map(|file| (file, access)),
        }
    }
    options.open(path).map(|file| (file, Access::Buffered))
}

/// Write the slices and the tail through the page cache; returns the checksum of the file.
fn write_buffered(file: &File, slices: &[&[u8]], layout: &Layout) -> io::Result<u32> {
    let (mut offset, mut checksum) = (0, 0);
    let mut chunks = slices.iter().flat_map(|slice| slice.chunks(CHUNK)).peekable();
    let mut batch = Vec::new();
    while chunks.peek().is_some() {
        batch.clear();
        let mut bytes = 0;
        while let Some(chunk) = chunks.next_if(|chunk| bytes == 0 || bytes + chunk.len() <= CHUNK) {
            bytes += chunk.len();
            checksum = crc32c_append(checksum, chunk);
            batch.push(IoSlice::new(chunk));
            if batch.len() == SLICES {
                break;
            }
        }
        write_slices(file, &mut batch, &mut offset)?;
    }
    let tail = layout.tail(checksum);
    write_slices(file, &mut [IoSlice::new(&tail)], &mut offset)?;
    Ok(crc32c_append(checksum, &tail))
}

fn write_slices(file: &File, mut rest: &mut [IoSlice<'_>], offset: &mut u64) -> io::Result<()> {
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match rustix::io::pwritev(file, rest, *offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                *offset += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Write the slices and the tail by direct I/O; returns the checksum of the file.
fn write_direct(file: &File, slices: &[&[u8]], layout: &Layout, bounces: &Bounces) -> io::Result<u32> {
    let mut bounce = bounces.take(layout.length());
    let room = DIRECT.min(bounce.len());
    let (mut offset, mut filled, mut checksum) = (0, 0, 0);
    let mut push = |mut slice: &[u8], checksum: &mut u32| {
        while !slice.is_empty() {
            let (now, later) = slice.split_at(slice.len().min(CHUNK).min(room - filled));
            *checksum = crc32c_append(*checksum, now);
            bounce[filled..filled + now.len()].copy_from_slice(now);
            filled += now.len();
            slice = later;
            if filled == room {
                file.write_all_at(&bounce[..room], offset)?;
                offset += room as u64;
                filled = 0;
            }
        }
        io::Result::Ok(())
    };
    for slice in slices {
        push(slice, &mut checksum)?;
    }
    push(&layout.tail(checksum), &mut checksum)?;
    if filled > 0 {
        let end = filled.next_multiple_of(BLOCK);
        bounce[filled..end].fill(0);
        file.write_all_at(&bounce[..end], offset)?;
        file.set_len(offset + filled as u64)?;
    }
    Ok(checksum)
}

/// Read an image's buffers into `extent`, which has their total length, and verify the whole file.
pub(crate) fn read(path: &Path, image: &Image, extent: &mut Extent, access: Access<'_>) -> Result<(), Fault> {
    read_with(path, image, extent, access.of(image.total), open_direct)
}

fn read_with(path: &Path, image: &Image, extent: &mut Extent, access: Access<'_>, opener: Opener) -> Result<(), Fault> {
    match read_by(path, image, extent, access, opener) {
        Err(Fault::System(error)) if matches!(access, Access::Direct(_)) && refused(&error) => {
            read_by(path, image, extent, Access::Buffered, opener)
        }
        other => other,
    }
}

fn read_by(path: &Path, image: &Image, extent: &mut Extent, access: Access<'_>, opener: Opener) -> Result<(), Fault> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(PLAIN.bits() as i32);
    let file = match access {
        Access::Buffered => options.open(path)?,
        Access::Direct(_) => opener(&options, path)?,
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Fault::Damaged("it is not a regular file".into()));
    }
    let found = about.len();
    if found != image.total {
        return Err(Fault::Damaged(format!("the file has {found} bytes, and {} were written", image.total)));
    }
    let memory = extent.as_mut_slice().ok_or_else(|| Fault::System(io::ErrorKind::PermissionDenied.into()))?;
    let mut compressed = Vec::new();
    let body: &mut [u8] = if image.is_compressed() {
        compressed = scratch(image.body.start, image.body.end)?;
        &mut compressed
    } else {
        &mut *memory
    };
    let checksum = match access {
        Access::Buffered => read_buffered(&file, image, body)?,
        Access::Direct(bounces) => read_direct(&file, image, body, bounces)?,
    };
    if checksum != image.checksum {
        return Err(Fault::Damaged(format!("its checksum is {checksum:08x}, and {:08x} was written", image.checksum)));
    }
    if image.is_compressed() {
        image.decompress(&compressed, memory).map_err(Fault::Damaged)?;
    }
    if matches!(access, Access::Buffered) && image.total >= SMALL {
        // The bytes are in the store's memory now, so the system need not cache a second copy.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    }
    Ok(())
}

fn scratch(from: u64, to: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(to - from).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    Ok(vec![0; length])
}

/// Read the body into `body` through the page cache; returns the checksum of the file.
fn read_buffered(file: &File, image: &Image, body: &mut [u8]) -> io::Result<u32> {
    let Range { start, end } = image.body;
    let length = body.len();
    let before = read_range(file, &mut scratch(0, start)?, 0)?;
    let checksum = crc32c_combine(before, read_body(file, body, start)?, length);
    let mut after = scratch(end, image.total)?;
    Ok(crc32c_combine(checksum, read_range(file, &mut after, end)?, after.len()))
}

fn read_body(file: &File, body: &mut [u8], start: u64) -> io::Result<u32> {
    if body.len() < PARALLEL {
        return read_range(file, body, start);
    }
    let part = body.len().div_ceil(READERS).next_multiple_of(CHUNK);
    let mut sums = Vec::new();
    std::thread::scope(|scope| {
        let readers: Vec<_> = body
            .chunks_mut(part)
            .zip((start..).step_by(part))
            .map(|(part, offset)| scope.spawn(move || (part.len(), read_range(file, part, offset))))
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

fn read_range(file: &File, bytes: &mut [u8], start: u64) -> io::Result<u32> {
    let (mut checksum, mut offset) = (0, start);
    for chunk in bytes.chunks_mut(CHUNK) {
        file.read_exact_at(chunk, offset)?;
        checksum = crc32c_append(checksum, chunk);
        offset += chunk.len() as u64;
    }
    Ok(checksum)
}

/// Read the body into `body` by direct I/O; returns the checksum of the file.
fn read_direct(file: &File, image: &Image, body: &mut [u8], bounces: &Bounces) -> io::Result<u32> {
    let mut bounce = bounces.take(image.total);
    // Parts of equal size, so that no small one is left at the end.
    let parts = image.total.div_ceil(DIRECT as u64).max(1);
    let part = (image.total.div_ceil(parts).next_multiple_of(BLOCK as u64) as usize).min(bounce.len());
    let (mut offset, mut checksum) = (0, 0);
    while offset < image.total {
        let wanted = (image.total - offset).min(part as u64) as usize;
        let found = read_blocks(file, &mut bounce[..wanted.next_multiple_of(BLOCK)], offset)?;
        if found < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = offset;
        for piece in bounce[..wanted].chunks(CHUNK) {
            checksum = crc32c_append(checksum, piece);
            let end = at + piece.len() as u64;
            let inside = at.max(image.body.start)..end.min(image.body.end);
            if !inside.is_empty() {
                let to = (inside.start - image.body.start) as usize..(inside.end - image.body.start) as usize;
                body[to].copy_from_slice(&piece[(inside.start - at) as usize..(inside.end - at) as usize]);
            }
            at = end;
        }
        offset = at;
    }
    Ok(checksum)
}

/// Read whole blocks until `blocks` is full or the file ends; returns the bytes read.
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

/// The buffers of a page in the extent that it was read into.
pub(crate) fn buffers(image: &Image, extent: &Arc<Extent>) -> Vec<PageBuffer> {
    let place = |range: &Range<usize>| PageBuffer { extent: Arc::clone(extent), range: range.clone() };
    image.ranges.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch};
    use craton_slab::{Slab, SlabOptions};
    use rustix::io::Errno;

    use super::*;
    use crate::images::Compression;

    /// Like a file system that refuses direct I/O when a file is opened.
    fn refuse(_options: &OpenOptions, _path: &Path) -> io::Result<File> {
        Err(Errno::INVAL.into())
    }

    /// Like a file system that refuses direct I/O when a file is written.
    fn refuse_later(_options: &OpenOptions, _path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj")
    }

    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Write and read pages of various sizes, with `write_opener` and `read_opener`.
    fn round_trips(name: &str, write_opener: Opener, read_opener: Opener) {
        let scratch = Scratch(std::env::temp_dir().join(format!("craton-io-{name}-{}", std::process::id())));
        fs::create_dir_all(&scratch.0).unwrap();
        let slab = Slab::new(SlabOptions::default());
        let bounces = Bounces::new(1);
        for (number, length) in [1, 4096, 100_000, DIRECT, (DIRECT * 3 / 2) + 8, (17 << 20) + 1].into_iter().enumerate()
        {
            for compression in [Compression::None, Compression::Lz4] {
                let column = FixedSizeBinaryArray::new(length as i32, vec![0u8; length].into(), None);
                let batch = RecordBatch::try_from_iter([("a", std::sync::Arc::new(column) as ArrayRef)]).unwrap();
                let header = craton_wire::encode_batch(&batch, craton_wire::Trim::Never).unwrap().header;
                let mut extent = slab.allocate(length).unwrap();
                for (at, byte) in extent.as_mut_slice().unwrap().iter_mut().enumerate() {
                    *byte = (at / 3 + number) as u8;
                }
                let extent = std::sync::Arc::new(extent);
                let place = |range| PageBuffer { extent: std::sync::Arc::clone(&extent), range };
                let page = [place(0..0), place(0..length)];
                let layout = Layout::new(&header, &page, compression).unwrap();
                let path = scratch.0.join(format!("{number}.arrow"));
                let image = write_with(&path, &layout, &page, Access::Direct(&bounces), write_opener).unwrap();
                crate::verify_file(&path).unwrap();
                let mut back = slab.allocate(image.length).unwrap();
                back.as_mut_slice().unwrap().fill(0);
                assert!(read_with(&path, &image, &mut back, Access::Direct(&bounces), read_opener).is_ok());
                assert_eq!(&back.as_slice()[image.ranges[1].clone()], page[1].as_slice());
            }
        }
    }

    #[test]
    fn pages_of_all_sizes_come_back_past_the_page_cache() {
        round_trips("direct", open_direct, open_direct);
    }

    #[test]
    fn a_file_system_without_direct_io_goes_through_the_page_cache() {
        round_trips("refused", refuse, refuse);
        round_trips("mixed", open_direct, refuse);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_system_that_refuses_direct_writes_goes_through_the_page_cache() {
        round_trips("later", refuse_later, refuse);
    }
}
