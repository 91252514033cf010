//! Trims buffers that will be copied to the part that is used, for layouts where slicing is not enough.

use std::ops::Range;

use arrow_array::OffsetSizeTrait;
use arrow_buffer::Buffer;
use arrow_data::{ArrayData, ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::DataType;

use crate::error::{Result, invalid};
use crate::values::typed;

/// Which buffers of a sliced array are trimmed to the part that the slice uses, at the cost of rewriting offsets or views.
#[derive(Clone, Copy)]
pub enum Trim<'a> {
    /// None: every buffer is shared, not copied, so trimming saves nothing.
    Never,
    /// All: every buffer will be copied.
    Always,
    /// Those for which this returns false, which will be copied; the others are shared.
    Unless(&'a dyn Fn(&Buffer) -> bool),
}

impl std::fmt::Debug for Trim<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Trim::Never => "Never",
            Trim::Always => "Always",
            Trim::Unless(_) => "Unless(..)",
        })
    }
}

impl Trim<'_> {
    /// Whether the buffer will be copied.
    pub(crate) fn copies(self, buffer: &Buffer) -> bool {
        !buffer.is_empty()
            && match self {
                Trim::Never => false,
                Trim::Always => true,
                Trim::Unless(shared) => !shared(buffer),
            }
    }

    /// Whether any buffer of the array will be copied. The values of dictionaries are ignored, because slicing does not affect them.
    pub(crate) fn copies_any(self, data: &ArrayData) -> bool {
        if matches!(self, Trim::Never) {
            return false;
        }
        data.buffers().iter().any(|buffer| self.copies(buffer))
            || data.nulls().is_some_and(|nulls| self.copies(nulls.buffer()))
            || (!matches!(data.data_type(), DataType::Dictionary(_, _))
                && data.child_data().iter().any(|child| self.copies_any(child)))
    }
}

/// The most bytes of a new data buffer of views: readers take offsets as signed 32-bit numbers.
const MAX_BLOCK: usize = i32::MAX as usize;

/// Compact those data buffers of an array of views that will be copied. Returns the new views and data buffers, or `None` if that would not
/// reduce the bytes to copy to less than half.
pub(crate) fn views(data: &ArrayData, trim: Trim<'_>) -> Result<Option<Vec<Buffer>>> {
    let [views_buffer, blocks @ ..] = data.buffers() else { invalid!("an array of views has no buffer of views") };
    let copied: Vec<bool> = blocks.iter().map(|block| trim.copies(block)).collect();
    let total: usize = blocks.iter().zip(&copied).filter(|&(_, &copied)| copied).map(|(block, _)| block.len()).sum();
    if total == 0 {
        return Ok(None);
    }
    let views = typed::<u128>(views_buffer, data.offset(), data.len())?;
    let used = |row: usize| -> Result<Option<(ByteView, &[u8])>> {
        let view = ByteView::from(views[row]);
        if view.length <= MAX_INLINE_VIEW_LEN || data.is_null(row) {
            return Ok(None);
        }
        let (index, start) = (view.buffer_index as usize, view.offset as usize);
        match blocks.get(index).and_then(|block| block.get(start..start.checked_add(view.length as usize)?)) {
            Some(bytes) if copied[index] => Ok(Some((view, bytes))),
            Some(_) => Ok(None),
            None => invalid!("row {row} is at {start} of data buffer {index}, which has no such bytes"),
        }
    };
    let mut needed = if trim.copies(views_buffer) { 0 } else { views.len() * 16 };
    for row in 0..views.len() {
        needed += used(row)?.map_or(0, |(_, bytes)| bytes.len());
        if needed.saturating_mul(2) >= total {
            return Ok(None);
        }
    }
    // Shared data buffers come first, in their order, and then the new ones.
    let mut kept = Vec::new();
    let mut numbers = vec![0_u32; blocks.len()];
    for (index, block) in blocks.iter().enumerate().filter(|&(index, _)| !copied[index]) {
        numbers[index] = kept.len() as u32;
        kept.push(block.clone());
    }
    let mut new_views = Vec::with_capacity(views.len());
    let (mut new_blocks, mut block) = (Vec::new(), Vec::with_capacity(needed.min(MAX_BLOCK)));
    for (row, &old) in views.iter().enumerate() {
        new_views.push(if data.is_null(row) {
            0
        } else if let Some((view, bytes)) = used(row)? {
            if block.len() + bytes.len() > MAX_BLOCK && !block.is_empty() {
                new_blocks.push(Buffer::from_vec(std::mem::take(&mut block)));
            }
            let at = block.len() as u32;
            block.extend_from_slice(bytes);
            view.with_buffer_index((kept.len() + new_blocks.len()) as u32).with_offset(at).as_u128()
        } else {
            let view = ByteView::from(old);
            if view.length <= MAX_INLINE_VIEW_LEN {
                old
            } else {
                view.with_buffer_index(numbers[view.buffer_index as usize]).as_u128()
            }
        });
    }
    if !block.is_empty() {
        new_blocks.push(Buffer::from_vec(block));
    }
    let mut buffers = vec![Buffer::from_vec(new_views)];
    buffers.extend(kept);
    buffers.extend(new_blocks);
    Ok(Some(buffers))
}

