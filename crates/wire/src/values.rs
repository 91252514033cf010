//! The values of buffers, with their bounds checked.

use arrow_buffer::{ArrowNativeType, Buffer};

use crate::error::{Result, invalid};

/// The `length` values of a buffer from `offset` on.
pub(crate) fn typed<T: ArrowNativeType>(buffer: &Buffer, offset: usize, length: usize) -> Result<&[T]> {
    let bytes = range(buffer.len(), offset, length, size_of::<T>())?;
    // SAFETY: `T` is a plain number, for which every bit pattern is valid.
    let (before, values, _) = unsafe { buffer.as_slice()[bytes].align_to::<T>() };
    if !before.is_empty() || values.len() != length {
        invalid!("a buffer of {}-byte values is misaligned: it is at {:p}", size_of::<T>(), buffer.as_ptr());
    }
    Ok(values)
}

pub(crate) fn range(found: usize, offset: usize, length: usize, width: usize) -> Result<std::ops::Range<usize>> {
    let start = offset.checked_mul(width);
    let end = offset.checked_add(length).and_then(|end| end.checked_mul(width));
    match (start, end) {
        (Some(start), Some(end)) if end <= found => Ok(start..end),
        _ => invalid!("a buffer has {found} bytes, and {length} values of {width} bytes after {offset} are expected"),
    }
}
