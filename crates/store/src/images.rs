//! Page images: the layout of a page in its file, an Arrow IPC file that any Arrow reader opens.

use std::fs::OpenOptions;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use arrow_buffer::Buffer;
use craton_wire::image::{Align, ImagePlan, Piece, compress, decompress_into};
use rustix::fs::OFlags;

use crate::api::PageBuffer;
use crate::error::{Error, Result};

/// The compression of page images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Uncompressed, as the pages are in memory.
    #[default]
    None,
    /// Every buffer as an LZ4 frame.
    Lz4,
}

static ZEROS: [u8; 4096] = [0; 4096];

/// The layout of a page's image that is to be written.
pub(crate) struct Layout {
    plan: ImagePlan,
    // The compressed buffers, which are written instead of the page's buffers; `None` without compression.
    compressed: Option<Vec<Buffer>>,
}

fn invalid(error: craton_wire::Error) -> Error {
    Error::Invalid(format!("the page's header: {error}"))
}

/// Check that the header is valid and describes buffers of these lengths.
///
/// # Errors
/// [`Error::Invalid`] otherwise.
pub(crate) fn check(header: &[u8], lengths: impl ExactSizeIterator<Item = u64>) -> Result<()> {
    let plan = ImagePlan::new(header, Align::Line).map_err(invalid)?;
    let (expected, found) = (plan.places().len(), lengths.len());
    if expected != found {
        return Err(Error::Invalid(format!("the page has {found} buffers, and its header has {expected}")));
    }
    for (number, (place, found)) in plan.places().iter().zip(lengths).enumerate() {
        let expected = place.end - place.start;
        if expected != found {
            return Err(Error::Invalid(format!("buffer {number} has {found} bytes, and in the header {expected}")));
        }
    }
    Ok(())
}

impl Layout {
    /// Lay out the image of a page whose header was [`check`]ed.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the header is not valid.
    pub(crate) fn new(header: &[u8], buffers: &[PageBuffer], compression: Compression) -> Result<Self> {
        if compression == Compression::None {
            return Ok(Self { plan: ImagePlan::new(header, Align::Line).map_err(invalid)?, compressed: None });
        }
        let slices: Vec<&[u8]> = buffers.iter().map(PageBuffer::as_slice).collect();
        let compressed = compress(&slices).map_err(invalid)?;
        let lengths: Vec<u64> = compressed.iter().map(|buffer| buffer.len() as u64).collect();
        let plan = ImagePlan::compressed(header, &lengths, Align::Line).map_err(invalid)?;
        Ok(Self { plan, compressed: Some(compressed) })
    }

    /// Everything before the tail as slices, given the page's buffers.
    pub(crate) fn slices<'a>(&'a self, buffers: &'a [PageBuffer]) -> Vec<&'a [u8]> {
        let mut slices: Vec<&[u8]> = Vec::new();
        let mut at = 0;
        let mut fill = |slices: &mut Vec<&'a [u8]>, to: u64, length: usize| {
            while at < to {
                let zeros = &ZEROS[..(to - at).min(ZEROS.len() as u64) as usize];
                slices.push(zeros);
                at += zeros.len() as u64;
            }
            at += length as u64;
        };
        for (start, piece) in self.plan.pieces() {
            let bytes: &[u8] = match (piece, &self.compressed) {
                (Piece::Metadata(bytes), _) => bytes,
                (Piece::Buffer(number), Some(compressed)) => &compressed[number],
                (Piece::Buffer(number), None) => buffers[number].as_slice(),
            };
            fill(&mut slices, start, bytes.len());
            slices.push(bytes);
        }
        fill(&mut slices, self.plan.end(), 0);
        slices
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> u64 {
        self.plan.length()
    }

    /// The end of the file, given the CRC-32C of everything before it.
    pub(crate) fn tail(&self, checksum: u32) -> Vec<u8> {
        self.plan.tail(checksum)
    }

    /// The description of the image, given the CRC-32C of the file.
    pub(crate) fn image(&self, buffers: &[PageBuffer], checksum: u32) -> Image {
        let places = self.plan.places();
        let filled = || places.iter().filter(|place| !place.is_empty());
        let start = filled().map(|place| place.start).min().unwrap_or(0);
        let end = filled().map(|place| place.end).max().unwrap_or(0);
        let mut length = 0;
        let ranges = places.iter().zip(buffers).map(|(place, buffer)| {
            let bytes = buffer.range.len();
            let from = match (bytes, &self.compressed) {
                (0, _) => 0,
                (_, None) => (place.start - start) as usize,
                (_, Some(_)) => length,
            };
            length = (from + bytes).next_multiple_of(craton_slab::ALIGNMENT).max(length);
            from..from + bytes
        });
        let ranges: Vec<Range<usize>> = ranges.collect();
        Image {
            length: ranges.iter().map(|range| range.end).max().unwrap_or(0),
            ranges,
            stored: self.compressed.is_some().then(|| places.to_vec()),
            body: start..end,
            total: self.plan.length(),
            checksum,
        }
    }
}

/// The description of an image, by which it is read back and verified.
#[derive(Debug)]
pub(crate) struct Image {
    /// The range of each buffer in the memory that the page is read into.
    pub(crate) ranges: Vec<Range<usize>>,
    /// Bytes of that memory.
    pub(crate) length: usize,
    // The ranges of the compressed buffers in the file; `None` if the body is stored exactly as it is in memory.
    stored: Option<Vec<Range<u64>>>,
    /// The body: the range in the file from the start of the first buffer to the end of the last.
    pub(crate) body: Range<u64>,
    /// Bytes of the file.
    pub(crate) total: u64,
    /// CRC-32C of the file.
    pub(crate) checksum: u32,
}

impl Image {
    /// Whether the body has to be decompressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.stored.is_some()
    }

    /// Decompress a body into the memory of the page.
    ///
    /// # Errors
    /// The reason, when it is damaged.
    pub(crate) fn decompress(&self, body: &[u8], memory: &mut [u8]) -> std::result::Result<(), String> {
        for (place, range) in self.stored.iter().flatten().zip(&self.ranges).filter(|(_, range)| !range.is_empty()) {
            let stored = (place.start - self.body.start) as usize..(place.end - self.body.start) as usize;
            decompress_into(&body[stored], &mut memory[range.clone()]).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Verify the file of a page against its own checksum.
///
/// # Errors
/// [`Error::Invalid`] when it is damaged or not an Arrow file of one batch; [`Error::Io`] when it cannot be read.
pub fn verify_file(path: &Path) -> Result<()> {
    let named = |why: String| Error::Invalid(format!("{}: {why}", path.display()));
    let io = |error: std::io::Error| Error::io(format!("open {}", path.display()), &error);
    // Without NONBLOCK, opening a pipe would block.
    let mut file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path).map_err(io)?;
    if !file.metadata().map_err(io)?.is_file() {
        return Err(named("it is not a regular file".into()));
    }
    let image = craton_wire::image::Image::read(&mut file).map_err(|error| named(error.to_string()))?;
    image.verify(&mut file).map_err(|error| named(error.to_string()))
}