/// Trim the values of list views to those that are used, and rebase the offsets; `None` if all are used.
pub(crate) fn list_view<T: OffsetSizeTrait>(
    offsets: &[T],
    sizes: &[T],
    values: usize,
) -> Result<Option<(Buffer, Range<usize>)>> {
    let mut used = values..0;
    for (row, (offset, size)) in offsets.iter().zip(sizes).enumerate() {
        let (start, size) = (offset.as_usize(), size.as_usize());
        let end = start.checked_add(size).filter(|&end| end <= values);
        let Some(end) = end else { invalid!("row {row} has {size} values at {start} of {values}") };
        if size > 0 {
            used = used.start.min(start)..used.end.max(end);
        }
    }
    if used.start >= used.end {
        used = 0..0;
    }
    if used.len() == values {
        return Ok(None);
    }
    let rebase =
        |(offset, size): (&T, &T)| T::usize_as(if size.as_usize() > 0 { offset.as_usize() - used.start } else { 0 });
    let rebased: Vec<T> = offsets.iter().zip(sizes).map(rebase).collect();
    Ok(Some((Buffer::from_vec(rebased), used)))
}

/// Trim the children of a dense union to the values that are used, and rebase the offsets; `None` if all are used.
pub(crate) fn dense_union(
    numbers: &[i8],
    ids: &[i8],
    offsets: &[i32],
    children: &[ArrayData],
) -> Result<Option<(Buffer, Vec<Range<usize>>)>> {
    let mut child_of = [None; 256];
    let mut used: Vec<Range<usize>> = children.iter().map(|child| child.len()..0).collect();
    for (index, id) in numbers.iter().enumerate().take(children.len()) {
        child_of[usize::from(*id as u8)] = Some(index);
    }
    let child = |row: usize| match child_of[usize::from(ids[row] as u8)] {
        Some(child) if usize::try_from(offsets[row]).is_ok_and(|at| at < children[child].len()) => {
            Ok((child, offsets[row] as usize))
        }
        _ => invalid!("row {row} of a union is value {} of type {}", offsets[row], ids[row]),
    };
    for row in 0..ids.len() {
        let (child, at) = child(row)?;
        used[child] = used[child].start.min(at)..used[child].end.max(at + 1);
    }
    for used in &mut used {
        if used.start >= used.end {
            *used = 0..0;
        }
    }
    if used.iter().zip(children).all(|(used, child)| used.len() == child.len()) {
        return Ok(None);
    }
    let mut rebased = Vec::with_capacity(offsets.len());
    for row in 0..ids.len() {
        let (child, at) = child(row)?;
        rebased.push((at - used[child].start) as i32);
    }
    Ok(Some((Buffer::from_vec(rebased), used)))
}
