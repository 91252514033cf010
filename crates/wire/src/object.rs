//! A pickled object as one record batch that any Arrow reader opens.
//!
//! The batch has one column, `object`, of binary views. Its rows are the metadata (the pickle) and then the object's out-of-band buffers.
//! A row of more than 12 bytes has its own data buffer and starts at its first byte; shorter rows are inline in their view, as the format
//! requires.
//!
//! A row has at most [`PART`] bytes. A longer value continues in the next row: a row of exactly [`PART`] bytes is always followed by the
//! rest of the value, which may be empty.
//!
//! An object may have 100,000 buffers, so encoding and decoding do not create Arrow arrays.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_buffer::{Buffer, MutableBuffer};
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use arrow_ipc::FieldNode;
use arrow_schema::{DataType, Field, Schema};

use crate::Encoded;
use crate::batch::Body;
use crate::error::{Result, invalid, size};
use crate::header::{Header, HeaderWriter};
use crate::schema;

/// The most bytes of a row.
pub const PART: usize = 1 << 30;

/// Bytes of a view.
const VIEW: usize = size_of::<u128>();

/// The name of the column.
pub const COLUMN: &str = "object";

/// A decoded object: its metadata and buffers.
#[derive(Debug, Clone)]
pub struct Object {
    /// The metadata. Copied only if it has [`PART`] bytes or more.
    pub meta: Buffer,
    rows: Vec<Buffer>,
    part: usize,
}

impl Object {
    /// The buffers, each as the parts that it is stored in: one, unless it has [`PART`] bytes or more.
    pub fn buffers(&self) -> impl Iterator<Item = &[Buffer]> {
        let mut rest = &self.rows[..];
        std::iter::from_fn(move || {
            let (first, after) = split(rest, self.part, Buffer::len)?;
            rest = after;
            Some(first)
        })
    }

    /// The rows that hold the buffers, in order.
    #[must_use]
    pub fn rows(&self) -> &[Buffer] {
        &self.rows
    }
}

/// Split off the rows of the first value from those after it.
fn split<R>(rows: &[R], part: usize, length: impl Fn(&R) -> usize) -> Option<(&[R], &[R])> {
    let last = rows.iter().position(|row| length(row) != part)?;
    Some(rows.split_at(last + 1))
}

/// The place of a row's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPlace {
    /// The number of the batch's buffer.
    pub buffer: usize,
    /// The range in that buffer; checked to be within it.
    pub range: Range<usize>,
}

/// The places of an object's metadata and buffers, for callers that do not keep its memory as [`Buffer`]s.
#[derive(Debug, Clone)]
pub struct ObjectPlaces {
    rows: Vec<RowPlace>,
    part: usize,
}

impl ObjectPlaces {
    /// The metadata, then the buffers, each as the rows that it is stored in: one row, unless it has [`PART`] bytes or more.
    pub fn values(&self) -> impl Iterator<Item = &[RowPlace]> {
        let mut rest = &self.rows[..];
        std::iter::from_fn(move || {
            let (first, after) = split(rest, self.part, |row| row.range.len())?;
            rest = after;
            Some(first)
        })
    }
}

fn schema_message() -> Result<&'static [u8]> {
    static MESSAGE: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(message) = MESSAGE.get() {
        return Ok(message);
    }
    let message = schema::message(&Schema::new(vec![Arc::new(Field::new(COLUMN, DataType::BinaryView, false))]), &[])?;
    Ok(MESSAGE.get_or_init(|| message))
}

/// Encode an object's metadata and buffers as a batch. Only buffers of at most 12 bytes are copied; metadata that is passed as a vector or a
/// buffer is not copied either.
///
/// # Errors
/// [`TooLarge`](crate::Error::TooLarge) when there are too many buffers.
pub fn encode_object(meta: impl Into<Buffer>, buffers: Vec<Buffer>) -> Result<Encoded> {
    encode_parts(meta.into(), buffers, PART)
}

/// Decode an object's batch to its metadata and buffers.
///
/// # Errors
/// [`Invalid`](crate::Error::Invalid) or [`TooLarge`](crate::Error::TooLarge) when this is not the batch of an object.
pub fn decode_object(header: &[u8], buffers: &[Buffer]) -> Result<Object> {
    decode_parts(header, buffers, PART)
}

