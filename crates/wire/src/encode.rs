//! Encoding a record batch as a header and buffers.

use std::collections::HashMap;
use std::sync::OnceLock;

use arrow_array::{Array, OffsetSizeTrait, RecordBatch};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_data::ArrayData;
use arrow_ipc::FieldNode;
use arrow_schema::{DataType, Schema, UnionMode};

use crate::Encoded;
use crate::batch::{Body, MAX_ROWS};
use crate::error::{Result, at_most, invalid};
use crate::header::HeaderWriter;
use crate::trim::Trim;
use crate::values::{range, typed};
use crate::{schema, trim};

/// Encode a batch. See [`encode`].
///
/// # Errors
/// As [`encode`].
pub fn encode_batch(batch: &RecordBatch, trim: Trim<'_>) -> Result<Encoded> {
    let columns: Vec<ArrayData> = batch.columns().iter().map(|column| column.to_data()).collect();
    encode(batch.schema_ref(), &columns, batch.num_rows(), trim)
}

/// Encode columns of `rows` rows. The buffers of the result are the columns' own or slices of them, except for bitmaps that do not begin at a
/// byte boundary and buffers rewritten because of `trim`.
///
/// # Errors
/// [`Invalid`](crate::Error::Invalid) when columns and schema differ or a dictionary's values are a dictionary, [`TooLarge`](crate::Error::TooLarge) when the types are nested
/// too deep or there is too much of something.
pub fn encode(schema: &Schema, columns: &[ArrayData], rows: usize, trim: Trim<'_>) -> Result<Encoded> {
    at_most("the number of rows", rows as u64, MAX_ROWS)?;
    schema::check(schema)?;
    if schema.fields().len() != columns.len() {
        invalid!("the schema has {} fields, and {} columns are given", schema.fields().len(), columns.len());
    }
    for (field, column) in schema.fields().iter().zip(columns) {
        if column.len() != rows || column.data_type() != field.data_type() {
            invalid!(
                "column {:?} has {} rows of type {}; {rows} of type {} are expected",
                field.name(),
                column.len(),
                column.data_type(),
                field.data_type()
            );
        }
    }
    let mut dictionaries = Dictionaries::default();
    for column in columns {
        dictionaries.collect(column);
    }
    let mut header = HeaderWriter::new(&schema::message(schema, &dictionaries.ids)?)?;
    let mut buffers = Vec::new();
    for (id, values) in &dictionaries.values {
        let mut body = Body { dictionary: Some(*id), rows: values.len() as u64, ..Body::default() };
        let before = buffers.len();
        Encoder { trim, body: &mut body, buffers: &mut buffers }.array(values)?;
        header.push(&body.message(false), buffers.len() - before)?;
    }
    let mut body = Body { rows: rows as u64, ..Body::default() };
    let before = buffers.len();
    for column in columns {
        Encoder { trim, body: &mut body, buffers: &mut buffers }.array(column)?;
    }
    header.push(&body.message(false), buffers.len() - before)?;
    Ok(Encoded { header: header.finish(rows as u64), buffers, rows: rows as u64 })
}

/// The dictionaries of all columns.
#[derive(Default)]
struct Dictionaries<'a> {
    /// The number of each, in the order of the schema: those nested in it first.
    ids: Vec<i64>,
    /// The values of each dictionary, once even if several columns share it.
    values: Vec<(i64, &'a ArrayData)>,
    /// The positions in `values` by length and address.
    places: HashMap<(usize, usize, usize), Vec<usize>>,
}

impl<'a> Dictionaries<'a> {
    fn collect(&mut self, data: &'a ArrayData) {
        for child in data.child_data() {
            self.collect(child);
        }
        if let (DataType::Dictionary(_, _), [values]) = (data.data_type(), data.child_data()) {
            let address = values.buffers().first().map_or(0, |buffer| buffer.as_ptr() as usize);
            let same = self.places.entry((values.len(), values.offset(), address)).or_default();
            let shared = same.iter().map(|&at| self.values[at]).find(|(_, other)| values.ptr_eq(other));
            let id = shared.map_or(self.ids.len() as i64 + 1, |(id, _)| id);
            if shared.is_none() {
                same.push(self.values.len());
            }
            self.ids.push(id);
            if shared.is_none() {
                self.values.push((id, values));
            }
        }
    }
}

