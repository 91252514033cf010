//! LZ4 compression of buffers, in the form of Arrow IPC.

use std::io::{Read, Write};

use arrow_buffer::{Buffer, MutableBuffer};
use lz4_flex::frame::{FrameDecoder, FrameEncoder};

use crate::error::{Error, Result, invalid};

/// The maximum compression ratio of LZ4: each compressed byte decompresses to at most this many.
const MAX_RATIO: u64 = 255;

/// The stored form of every buffer.
///
/// # Errors
/// As [`compress_buffer`].
pub fn compress<B: AsRef<[u8]>>(buffers: &[B]) -> Result<Vec<Buffer>> {
    buffers.iter().map(|buffer| compress_buffer(buffer.as_ref())).collect()
}

/// The stored form of a buffer: its length and an LZ4 frame, or -1 and its bytes if the frame is no smaller. An empty buffer stays empty.
///
/// # Errors
/// [`Io`](Error::Io) when compressing fails.
pub fn compress_buffer(bytes: &[u8]) -> Result<Buffer> {
    if bytes.is_empty() {
        return Ok(Buffer::default());
    }
    let mut stored = Vec::with_capacity(bytes.len() / 2 + 64);
    stored.extend_from_slice(&(bytes.len() as i64).to_le_bytes());
    let mut encoder = FrameEncoder::new(stored);
    encoder.write_all(bytes)?;
    let mut stored = encoder.finish().map_err(|error| Error::Io(std::io::Error::other(error)))?;
    if stored.len() >= bytes.len() + 8 {
        stored.clear();
        stored.extend_from_slice(&(-1_i64).to_le_bytes());
        stored.extend_from_slice(bytes);
    }
    Ok(Buffer::from_vec(stored))
}

/// The uncompressed length, in bytes, of a buffer whose stored form begins with `start` and has `length` bytes.
///
/// # Errors
/// [`Invalid`](Error::Invalid) when no buffer has this form.
pub fn decompressed_length(start: &[u8], length: u64) -> Result<u64> {
    if length == 0 {
        return Ok(0);
    }
    let Some(prefix) = start.first_chunk().filter(|_| length >= 8) else {
        invalid!("a compressed buffer has {length} bytes, and at least 8 are expected");
    };
    match i64::from_le_bytes(*prefix) {
        -1 => Ok(length - 8),
        found => match u64::try_from(found) {
            Ok(found) if found / MAX_RATIO <= length => Ok(found),
            _ => invalid!("a compressed buffer of {length} bytes claims to decompress to {found} bytes"),
        },
    }
}

/// Decompress a stored buffer into `out`, which must have its uncompressed length.
///
/// # Errors
/// [`Invalid`](Error::Invalid) when the stored form is damaged or `out` has another length.
pub fn decompress_into(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let length = decompressed_length(stored, stored.len() as u64)?;
    if length != out.len() as u64 {
        invalid!("a compressed buffer decompresses to {length} bytes, and {} are expected", out.len());
    }
    let Some((prefix, rest)) = stored.split_first_chunk() else { return Ok(()) };
    if i64::from_le_bytes(*prefix) == -1 {
        out.copy_from_slice(rest);
        return Ok(());
    }
    let damaged = |error: std::io::Error| Error::Invalid(format!("an LZ4 frame of {length} bytes is damaged: {error}"));
    let mut decoder = FrameDecoder::new(rest);
    decoder.read_exact(out).map_err(damaged)?;
    if decoder.read(&mut [0]).map_err(damaged)? != 0 {
        invalid!("an LZ4 frame has more than the {length} bytes that are expected");
    }
    Ok(())
}

/// Decompress a stored buffer. One that was stored uncompressed is returned as a slice of `stored`.
///
/// # Errors
/// As [`decompress_into`].
pub fn decompress(stored: &Buffer) -> Result<Buffer> {
    let length = decompressed_length(stored, stored.len() as u64)?;
    if stored.is_empty() || stored.starts_with(&[0xff; 8]) {
        return Ok(stored.slice(stored.len() - length as usize));
    }
    let mut out = MutableBuffer::from_len_zeroed(length as usize);
    decompress_into(stored, &mut out)?;
    Ok(out.into())
}
