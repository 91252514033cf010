//! Foreign columns: those of types without a copy routine in `scatter`. Arrow's routines gather them, and then their buffers are copied into
//! the regions.

use arrow_buffer::Buffer;
use arrow_data::transform::MutableArrayData;
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::DataType;

use super::sorted::Chunk;
use crate::error::Result;

/// Gather one partition's rows of a column.
pub(super) fn gather(arrays: &[ArrayData], chunks: &[Chunk], partition: usize, rows: usize) -> Result<ArrayData> {
    let mut out = MutableArrayData::try_new(arrays.iter().collect(), false, rows)?;
    for chunk in chunks {
        let mut run = chunk.run(partition).iter().map(|row| chunk.start + usize::from(*row)).peekable();
        while let Some(first) = run.next() {
            let mut end = first + 1;
            while run.next_if_eq(&end).is_some() {
                end += 1;
            }
            out.try_extend(chunk.batch, first, end)?;
        }
    }
    Ok(out.freeze())
}

/// Replace the buffers of an array; `replace` is called in an order that depends on the array alone. Shared buffers are left: the
/// values of dictionaries, and the data buffers of views.
pub(super) fn rebuild(array: &ArrayData, replace: &mut impl FnMut(&Buffer) -> Buffer) -> Result<ArrayData> {
    let shared_from =
        if matches!(array.data_type(), DataType::Utf8View | DataType::BinaryView) { 1 } else { usize::MAX };
    let buffers = array.buffers().iter().enumerate();
    let buffers: Vec<_> =
        buffers.map(|(number, buffer)| if number < shared_from { replace(buffer) } else { buffer.clone() }).collect();
    let nulls = array.nulls().map(|nulls| replace(nulls.buffer()));
    let children = if matches!(array.data_type(), DataType::Dictionary(..)) {
        array.child_data().to_vec()
    } else {
        array.child_data().iter().map(|child| rebuild(child, replace)).collect::<Result<_>>()?
    };
    let builder: ArrayDataBuilder = array.clone().into_builder().buffers(buffers).child_data(children);
    let builder = builder.nulls(None).null_bit_buffer(nulls);
    // SAFETY: the array has the same contents; only the addresses of its buffers differ.
    Ok(unsafe { builder.build_unchecked() })
}
