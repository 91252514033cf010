//! Frames: length-prefixed messages in a stream of bytes.
//!
//! A frame begins with a prefix of 24 bytes, all numbers little-endian: `CRWF`, the version 1 (2 bytes), the kind (2 bytes), the payload's
//! length (8 bytes), the CRC-32C of these 16 bytes and the payload (4 bytes), four zero bytes. The payload follows.

use std::io::{ErrorKind, IoSlice, Read, Write};

use crate::error::{Result, at_most, invalid};

const MAGIC: &[u8; 4] = b"CRWF";
const VERSION: u16 = 1;

/// Bytes before the payload.
pub const PREFIX: usize = 24;

/// The result of parsing the beginning of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// An incomplete frame, of which at least this many bytes are missing.
    NeedMore(usize),
    /// A complete frame.
    Frame {
        /// The kind of message.
        kind: u16,
        /// The payload.
        payload: &'a [u8],
        /// The length of the frame in bytes; the next frame begins after it.
        length: usize,
    },
}

/// The decoded prefix of a frame.
struct Prefix {
    kind: u16,
    length: usize,
    crc: u32,
    seed: u32,
}

impl Prefix {
    /// Parse a prefix, which may be incomplete: `None` if it is, and valid so far.
    fn parse(bytes: &[u8], cap: usize) -> Result<Option<Self>> {
        let known = bytes.len().min(PREFIX);
        let expected = [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3], VERSION as u8, 0];
        let compared = known.min(expected.len());
        if bytes[..compared] != expected[..compared] {
            invalid!("a frame begins with {expected:?}, and these bytes begin with {:?}", &bytes[..compared]);
        }
        let Some((prefix, zeros)) = bytes.get(..PREFIX).map(|prefix| prefix.split_at(20)) else { return Ok(None) };
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&prefix[at..at + 8]);
            u64::from_le_bytes(number)
        };
        at_most("the length of a frame", number(8), cap as u64)?;
        if zeros != [0; 4] {
            invalid!("a frame's prefix ends with {zeros:?}, and zeros are expected");
        }
        Ok(Some(Self {
            kind: u16::from_le_bytes([prefix[6], prefix[7]]),
            length: number(8) as usize,
            crc: (number(12) >> 32) as u32,
            seed: crc32c::crc32c(&prefix[..16]),
        }))
    }

    fn check(&self, payload: &[u8]) -> Result<()> {
        let found = crc32c::crc32c_append(self.seed, payload);
        if found != self.crc {
            invalid!("a frame of kind {} has the checksum {found:08x}, and {:08x} is expected", self.kind, self.crc);
        }
        Ok(())
    }
}

/// Parse the frame at the beginning of `bytes`. Its payload may have at most `cap` bytes.
///
/// # Errors
/// [`Invalid`](crate::Error::Invalid) or [`TooLarge`](crate::Error::TooLarge) when the bytes cannot be the beginning of a frame.
pub fn parse(bytes: &[u8], cap: usize) -> Result<Parsed<'_>> {
    let Some(prefix) = Prefix::parse(bytes, cap)? else { return Ok(Parsed::NeedMore(PREFIX - bytes.len())) };
    let Some(payload) = bytes[PREFIX..].get(..prefix.length) else {
        return Ok(Parsed::NeedMore(prefix.length - (bytes.len() - PREFIX)));
    };
    prefix.check(payload)?;
    Ok(Parsed::Frame { kind: prefix.kind, payload, length: PREFIX + prefix.length })
}

