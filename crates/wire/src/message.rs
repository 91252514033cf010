//! Reference messages: a page's header, and references to its buffers in shared memory.
//!
//! All numbers are little-endian: `CRWM`, the version 1 and two zero bytes, the CRC-32C of everything from byte 12, the number of references,
//! rows (8 bytes), the header's length (8 bytes); then the references, three numbers of 8 bytes each; then the header.

use crate::error::{Result, at_most, invalid};
use crate::header::{MAX_BUFFERS, MAX_HEADER};

const MAGIC: &[u8; 4] = b"CRWM";
const VERSION: u16 = 1;
const FIXED: usize = 32;
const REFERENCE: usize = 24;

/// A page as it is sent: the header and references, without the contents of buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The page's header.
    pub header: Vec<u8>,
    /// The place of each buffer: segment, offset in it, and length in bytes.
    pub references: Vec<(u64, u64, u64)>,
    /// Rows.
    pub rows: u64,
}

impl Message {
    /// Encode the message.
    ///
    /// # Errors
    /// [`TooLarge`](crate::Error::TooLarge) when the header is too long or there are too many references.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        at_most("the header's length", self.header.len() as u64, MAX_HEADER as u64)?;
        at_most("the number of buffers", self.references.len() as u64, MAX_BUFFERS)?;
        let mut bytes = Vec::with_capacity(FIXED + REFERENCE * self.references.len() + self.header.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.resize(12, 0);
        bytes.extend_from_slice(&(self.references.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.rows.to_le_bytes());
        bytes.extend_from_slice(&(self.header.len() as u64).to_le_bytes());
        for (segment, offset, length) in &self.references {
            for number in [segment, offset, length] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&self.header);
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        Ok(bytes)
    }

    /// Decode a message, which must use all of the bytes. The ends of references are checked for overflow; the header is not parsed.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid) or [`TooLarge`](crate::Error::TooLarge) when the bytes are not a message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED>().filter(|(fixed, _)| fixed.starts_with(MAGIC))
        else {
            invalid!("a message begins with {MAGIC:?} and has at least {FIXED} bytes; these are {}", bytes.len());
        };
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&fixed[at..at + 8]);
            u64::from_le_bytes(number)
        };
        if fixed[4..8] != [1, 0, 0, 0] {
            invalid!("the message has version {:?}, and {VERSION} is expected", &fixed[4..8]);
        }
        let (crc, count) = (number(8) as u32, number(8) >> 32);
        let found = crc32c::crc32c(&bytes[12..]);
        if crc != found {
            invalid!("the message has the checksum {found:08x}, and {crc:08x} is expected");
        }
        at_most("the number of buffers", count, MAX_BUFFERS)?;
        at_most("the header's length", number(24), MAX_HEADER as u64)?;
        let (references, header) = rest.split_at(rest.len().min(count as usize * REFERENCE));
        if references.len() != count as usize * REFERENCE || header.len() as u64 != number(24) {
            invalid!("the message has {} bytes; {count} references and {} bytes are expected", rest.len(), number(24));
        }
        let mut found = Vec::with_capacity(count as usize);
        for reference in references.chunks_exact(REFERENCE) {
            let part = |at: usize| {
                let mut number = [0; 8];
                number.copy_from_slice(&reference[at..at + 8]);
                u64::from_le_bytes(number)
            };
            let (segment, offset, length) = (part(0), part(8), part(16));
            if offset.checked_add(length).is_none() {
                invalid!("the end of a reference to {length} bytes at {offset} overflows");
            }
            found.push((segment, offset, length));
        }
        Ok(Self { header: header.to_vec(), references: found, rows: number(16) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_is_found() {
        let message = Message { header: b"header".to_vec(), references: vec![(1, 2, 3), (4, 1 << 40, 6)], rows: 77 };
        let bytes = message.to_bytes().unwrap();
        assert_eq!(Message::from_bytes(&bytes).unwrap(), message);
        for length in 0..bytes.len() {
            assert!(Message::from_bytes(&bytes[..length]).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Message::from_bytes(&damaged).is_err(), "bit {bit}");
        }
        let beyond = Message { references: vec![(0, u64::MAX, 1)], ..message };
        assert!(Message::from_bytes(&beyond.to_bytes().unwrap()).is_err());
    }
}
