//! How a page lies in its file.

use crate::error::{Error, Result};

/// Where everything of a page image is, in bytes from the start of its file: the prefix, the buffers with zeros before and between them,
/// the tail.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) prefix: Vec<u8>,
    pub(crate) offsets: Vec<u64>,
    pub(crate) tail: Vec<u8>,
    pub(crate) total: u64,
}

impl Layout {
    /// The image of a page with this header and buffers of these lengths, each at a multiple of `align`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the header does not go with the buffers.
    pub(crate) fn new(header: &[u8], lengths: &[u64], align: u64) -> Result<Self> {
        let too_large = || Error::Invalid("the page is too large for an image".into());
        let mut prefix = (header.len() as u64).to_le_bytes().to_vec();
        prefix.extend_from_slice(header);
        let mut end = prefix.len() as u64;
        let mut offsets = Vec::with_capacity(lengths.len());
        for length in lengths {
            let offset = end.checked_next_multiple_of(align).ok_or_else(too_large)?;
            offsets.push(offset);
            end = offset.checked_add(*length).ok_or_else(too_large)?;
        }
        let tail = b"craton".to_vec();
        let total = end.checked_add(tail.len() as u64).ok_or_else(too_large)?;
        Ok(Self { prefix, offsets, tail, total })
    }
}
