//! The layout of an image that is to be written.

use std::io::Write;
use std::ops::Range;

use arrow_ipc::{Block, FooterBuilder, KeyValueBuilder, MetadataVersion};
use flatbuffers::{FlatBufferBuilder, WIPOffset};

use super::{CONTINUATION, CRC_KEY, Compression, MAGIC, VERSION, VERSION_KEY, ZEROS, checksum};
use crate::batch::{ALIGNMENT, Body, round_up};
use crate::error::{Result, at_most, invalid};
use crate::header::Header;
use crate::schema;

/// The alignment of bodies, and of buffers that are at least as large as the alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Multiples of 64 bytes.
    Line,
    /// Multiples of 4096 bytes, which direct I/O needs.
    Page,
}

impl Align {
    fn bytes(self) -> u64 {
        match self {
            Align::Line => ALIGNMENT,
            Align::Page => 4096,
        }
    }
}

/// A part of an image. The gaps between parts are zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// These bytes.
    Metadata(&'a [u8]),
    /// The page's buffer of that number.
    Buffer(usize),
}

/// Visit metadata and buffers in the order of their places in the file.
pub(super) fn in_order<'a>(
    metadata: &'a [(u64, Vec<u8>)],
    places: &[Range<u64>],
    mut visit: impl FnMut(u64, Piece<'a>) -> Result<()>,
) -> Result<()> {
    let mut metadata = metadata.iter().peekable();
    // The buffers of our images are in order; those of files by other writers may not be.
    let mut order: Vec<usize> = (0..places.len()).filter(|&number| !places[number].is_empty()).collect();
    if !order.is_sorted_by_key(|&number| places[number].start) {
        order.sort_by_key(|&number| places[number].start);
    }
    for number in order {
        while let Some((at, bytes)) = metadata.next_if(|(at, _)| *at <= places[number].start) {
            visit(*at, Piece::Metadata(bytes))?;
        }
        visit(places[number].start, Piece::Buffer(number))?;
    }
    metadata.try_for_each(|(at, bytes)| visit(*at, Piece::Metadata(bytes)))
}

/// The layout of an image: everything except the buffers and the checksum.
#[derive(Debug, Clone)]
pub struct ImagePlan {
    metadata: Vec<(u64, Vec<u8>)>,
    places: Vec<Range<u64>>,
    end: u64,
    /// The tail with the checksum 0, and the position of the checksum's digits in it.
    tail: (Vec<u8>, usize),
}

impl ImagePlan {
    /// Lay out a page with uncompressed buffers.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid) or [`TooLarge`](crate::Error::TooLarge) when the header is not valid.
    pub fn new(header: &[u8], align: Align) -> Result<Self> {
        let header = Header::parse(header)?;
        let lengths = header.lengths()?;
        Self::lay_out(&header, &lengths, align, Compression::None)
    }

    /// Lay out a page whose buffers were compressed by [`compress`](super::compress) to these lengths in bytes.
    ///
    /// # Errors
    /// As [`ImagePlan::new`], and [`Invalid`](crate::Error::Invalid) when the header has another number of buffers.
    pub fn compressed(header: &[u8], lengths: &[u64], align: Align) -> Result<Self> {
        let header = Header::parse(header)?;
        if lengths.len() != header.buffers {
            invalid!("{} lengths are given, and the header has {} buffers", lengths.len(), header.buffers);
        }
        Self::lay_out(&header, lengths, align, Compression::Lz4)
    }

    fn lay_out(header: &Header<'_>, lengths: &[u64], align: Align, compression: Compression) -> Result<Self> {
        let mut first = MAGIC.to_vec();
        push_message(&mut first, 0, header.schema, 8)?;
        let mut plan = Self {
            metadata: vec![(0, first)],
            places: Vec::with_capacity(lengths.len()),
            end: 0,
            tail: (Vec::new(), 0),
        };
        let mut at = plan.metadata[0].1.len() as u64;
        let (mut dictionaries, mut batches) = (Vec::new(), Vec::new());
        for part in &header.parts {
            let lengths = &lengths[part.first..part.first + part.view.buffers()];
            let mut body = Body { length: 0, ..part.view.body([])? };
            for &length in lengths {
                if length >= align.bytes() {
                    body.length = round_up(body.length, align.bytes()).unwrap_or(u64::MAX);
                }
                let Ok(length) = usize::try_from(length) else { invalid!("a buffer of {length} bytes") };
                body.place(length)?;
            }
            let Some(length) = round_up(body.length, align.bytes()) else {
                invalid!("the length of the body overflows 64 bits")
            };
            body.length = length;
            let message = body.message(compression == Compression::Lz4);
            let mut bytes = Vec::with_capacity(message.len() + 8 + align.bytes() as usize);
            push_message(&mut bytes, at, &message, align.bytes())?;
            let start = at + bytes.len() as u64;
            at_most("the length of an image", start.saturating_add(length), i64::MAX as u64)?;
            let block = Block::new(at as i64, bytes.len() as i32, length as i64);
            if part.view.dictionary.is_some() {
                dictionaries.push(block)
            } else {
                batches.push(block)
            }
            for place in &body.places {
                let start = start + place.offset().unsigned_abs();
                plan.places.push(start..start + place.length().unsigned_abs());
            }
            plan.metadata.push((at, bytes));
            at = start + length;
        }
        let mut marker = CONTINUATION.to_vec();
        marker.extend_from_slice(&[0; 4]);
        plan.end = at + marker.len() as u64;
        plan.metadata.push((at, marker));
        plan.tail = tail(header, &dictionaries, &batches)?;
        Ok(plan)
    }