/// The prefix of a frame whose payload is the concatenation of these parts.
#[must_use]
pub fn prefix(kind: u16, parts: &[&[u8]]) -> [u8; PREFIX] {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = [0; PREFIX];
    bytes[..4].copy_from_slice(MAGIC);
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes[6..8].copy_from_slice(&kind.to_le_bytes());
    bytes[8..16].copy_from_slice(&(length as u64).to_le_bytes());
    let crc = parts.iter().fold(crc32c::crc32c(&bytes[..16]), |crc, part| crc32c::crc32c_append(crc, part));
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Write a frame whose payload is the concatenation of these parts.
///
/// # Errors
/// [`Io`](crate::Error::Io) when writing fails.
pub fn write(stream: &mut impl Write, kind: u16, parts: &[&[u8]]) -> Result<()> {
    let prefix = prefix(kind, parts);
    let mut slices: Vec<IoSlice<'_>> =
        std::iter::once(&prefix[..]).chain(parts.iter().copied()).map(IoSlice::new).collect();
    let mut rest = &mut slices[..];
    // Skip empty parts: a write of 0 bytes would be taken for the end of the stream.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match stream.write_vectored(rest) {
            Ok(0) => return Err(std::io::Error::from(ErrorKind::WriteZero).into()),
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Read a frame: its kind and its payload of at most `cap` bytes. `None` when the stream ends before a frame begins.
///
/// # Errors
/// [`Io`](crate::Error::Io) when reading fails or the stream ends within the frame, [`Invalid`](crate::Error::Invalid) or
/// [`TooLarge`](crate::Error::TooLarge) when the bytes are not a frame.
pub fn read(stream: &mut impl Read, cap: usize) -> Result<Option<(u16, Vec<u8>)>> {
    let mut start = Vec::with_capacity(PREFIX);
    stream.take(PREFIX as u64).read_to_end(&mut start)?;
    if start.is_empty() {
        return Ok(None);
    }
    let Some(prefix) = Prefix::parse(&start, cap)? else {
        return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into());
    };
    // The announced length is untrusted: memory grows only as bytes arrive.
    let mut payload = Vec::with_capacity(prefix.length.min(1 << 20));
    stream.take(prefix.length as u64).read_to_end(&mut payload)?;
    if payload.len() != prefix.length {
        return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into());
    }
    prefix.check(&payload)?;
    Ok(Some((prefix.kind, payload)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    const CAP: usize = 1000;

    fn frame(kind: u16, parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, kind, parts).unwrap();
        bytes
    }

    #[test]
    fn frames_follow_each_other() {
        let mut bytes = frame(7, &[b"one", b"", b" two"]);
        bytes.extend(frame(8, &[]));
        let Parsed::Frame { kind: 7, payload: b"one two", length } = parse(&bytes, CAP).unwrap() else { panic!() };
        let next = Parsed::Frame { kind: 8, payload: b"", length: PREFIX };
        assert_eq!(parse(&bytes[length..], CAP).unwrap(), next);
        let mut stream = &bytes[..];
        assert_eq!(read(&mut stream, CAP).unwrap(), Some((7, b"one two".to_vec())));
        assert_eq!(read(&mut stream, CAP).unwrap(), Some((8, Vec::new())));
        assert_eq!(read(&mut stream, CAP).unwrap(), None);
    }

    #[test]
    fn a_part_of_a_frame_needs_more() {
        let bytes = frame(1, &[b"payload"]);
        for length in 0..bytes.len() {
            let Parsed::NeedMore(more) = parse(&bytes[..length], CAP).unwrap() else { panic!() };
            assert!(more > 0 && length + more <= bytes.len());
            match read(&mut &bytes[..length], CAP) {
                Ok(None) => assert_eq!(length, 0),
                Err(Error::Io(error)) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn every_damage_is_found() {
        let bytes = frame(1, &[b"payload"]);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // A damaged length may be larger: the frame is then incomplete, or too long to be accepted.
            assert!(matches!(parse(&damaged, CAP), Err(_) | Ok(Parsed::NeedMore(_))), "bit {bit}");
            assert!(read(&mut &damaged[..], CAP).is_err(), "bit {bit}");
        }
        assert!(matches!(parse(&frame(1, &[&[0; CAP + 1]]), CAP), Err(Error::TooLarge { found: 1001, .. })));
        assert!(parse(b"GET ", CAP).is_err());
    }
}