/// Locate an object's metadata and buffers within the buffers of its batch.
///
/// # Errors
/// As [`decode_object`].
pub fn locate_object(header: &[u8], buffers: &[&[u8]]) -> Result<ObjectPlaces> {
    Ok(ObjectPlaces { rows: locate_parts(header, buffers, PART)?, part: PART })
}

fn encode_parts(meta: Buffer, buffers: Vec<Buffer>, part: usize) -> Result<Encoded> {
    let mut views: Vec<u128> = Vec::with_capacity(buffers.len() + 1);
    let mut blocks: Vec<Buffer> = Vec::with_capacity(buffers.len() + 3);
    // The validity bitmap, and the views.
    blocks.extend([Buffer::default(), Buffer::default()]);
    let mut push = |row: Buffer| {
        if row.len() <= MAX_INLINE_VIEW_LEN as usize {
            let mut view = [0; 16];
            view[0] = row.len() as u8;
            view[4..4 + row.len()].copy_from_slice(&row);
            views.push(u128::from_le_bytes(view));
        } else {
            let view = ByteView::new(row.len() as u32, &row[..4]);
            views.push(view.with_buffer_index(blocks.len() as u32 - 2).as_u128());
            blocks.push(row);
        }
    };
    for mut buffer in std::iter::once(meta).chain(buffers) {
        while buffer.len() >= part {
            push(buffer.slice_with_length(0, part));
            buffer.advance(part);
        }
        push(buffer);
    }
    let rows = views.len() as u64;
    blocks[1] = Buffer::from_vec(views);
    let mut body = Body {
        rows,
        nodes: vec![FieldNode::new(rows as i64, 0)],
        variadic: vec![blocks.len() as i64 - 2],
        places: Vec::with_capacity(blocks.len()),
        ..Body::default()
    };
    blocks.iter().try_for_each(|block| body.place(block.len()))?;
    let mut header = HeaderWriter::new(schema_message()?)?;
    header.push(&body.message(false), blocks.len())?;
    Ok(Encoded { header: header.finish(rows), buffers: blocks, rows })
}

fn locate_parts(header: &[u8], buffers: &[&[u8]], part: usize) -> Result<Vec<RowPlace>> {
    let header = Header::parse(header)?;
    if header.schema != schema_message()? {
        let schema = schema::read(header.schema)?;
        match &schema.fields()[..] {
            [field] if field.name() == COLUMN && *field.data_type() == DataType::BinaryView => {}
            _ => {
                invalid!("expected the batch of an object, with one column {COLUMN:?} of binary views; found {schema}")
            }
        }
    }
    let view = header.batch().view;
    let ([_, views, blocks @ ..], 1, 1, 1) = (buffers, header.parts.len(), view.nodes(), view.variadics()) else {
        invalid!("an object has one array of views; {} arrays and {} buffers are given", view.nodes(), buffers.len())
    };
    let rows = size("the number of rows", view.rows())?;
    if header.buffers != buffers.len() || view.variadic(0)? != blocks.len() || view.node(0)? != (rows, 0) {
        invalid!("{} buffers are given, and the header has {}; or the array has nulls", buffers.len(), header.buffers);
    }
    for (number, buffer) in buffers.iter().enumerate() {
        let length = view.place(number)?.1;
        if buffer.len() as u64 != length {
            invalid!("buffer {number} has {} bytes, and the header says {length}", buffer.len());
        }
    }
    let Some(views) = rows.checked_mul(VIEW).and_then(|bytes| views.get(..bytes)) else {
        invalid!("{} bytes of views are given for {rows} rows", views.len());
    };
    let mut found = Vec::with_capacity(rows);
    for (row, bytes) in views.chunks_exact(VIEW).enumerate() {
        let mut view = [0; VIEW];
        view.copy_from_slice(bytes);
        let view = ByteView::from(u128::from_le_bytes(view));
        let (length, start) = (view.length as usize, view.offset as usize);
        let (buffer, start) = if view.length <= MAX_INLINE_VIEW_LEN {
            (1, row * VIEW + 4)
        } else {
            match blocks.get(view.buffer_index as usize) {
                Some(block) if start.checked_add(length).is_some_and(|end| end <= block.len()) => {
                    (view.buffer_index as usize + 2, start)
                }
                _ => invalid!("row {row} has {length} bytes at {start} of buffer {}", view.buffer_index),
            }
        };
        found.push(RowPlace { buffer, range: start..start + length });
    }
    if found.is_empty() {
        invalid!("an object has no rows");
    }
    if found.last().is_some_and(|row| row.range.len() == part) {
        invalid!("the last row of an object has {part} bytes, and the row that continues it is missing");
    }
    Ok(found)
}