/// The single offset of an empty array: 0.
fn zero_offset(width: usize) -> Buffer {
    static ZERO: OnceLock<Buffer> = OnceLock::new();
    ZERO.get_or_init(|| Buffer::from_vec(vec![0_i64])).slice_with_length(0, width)
}

struct Encoder<'a> {
    trim: Trim<'a>,
    body: &'a mut Body,
    buffers: &'a mut Vec<Buffer>,
}

impl Encoder<'_> {
    fn push(&mut self, buffer: Buffer) -> Result<()> {
        self.body.place(buffer.len())?;
        self.buffers.push(buffer);
        Ok(())
    }

    /// Push the part of a buffer that holds the array's values, of `width` bytes each.
    fn fixed(&mut self, data: &ArrayData, index: usize, width: usize) -> Result<()> {
        let Some(buffer) = data.buffers().get(index) else {
            invalid!("an array of type {} has {} buffers", data.data_type(), data.buffers().len())
        };
        let bytes = range(buffer.len(), data.offset(), data.len(), width)?;
        self.push(if bytes.is_empty() { Buffer::default() } else { buffer.slice_with_length(bytes.start, bytes.len()) })
    }

    fn array(&mut self, data: &ArrayData) -> Result<()> {
        let data_type = data.data_type();
        at_most("the length of an array", data.len() as u64, MAX_ROWS)?;
        let nulls = if *data_type == DataType::Null { data.len() } else { data.null_count() };
        self.body.nodes.push(FieldNode::new(data.len() as i64, nulls as i64));
        if !matches!(data_type, DataType::Null | DataType::Union(_, _) | DataType::RunEndEncoded(_, _)) {
            let bitmap = data.nulls().filter(|_| nulls > 0).map(|nulls| nulls.inner().sliced());
            self.push(bitmap.unwrap_or_default())?;
        }
        match data_type {
            DataType::Null => Ok(()),
            DataType::Boolean => {
                let needed = (data.offset() + data.len()).div_ceil(8);
                match data.buffers().first().filter(|buffer| buffer.len() >= needed) {
                    Some(_) if data.is_empty() => self.push(Buffer::default()),
                    Some(bits) => self.push(bits.bit_slice(data.offset(), data.len())),
                    None => invalid!("a bitmap is shorter than {needed} bytes"),
                }
            }
            DataType::Utf8 | DataType::Binary => self.bytes::<i32>(data),
            DataType::LargeUtf8 | DataType::LargeBinary => self.bytes::<i64>(data),
            DataType::Utf8View | DataType::BinaryView => self.views(data),
            DataType::List(_) | DataType::Map(_, _) => self.list::<i32>(data),
            DataType::LargeList(_) => self.list::<i64>(data),
            DataType::ListView(_) => self.list_view::<i32>(data),
            DataType::LargeListView(_) => self.list_view::<i64>(data),
            DataType::FixedSizeList(_, size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                self.child(data, 0, data.offset() * size, data.len() * size)
            }
            DataType::Struct(_) => self.children(data),
            DataType::Union(_, UnionMode::Sparse) => {
                self.fixed(data, 0, 1)?;
                self.children(data)
            }
            DataType::Union(_, UnionMode::Dense) => self.dense_union(data),
            DataType::RunEndEncoded(ends, _) => match ends.data_type() {
                DataType::Int16 => self.runs::<i16>(data),
                DataType::Int32 => self.runs::<i32>(data),
                _ => self.runs::<i64>(data),
            },
            DataType::FixedSizeBinary(width) => self.fixed(data, 0, usize::try_from(*width).unwrap_or(0)),
            DataType::Dictionary(key, _) => self.fixed(data, 0, key.primitive_width().unwrap_or(0)),
            other => match other.primitive_width() {
                Some(width) => self.fixed(data, 0, width),
                None => invalid!("arrays of type {other} are not supported"),
            },
        }
    }

    /// Encode a part of a child.
    fn child(&mut self, data: &ArrayData, index: usize, offset: usize, length: usize) -> Result<()> {
        let Some(child) = data.child_data().get(index) else {
            invalid!("an array of type {} has {} children", data.data_type(), data.child_data().len())
        };
        if offset == 0 && length == child.len() {
            return self.array(child);
        }
        if offset.checked_add(length).is_none_or(|end| end > child.len()) {
            invalid!("a child of {} values, of which {length} after {offset} are used", child.len());
        }
        self.array(&child.slice(offset, length))
    }

    /// Encode the children, each of which has a row for every row of the array.
    fn children(&mut self, data: &ArrayData) -> Result<()> {
        (0..data.child_data().len()).try_for_each(|index| self.child(data, index, data.offset(), data.len()))
    }

    /// The offsets rewritten to start from 0.
    fn rebased<T: OffsetSizeTrait>(offsets: &[T]) -> Buffer {
        let first = offsets[0];
        Buffer::from_vec(offsets.iter().map(|&offset| offset - first).collect::<Vec<T>>())
    }

    fn bytes<T: OffsetSizeTrait>(&mut self, data: &ArrayData) -> Result<()> {
        let [offsets, values] = data.buffers() else {
            invalid!("an array of type {} has {} buffers", data.data_type(), data.buffers().len())
        };
        if data.is_empty() {
            self.push(zero_offset(size_of::<T>()))?;
            return self.push(Buffer::default());
        }
        let used = typed::<T>(offsets, data.offset(), data.len() + 1)?;
        let (start, end) = (used[0].as_usize(), used[data.len()].as_usize());
        if start > end || end > values.len() {
            invalid!("offsets from {start} to {end} of {} bytes", values.len());
        }
        // If the offsets are shared and the values are copied, rewriting the offsets would cost a copy of them. Keep them, and copy the
        // values before the slice as well, if that costs less.
        let width = size_of::<T>();
        let rebase =
            start > 0 && self.trim.copies(values) && (self.trim.copies(offsets) || start > (data.len() + 1) * width);
        if rebase {
            self.push(Self::rebased(used))?;
            self.push(values.slice_with_length(start, end - start))
        } else {
            self.push(offsets.slice_with_length(data.offset() * width, (data.len() + 1) * width))?;
            let whole = if self.trim.copies(values) { values.slice_with_length(0, end) } else { values.clone() };
            self.push(whole)
        }
    }

    fn views(&mut self, data: &ArrayData) -> Result<()> {
        let trimmed = if data.is_empty() { Some(vec![Buffer::default()]) } else { trim::views(data, self.trim)? };
        let count = match trimmed {
            Some(buffers) => {
                let count = buffers.len();
                buffers.into_iter().try_for_each(|buffer| self.push(buffer))?;
                count
            }
            None => {
                self.fixed(data, 0, 16)?;
                data.buffers().iter().skip(1).try_for_each(|buffer| self.push(buffer.clone()))?;
                data.buffers().len()
            }
        };
        self.body.variadic.push(count as i64 - 1);
        Ok(())
    }

    fn list<T: OffsetSizeTrait>(&mut self, data: &ArrayData) -> Result<()> {
        let ([offsets], [child]) = (data.buffers(), data.child_data()) else {
            invalid!("an array of type {} has {} buffers", data.data_type(), data.buffers().len())
        };
        if data.is_empty() {
            self.push(zero_offset(size_of::<T>()))?;
            return self.child(data, 0, 0, 0);
        }
        let used = typed::<T>(offsets, data.offset(), data.len() + 1)?;
        let (start, end) = (used[0].as_usize(), used[data.len()].as_usize());
        if start > end || end > child.len() {
            invalid!("offsets from {start} to {end} of {} values", child.len());
        }
        let copies = self.trim.copies_any(child);
        if copies && start > 0 {
            self.push(Self::rebased(used))?;
            return self.child(data, 0, start, end - start);
        }
        let width = size_of::<T>();
        self.push(offsets.slice_with_length(data.offset() * width, (data.len() + 1) * width))?;
        self.child(data, 0, 0, if copies { end } else { child.len() })
    }

    fn list_view<T: OffsetSizeTrait>(&mut self, data: &ArrayData) -> Result<()> {
        let ([offsets, _], [child]) = (data.buffers(), data.child_data()) else {
            invalid!("an array of type {} has {} buffers", data.data_type(), data.buffers().len())
        };
        if data.is_empty() {
            self.push(Buffer::default())?;
            self.push(Buffer::default())?;
            return self.child(data, 0, 0, 0);
        }
        let width = size_of::<T>();
        let offsets = typed::<T>(offsets, data.offset(), data.len())?;
        if self.trim.copies_any(child) {
            let sizes = typed::<T>(&data.buffers()[1], data.offset(), data.len())?;
            if let Some((offsets, used)) = trim::list_view(offsets, sizes, child.len())? {
                self.push(offsets)?;
                self.fixed(data, 1, width)?;
                return self.child(data, 0, used.start, used.len());
            }
        }
        self.fixed(data, 0, width)?;
        self.fixed(data, 1, width)?;
        self.child(data, 0, 0, child.len())
    }

    fn dense_union(&mut self, data: &ArrayData) -> Result<()> {
        let (DataType::Union(fields, _), [ids, offsets]) = (data.data_type(), data.buffers()) else {
            invalid!("an array of type {} has {} buffers", data.data_type(), data.buffers().len())
        };
        self.fixed(data, 0, 1)?;
        if self.trim.copies_any(data) {
            let ids = typed::<i8>(ids, data.offset(), data.len())?;
            let offsets = typed::<i32>(offsets, data.offset(), data.len())?;
            let numbers: Vec<i8> = fields.iter().map(|(id, _)| id).collect();
            if let Some((offsets, used)) = trim::dense_union(&numbers, ids, offsets, data.child_data())? {
                self.push(offsets)?;
                return used
                    .into_iter()
                    .enumerate()
                    .try_for_each(|(index, used)| self.child(data, index, used.start, used.len()));
            }
        }
        self.fixed(data, 1, 4)?;
        data.child_data().iter().try_for_each(|child| self.array(child))
    }

    fn runs<T: ArrowNativeType>(&mut self, data: &ArrayData) -> Result<()> {
        let [ends, values] = data.child_data() else {
            invalid!("an array of type {} has {} children", data.data_type(), data.child_data().len())
        };
        let Some(buffer) = ends.buffers().first() else { invalid!("run ends without a buffer") };
        let used = typed::<T>(buffer, ends.offset(), ends.len())?;
        if data.is_empty() {
            self.child(data, 0, 0, 0)?;
            return self.child(data, 1, 0, 0);
        }
        let (offset, last) = (data.offset(), data.offset() + data.len());
        let first_run = used.partition_point(|end| end.as_usize() <= offset);
        let last_run = used.partition_point(|end| end.as_usize() < last);
        if last_run >= used.len() || values.len() < used.len() {
            invalid!("{} runs of {} values don't reach {last}", used.len(), values.len());
        }
        let count = last_run - first_run + 1;
        if offset == 0 {
            // The last run may extend beyond the array.
            self.child(data, 0, 0, count)?;
        } else {
            let rebased: Option<Vec<T>> =
                used[first_run..=last_run].iter().map(|end| T::from_usize(end.as_usize().min(last) - offset)).collect();
            let Some(rebased) = rebased else { invalid!("a run ends after {last} values") };
            self.body.nodes.push(FieldNode::new(count as i64, 0));
            self.push(Buffer::default())?;
            self.push(Buffer::from_vec(rebased))?;
        }
        self.child(data, 1, first_run, count)
    }
}
