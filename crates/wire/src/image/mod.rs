//! A page as a file: an Arrow IPC file with one record batch, which any Arrow reader opens.
//!
//! Where the Arrow format leaves a choice:
//!
//! - A body begins at a multiple of the [`Align`]ment, because its metadata is padded with zeros. So does every buffer of at least that many
//!   bytes; smaller ones begin at multiples of 64. A writer can therefore write the buffers directly from memory.
//! - The footer's metadata has `craton.version`, `1`, and `craton.crc32c`: the CRC-32C of everything before the footer, as eight hexadecimal
//!   digits.
//!
//! [`ImagePlan`] lays out an image without reading the buffers; [`Image`] describes an existing one.

mod lz4;
mod parse;
mod plan;

pub use lz4::{compress, compress_buffer, decompress, decompress_into, decompressed_length};
pub use parse::Image;
pub use plan::{Align, ImagePlan, Piece};

use crate::error::{Result, invalid};

/// The first bytes of the file; without the two zeros, also the last ones.
const MAGIC: &[u8; 8] = b"ARROW1\0\0";

/// The marker at the start of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The key of the checksum in the footer's metadata.
const CRC_KEY: &str = "craton.crc32c";

/// The key of the version in the footer's metadata.
const VERSION_KEY: &str = "craton.version";

/// The version of images that is written and accepted.
const VERSION: &str = "1";

static ZEROS: [u8; 4096] = [0; 4096];

/// How a page's buffers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// Each buffer as its length (eight bytes) and an LZ4 frame, or as -1 and its uncompressed bytes.
    Lz4,
}

/// The checksum of an image up to its footer: the metadata, the buffers, and the zero padding between them.
fn checksum<B: AsRef<[u8]>>(
    metadata: &[(u64, Vec<u8>)],
    places: &[std::ops::Range<u64>],
    end: u64,
    buffers: &[B],
) -> Result<u32> {
    let (mut crc, mut at) = (0, 0);
    plan::in_order(metadata, places, |start, piece| {
        let bytes = match piece {
            Piece::Metadata(bytes) => bytes,
            Piece::Buffer(number) => {
                let length = places[number].end - places[number].start;
                match buffers.get(number).map(AsRef::as_ref) {
                    Some(bytes) if bytes.len() as u64 == length => bytes,
                    other => invalid!(
                        "buffer {number} has {} bytes, and in the image {length}",
                        other.map_or(0, <[u8]>::len)
                    ),
                }
            }
        };
        let Some(gap) = start.checked_sub(at) else {
            invalid!("the part at {start} overlaps the one that ends at {at}")
        };
        crc = zeros(crc, gap);
        crc = crc32c::crc32c_append(crc, bytes);
        at = start + bytes.len() as u64;
        Ok(())
    })?;
    let Some(gap) = end.checked_sub(at) else { invalid!("the image ends at {end}, within a part that ends at {at}") };
    Ok(zeros(crc, gap))
}

fn zeros(mut crc: u32, mut count: u64) -> u32 {
    while count > 0 {
        let some = count.min(ZEROS.len() as u64);
        crc = crc32c::crc32c_append(crc, &ZEROS[..some as usize]);
        count -= some;
    }
    crc
}