fn decode_parts(header: &[u8], buffers: &[Buffer], part: usize) -> Result<Object> {
    let slices: Vec<&[u8]> = buffers.iter().map(Buffer::as_slice).collect();
    let places = locate_parts(header, &slices, part)?;
    let row = |place: &RowPlace| {
        let buffer = &buffers[place.buffer];
        if place.range == (0..buffer.len()) {
            buffer.clone()
        } else {
            buffer.slice_with_length(place.range.start, place.range.len())
        }
    };
    let mut found: Vec<Buffer> = places.iter().map(row).collect();
    let Some((first, after)) = split(&found, part, Buffer::len) else { invalid!("an object has no rows") };
    let meta = match first {
        [meta] => meta.clone(),
        parts => {
            let mut joined = MutableBuffer::new(parts.iter().map(Buffer::len).sum());
            parts.iter().for_each(|part| joined.extend_from_slice(part.as_slice()));
            joined.into()
        }
    };
    let count = found.len() - after.len();
    found.drain(..count);
    Ok(Object { meta, rows: found, part })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(length: usize, seed: u8) -> Buffer {
        Buffer::from_vec((0..length).map(|at| at as u8 ^ seed).collect::<Vec<u8>>())
    }

    #[test]
    fn buffers_of_all_lengths_come_back_without_a_copy() {
        for part in [16, 40, PART] {
            let lengths = [0, 1, 12, 13, 15, 16, 17, 31, 32, 33, 39, 40, 80, 81, 1000];
            for meta in [0, 5, 16, 40, 100] {
                let buffers: Vec<Buffer> = lengths.iter().map(|&length| buffer(length, length as u8)).collect();
                let encoded = encode_parts(buffer(meta, 7), buffers.clone(), part).unwrap();
                let object = decode_parts(&encoded.header, &encoded.buffers, part).unwrap();
                assert_eq!(object.meta.as_slice(), buffer(meta, 7).as_slice());
                assert_eq!(object.buffers().count(), buffers.len());
                for (found, expected) in object.buffers().zip(&buffers) {
                    let joined: Vec<u8> = found.iter().flat_map(|part| part.iter().copied()).collect();
                    assert_eq!(joined, expected.as_slice());
                    if found[0].len() > 12 {
                        assert_eq!(found[0].as_ptr(), expected.as_ptr());
                    }
                }
            }
        }
    }

    #[test]
    fn any_reader_of_batches_reads_the_rows() {
        use arrow_array::cast::AsArray;
        let encoded = encode_object(&b"pickle of an object"[..], vec![buffer(5, 0), buffer(100, 1)]).unwrap();
        let batch = crate::decode(&encoded.header, &encoded.buffers, crate::Trust::Checked).unwrap();
        let rows: Vec<&[u8]> = batch.column(0).as_binary_view().iter().flatten().collect();
        assert_eq!(rows, [&b"pickle of an object"[..], &buffer(5, 0), &buffer(100, 1)]);
        // Another writer may encode the schema as a different flatbuffer.
        let other = crate::encode_batch(&batch, crate::Trim::Never).unwrap();
        assert_eq!(decode_object(&other.header, &other.buffers).unwrap().rows(), [buffer(5, 0), buffer(100, 1)]);
    }

    #[test]
    fn batches_that_are_not_objects_are_refused() {
        let whole = encode_parts(buffer(10, 0), vec![buffer(40, 1)], 20).unwrap();
        assert!(decode_parts(&whole.header, &whole.buffers, 20).is_ok());
        assert!(decode_parts(&whole.header, &whole.buffers[1..], 20).is_err());
        // The view of the second row is longer than its buffer.
        let mut views = whole.buffers[1].to_vec();
        views[16] = 200;
        let mut buffers = whole.buffers.clone();
        buffers[1] = Buffer::from_vec(views);
        assert!(decode_parts(&whole.header, &buffers, 20).is_err());
        // The last row has exactly the length of a part, and nothing follows it.
        let cut = encode_parts(buffer(10, 0), vec![buffer(20, 1)], 21).unwrap();
        assert!(decode_parts(&cut.header, &cut.buffers, 20).is_err());
    }
}
