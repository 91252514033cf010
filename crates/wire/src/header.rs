//! The header of a page: the messages of an Arrow IPC stream without their bodies.
//!
//! All numbers are little-endian. The header begins with 32 bytes:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `CRWH` |
//! | 4..6 | version, 1 |
//! | 6..8 | 0 |
//! | 8..12 | CRC-32C of everything from byte 12 |
//! | 12..16 | number of messages |
//! | 16..24 | number of rows |
//! | 24..32 | number of buffers |
//!
//! The messages follow, each as the length of its flatbuffer and the number of its buffers, four bytes each, and then the flatbuffer, padded
//! with zeros to a multiple of eight bytes. The first message is the schema, the last one the record batch; the others are the dictionaries.
//!
//! The offsets of buffers in the flatbuffers are *virtual*: they are those of a body in which each buffer follows the one before, at a
//! multiple of 64 bytes.

use crate::batch::View;
use crate::error::{Result, at_most, invalid, size};

const MAGIC: &[u8; 4] = b"CRWH";
const VERSION: u16 = 1;
const FIXED: usize = 32;

/// The longest header that is accepted, in bytes.
pub const MAX_HEADER: usize = 512 << 20;

/// The most buffers that are accepted in one page.
pub(crate) const MAX_BUFFERS: u64 = 1 << 24;

/// Writes a header.
pub(crate) struct HeaderWriter {
    bytes: Vec<u8>,
    messages: u32,
    buffers: u64,
}

impl HeaderWriter {
    /// Begin with the flatbuffer of a schema message.
    pub(crate) fn new(schema: &[u8]) -> Result<Self> {
        let mut bytes = Vec::with_capacity(FIXED + 8 + schema.len() + 1024);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.resize(FIXED, 0);
        let mut writer = Self { bytes, messages: 0, buffers: 0 };
        writer.push(schema, 0)?;
        Ok(writer)
    }

    /// Add a message that has `buffers` buffers.
    pub(crate) fn push(&mut self, message: &[u8], buffers: usize) -> Result<()> {
        self.messages += 1;
        self.buffers += buffers as u64;
        at_most("the number of buffers", self.buffers, MAX_BUFFERS)?;
        at_most("the header's length", (self.bytes.len() + message.len() + 16) as u64, MAX_HEADER as u64)?;
        // Padded as in an image, so that a page read from an image has the same header.
        self.bytes.extend_from_slice(&(message.len().next_multiple_of(8) as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(buffers as u32).to_le_bytes());
        self.bytes.extend_from_slice(message);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        Ok(())
    }

    /// Complete the header of a batch of that many rows.
    pub(crate) fn finish(mut self, rows: u64) -> Vec<u8> {
        self.bytes[12..16].copy_from_slice(&self.messages.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&rows.to_le_bytes());
        self.bytes[24..32].copy_from_slice(&self.buffers.to_le_bytes());
        let crc = crc32c::crc32c(&self.bytes[12..]);
        self.bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        self.bytes
    }
}

/// A message with buffers, in a header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The view of its flatbuffer.
    pub(crate) view: View<'a>,
    /// The page-wide number of its first buffer.
    pub(crate) first: usize,
}

/// A verified header: the number of buffers is the sum of those of all messages, and the last part is the record batch.
#[derive(Debug)]
pub(crate) struct Header<'a> {
    /// The flatbuffer of the schema message; not verified.
    pub(crate) schema: &'a [u8],
    /// The dictionaries, and the record batch.
    pub(crate) parts: Vec<Part<'a>>,
    /// Number of buffers of all parts.
    pub(crate) buffers: usize,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) => Ok(*chunk),
        None => invalid!("the header ends after {} bytes, in a number at {at}", bytes.len()),
    }
}

impl<'a> Header<'a> {
    /// Parse a header and verify everything but the schema.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self> {
        at_most("the header's length", bytes.len() as u64, MAX_HEADER as u64)?;
        if bytes.len() < FIXED || !bytes.starts_with(MAGIC) {
            invalid!("a page's header begins with {MAGIC:?} and has at least {FIXED} bytes; these are {}", bytes.len());
        }
        let version = u16::from_le_bytes(number(bytes, 4)?);
        if version != VERSION || number(bytes, 6)? != [0, 0] {
            invalid!("the page's header has version {version}, and {VERSION} is expected");
        }
        let (crc, found) = (u32::from_le_bytes(number(bytes, 8)?), crc32c::crc32c(&bytes[12..]));
        if crc != found {
            invalid!("the page's header has the checksum {found:08x}, and {crc:08x} is expected");
        }
        let messages = u32::from_le_bytes(number(bytes, 12)?);
        let rows = u64::from_le_bytes(number(bytes, 16)?);
        let buffers = u64::from_le_bytes(number(bytes, 24)?);
        at_most("the number of buffers", buffers, MAX_BUFFERS)?;
        let (mut at, mut first, mut schema, mut parts) = (FIXED, 0_usize, None, Vec::<Part<'a>>::new());
        for index in 0..messages {
            let length = size("a message's length", u32::from_le_bytes(number(bytes, at)?))?;
            let count = size("a message's buffers", u32::from_le_bytes(number(bytes, at + 4)?))?;
            let end = at + 8 + length;
            let (Some(message), Some(padding)) = (bytes.get(at + 8..end), bytes.get(end..end.next_multiple_of(8)))
            else {
                invalid!("message {index} ends at {end}, and the header at {}", bytes.len());
            };
            if padding.iter().any(|&byte| byte != 0) {
                invalid!("message {index} is not padded with zeros");
            }
            at = end.next_multiple_of(8);
            if schema.is_none() {
                if count != 0 {
                    invalid!("the schema has {count} buffers");
                }
                schema = Some(message);
                continue;
            }
            if parts.last().is_some_and(|part| part.view.dictionary.is_none()) {
                invalid!("message {index} follows the record batch");
            }
            let view = View::new(message)?;
            if view.buffers() != count || view.lz4()? {
                invalid!("message {index} has {} buffers, and {count}, not compressed, are expected", view.buffers());
            }
            parts.push(Part { view, first });
            first += count;
        }
        let Some(schema) = schema else { invalid!("the header has no schema") };
        let Some(last) = parts.last().filter(|part| part.view.dictionary.is_none()) else {
            invalid!("the header has no record batch")
        };
        if at != bytes.len() || first as u64 != buffers || last.view.rows() != rows {
            invalid!(
                "the header has {} bytes, {first} buffers and {} rows; {at}, {buffers} and {rows} are expected",
                bytes.len(),
                last.view.rows()
            );
        }
        Ok(Self { schema, parts, buffers: first })
    }

    /// The record batch.
    pub(crate) fn batch(&self) -> Part<'a> {
        self.parts[self.parts.len() - 1]
    }

    /// The length of every buffer.
    pub(crate) fn lengths(&self) -> Result<Vec<u64>> {
        let mut lengths = Vec::with_capacity(self.buffers);
        for part in &self.parts {
            for index in 0..part.view.buffers() {
                lengths.push(part.view.place(index)?.1);
            }
        }
        Ok(lengths)
    }
}
