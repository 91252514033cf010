//! Parsing and verifying existing images.

use std::collections::HashSet;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::ops::Range;

use arrow_ipc::{Block, Footer, MetadataVersion};

use super::{CONTINUATION, CRC_KEY, Compression, MAGIC, VERSION, VERSION_KEY, checksum, decompressed_length};
use crate::batch::View;
use crate::error::{Error, Result, at_most, invalid, size};
use crate::header::{HeaderWriter, MAX_BUFFERS, MAX_HEADER};
use crate::schema;

/// The metadata of a page in a file.
#[derive(Debug, Clone)]
pub struct Image {
    /// The page's header.
    pub header: Vec<u8>,
    /// Rows.
    pub rows: u64,
    /// The place of each stored buffer, in bytes from the start of the file.
    pub places: Vec<Range<u64>>,
    /// The length of each buffer in memory, in bytes.
    pub lengths: Vec<u64>,
    /// How the buffers are stored.
    pub compression: Compression,
    /// The checksum of everything before the footer; a file by another writer has none.
    pub crc: Option<u32>,
    /// Where the footer begins.
    pub end: u64,
    metadata: Vec<(u64, Vec<u8>)>,
}

/// A message's metadata: its place in the file, its bytes including prefix and padding, and which of them are the flatbuffer.
struct Metadata {
    at: u64,
    bytes: Vec<u8>,
    flatbuffer: Range<usize>,
}

impl Image {
    /// Read the metadata of an image in memory.
    ///
    /// # Errors
    /// As [`Image::read`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::read(&mut Cursor::new(bytes))
    }

    /// Read the metadata of an image. It may be one of [`ImagePlan`](super::ImagePlan), or any Arrow IPC file with one record batch,
    /// uncompressed or compressed with LZ4, and without delta dictionaries.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) or [`TooLarge`](Error::TooLarge) when it is not such a file, [`Io`](Error::Io) when reading fails.
    pub fn read(file: &mut (impl Read + Seek)) -> Result<Self> {
        let total = file.seek(SeekFrom::End(0))?;
        let ending: [u8; 10] = match total.checked_sub(10) {
            Some(at) if at >= 8 => read(file, at, 10)?.try_into().unwrap_or_default(),
            _ => invalid!("an Arrow IPC file has more than 18 bytes, and this one has {total}"),
        };
        if ending[4..] != MAGIC[..6] || read(file, 0, 8)? != MAGIC {
            invalid!("an Arrow IPC file begins and ends with ARROW1");
        }
        let length = u64::from(u32::from_le_bytes([ending[0], ending[1], ending[2], ending[3]]));
        at_most("the length of a footer", length, MAX_HEADER as u64)?;
        let Some(end) = (total - 10).checked_sub(length).filter(|&end| end >= 8) else {
            invalid!("a footer of {length} bytes in a file of {total}");
        };
        let footer = read(file, end, length)?;
        let footer = arrow_ipc::root_as_footer_with_opts(&schema::verifier(), &footer)
            .map_err(|error| Error::Invalid(format!("the footer is not a valid flatbuffer: {error}")))?;
        if footer.version() != MetadataVersion::V5 {
            invalid!("Arrow metadata {:?}, and V5 is expected", footer.version());
        }
        let (crc, own) = own_metadata(footer)?;
        let mut image = Self {
            header: Vec::new(),
            rows: 0,
            places: Vec::new(),
            lengths: Vec::new(),
            compression: Compression::None,
            crc,
            end,
            metadata: Vec::new(),
        };
        let mut header = if own {
            let first = message(file, MAGIC.len() as u64, end)?;
            let bytes = &first.bytes[first.flatbuffer.clone()];
            schema::read(bytes)?;
            let header = HeaderWriter::new(bytes)?;
            image.metadata.push((0, MAGIC.to_vec()));
            image.metadata.push((first.at, first.bytes));
            header
        } else {
            // Other writers may put the schema message elsewhere, so the footer's schema is used.
            let Some(schema) = footer.schema() else { invalid!("the footer has no schema") };
            HeaderWriter::new(&schema::message_of(schema)?)?
        };
        let batches = footer.recordBatches().map_or(0, |blocks| blocks.len());
        if batches != 1 {
            invalid!("the file has {batches} record batches, and one is expected");
        }
        let dictionaries = footer.dictionaries();
        let mut ids = HashSet::new();
        let blocks = dictionaries.iter().flatten().map(|block| (block, true));
        for (block, dictionary) in blocks.chain(footer.recordBatches().iter().flatten().map(|block| (block, false))) {
            let found = image.part(file, block, own, &mut header)?;
            if found.is_some() != dictionary || found.is_some_and(|id| !ids.insert(id)) {
                invalid!(
                    "a block of the footer has dictionary {found:?}, which is a duplicate or in the wrong list of blocks"
                );
            }
        }
        image.header = header.finish(image.rows);
        if own {
            // The end-of-stream marker after the last message, which the checksum covers.
            let Some(at) = end.checked_sub(8) else {
                invalid!("the footer is at {end}, where no message fits before it")
            };
            image.metadata.push((at, read(file, at, 8)?));
        }
        Ok(image)
    }

    /// Read a message with a body. Returns the dictionary's number, or `None` for a record batch.
    fn part(
        &mut self,
        file: &mut (impl Read + Seek),
        block: &Block,
        own: bool,
        header: &mut HeaderWriter,
    ) -> Result<Option<i64>> {
        let at = size("a block's offset", block.offset())? as u64;
        let metadata = message(file, at, self.end)?;
        let view = View::new(&metadata.bytes[metadata.flatbuffer.clone()])?;
        let said = size("the length of a block's metadata", block.metaDataLength())?;
        let length = size("the length of a block's body", block.bodyLength())? as u64;
        if said != metadata.bytes.len() || length < view.length || own && length != view.length {
            invalid!(
                "a block of {said} and {length} bytes has a message of {} and {} bytes",
                metadata.bytes.len(),
                view.length
            );
        }
        let start = at + metadata.bytes.len() as u64;
        if start.checked_add(view.length).is_none_or(|end| end > self.end) {
            invalid!("a body of {} bytes at {start}, and the footer is at {}", view.length, self.end);
        }
        if view.lz4()? {
            self.compression = Compression::Lz4;
        } else if self.compression == Compression::Lz4 {
            invalid!("the file mixes compressed and uncompressed messages");
        }
        let first = self.places.len();
        at_most("the number of buffers", (first + view.buffers()) as u64, MAX_BUFFERS)?;
        for index in 0..view.buffers() {
            let (offset, length) = view.place(index)?;
            if offset.checked_add(length).is_none_or(|end| end > view.length) {
                invalid!("buffer {index} has {length} bytes at {offset} of a body of {}", view.length);
            }
            let place = start + offset..start + offset + length;
            self.lengths.push(match self.compression {
                Compression::None => length,
                Compression::Lz4 => {
                    let prefix = read(file, place.start, length.min(8))?;
                    decompressed_length(&prefix, length)?
                }
            });
            self.places.push(place);
        }
        let stored: u64 = self.places[first..].iter().map(|place| place.end - place.start).sum();
        if stored > view.length {
            invalid!("buffers of {stored} bytes overlap in a body of {}", view.length);
        }
        let message = view.body(self.lengths[first..].iter().copied())?.message(false);
        header.push(&message, view.buffers())?;
        let (rows, dictionary) = (view.rows(), view.dictionary);
        self.metadata.push((metadata.at, metadata.bytes));
        if dictionary.is_none() {
            self.rows = rows;
        }
        Ok(dictionary)
    }

    /// The checksum of everything before the footer, given the stored buffers; gaps between them count as zeros.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) when a buffer has another length than the image's.
    pub fn checksum<B: AsRef<[u8]>>(&self, buffers: &[B]) -> Result<u32> {
        checksum(&self.metadata, &self.places, self.end, buffers)
    }

    /// Verify the stored buffers against the checksum of the image. A file by another writer has no checksum and passes.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) when the checksum differs.
    pub fn verify_buffers<B: AsRef<[u8]>>(&self, buffers: &[B]) -> Result<()> {
        match self.crc {
            Some(crc) => same(crc, self.checksum(buffers)?),
            None => Ok(()),
        }
    }

    /// Read the whole file and verify its checksum. A file by another writer has no checksum and passes.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) when the checksum differs, [`Io`](Error::Io) when reading fails.
    pub fn verify(&self, file: &mut (impl Read + Seek)) -> Result<()> {
        let Some(crc) = self.crc else { return Ok(()) };
        file.seek(SeekFrom::Start(0))?;
        let (mut found, mut left, mut chunk) = (0, self.end, vec![0; 1 << 20]);
        while left > 0 {
            let some = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            file.read_exact(&mut chunk[..some])?;
            found = crc32c::crc32c_append(found, &chunk[..some]);
            left -= some as u64;
        }
        same(crc, found)
    }
}