    /// The place of each buffer, in bytes from the start of the file.
    #[must_use]
    pub fn places(&self) -> &[Range<u64>] {
        &self.places
    }

    /// The parts before the tail with their places, in order; the gaps between them are zeros.
    #[must_use]
    pub fn pieces(&self) -> Vec<(u64, Piece<'_>)> {
        let mut pieces = Vec::with_capacity(self.metadata.len() + self.places.len());
        // The visitor does not fail.
        let _ = in_order(&self.metadata, &self.places, |at, piece| {
            pieces.push((at, piece));
            Ok(())
        });
        pieces
    }

    /// Where the tail begins: the number of bytes that the checksum covers.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The length of the whole image, in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.end + self.tail.0.len() as u64
    }

    /// The checksum of everything before the tail, given the stored buffers.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid) when a buffer has another length than the plan.
    pub fn checksum<B: AsRef<[u8]>>(&self, buffers: &[B]) -> Result<u32> {
        checksum(&self.metadata, &self.places, self.end, buffers)
    }

    /// The footer with this checksum, to be written at [`end`](Self::end).
    #[must_use]
    pub fn tail(&self, crc: u32) -> Vec<u8> {
        let (mut tail, at) = self.tail.clone();
        tail[at..at + 8].copy_from_slice(format!("{crc:08x}").as_bytes());
        tail
    }

    /// Write the image. Returns the checksum.
    ///
    /// # Errors
    /// [`Io`](crate::Error::Io) when writing fails, [`Invalid`](crate::Error::Invalid) when a buffer has another length than the plan.
    pub fn write<B: AsRef<[u8]>>(&self, file: &mut impl Write, buffers: &[B]) -> Result<u32> {
        let crc = self.checksum(buffers)?;
        let mut at = 0;
        let zeros = |file: &mut dyn Write, mut count: u64| -> Result<()> {
            while count > 0 {
                let some = count.min(ZEROS.len() as u64);
                file.write_all(&ZEROS[..some as usize])?;
                count -= some;
            }
            Ok(())
        };
        for (start, piece) in self.pieces() {
            zeros(file, start - at)?;
            let bytes = match piece {
                Piece::Metadata(bytes) => bytes,
                Piece::Buffer(number) => buffers[number].as_ref(),
            };
            file.write_all(bytes)?;
            at = start + bytes.len() as u64;
        }
        zeros(file, self.end - at)?;
        file.write_all(&self.tail(crc))?;
        Ok(crc)
    }
}

/// Append a message, padded so that the next part begins at a multiple of `align` in the file. `bytes` begins at `at` in the file.
fn push_message(bytes: &mut Vec<u8>, at: u64, message: &[u8], align: u64) -> Result<()> {
    let start = bytes.len() as u64 + 8;
    let end = round_up(at + start + message.len() as u64, align).unwrap_or(u64::MAX) - at;
    at_most("the length of a message", end, i32::MAX as u64)?;
    bytes.extend_from_slice(&CONTINUATION);
    bytes.extend_from_slice(&((end - start) as u32).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes.resize(end as usize, 0);
    Ok(())
}

/// The footer with the checksum 0, its length and the magic; and the position of the checksum's digits.
fn tail(header: &Header<'_>, dictionaries: &[Block], batches: &[Block]) -> Result<(Vec<u8>, usize)> {
    const DIGITS: &str = "########";
    let ids = schema::dictionary_ids(header.schema)?;
    let arrow_schema = schema::read(header.schema)?;
    let mut fbb = FlatBufferBuilder::with_capacity(1024);
    let schema = schema::write(&mut fbb, &arrow_schema);
    let dictionaries = fbb.create_vector(dictionaries);
    let batches = fbb.create_vector(batches);
    let entries: Vec<WIPOffset<_>> = [(CRC_KEY, DIGITS), (VERSION_KEY, VERSION)]
        .into_iter()
        .map(|(key, value)| {
            let (key, value) = (fbb.create_string(key), fbb.create_string(value));
            let mut entry = KeyValueBuilder::new(&mut fbb);
            entry.add_key(key);
            entry.add_value(value);
            entry.finish()
        })
        .collect();
    let entries = fbb.create_vector(&entries);
    let mut footer = FooterBuilder::new(&mut fbb);
    footer.add_version(MetadataVersion::V5);
    footer.add_schema(schema);
    footer.add_dictionaries(dictionaries);
    footer.add_recordBatches(batches);
    footer.add_custom_metadata(entries);
    let footer = footer.finish();
    fbb.finish(footer, None);
    let mut bytes = fbb.finished_data().to_vec();
    // SAFETY: the bytes are the flatbuffer that was just built.
    schema::renumber(&mut bytes, &ids, |bytes| unsafe { arrow_ipc::root_as_footer_unchecked(bytes) }.schema())?;
    // SAFETY: as above; only numbers were replaced.
    let footer = unsafe { arrow_ipc::root_as_footer_unchecked(&bytes) };
    let digits = footer.custom_metadata().and_then(|entries| entries.get(0).value()).map(str::as_ptr);
    let Some(at) = digits.map(|digits| digits as usize - bytes.as_ptr() as usize) else {
        invalid!("the footer has no checksum")
    };
    let length = bytes.len() as u32;
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&MAGIC[..6]);
    bytes[at..at + 8].copy_from_slice(b"00000000");
    Ok((bytes, at))
}