fn same(expected: u32, found: u32) -> Result<()> {
    if expected != found {
        invalid!("the image has the checksum {found:08x}, and {expected:08x} is expected");
    }
    Ok(())
}

/// The checksum in a footer, and whether the file is one of our images.
fn own_metadata(footer: Footer<'_>) -> Result<(Option<u32>, bool)> {
    let value = |wanted: &str| {
        let mut entries = footer.custom_metadata().into_iter().flatten();
        entries.find(|entry| entry.key() == Some(wanted)).map(|entry| entry.value().unwrap_or_default())
    };
    match (value(VERSION_KEY), value(CRC_KEY)) {
        (None, None) => Ok((None, false)),
        (Some(VERSION), Some(crc)) => match u32::from_str_radix(crc, 16) {
            Ok(crc) => Ok((Some(crc), true)),
            Err(_) => invalid!("the image's checksum is {crc:?}"),
        },
        (version, crc) => invalid!("the image has version {version:?} and checksum {crc:?}; {VERSION} is expected"),
    }
}

/// Read `length` bytes. The length is untrusted: memory grows only as bytes are read.
fn read(file: &mut (impl Read + Seek), at: u64, length: u64) -> Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        invalid!("the file has {} bytes at {at}, and {length} are expected", bytes.len());
    }
    Ok(bytes)
}

/// Read the metadata of the message at `at`.
fn message(file: &mut (impl Read + Seek), at: u64, end: u64) -> Result<Metadata> {
    if at.checked_add(8).is_none_or(|start| start > end) {
        invalid!("a message at {at}, and the footer is at {end}");
    }
    let prefix = read(file, at, 8)?;
    if prefix[..4] != CONTINUATION {
        invalid!("the message at {at} does not begin with the continuation marker");
    }
    let length = u64::from(u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]));
    at_most("the length of a message", length, MAX_HEADER as u64)?;
    if length > end - at - 8 {
        invalid!("a message of {length} bytes at {at}, and the footer is at {end}");
    }
    let mut bytes = prefix;
    bytes.extend_from_slice(&read(file, at + 8, length)?);
    let flatbuffer = 8..bytes.len();
    Ok(Metadata { at, bytes, flatbuffer })
}
