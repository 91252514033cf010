//! Keys of hash tables: columns as views of bytes, and back.
//!
//! A value of one column is its own bytes: text, binary, or the little-endian bytes of a number. Keys of several columns are concatenated: for
//! each, a byte that is 0 for null and 1 otherwise, then the length in 4 bytes if it varies, and the value.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, BinaryViewType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type};
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, GenericByteArray, GenericByteViewArray, NullArray, StringViewArray,
    make_array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use craton_store::services::hash::{Keys, NULL_KEY, view_of};

type Result<T> = std::result::Result<T, ArrowError>;

/// The longest value that is in its view.
const INLINE: usize = 12;

/// Keys as views, and the buffers that they refer to.
#[derive(Clone)]
pub struct EncodedKeys {
    pub views: ScalarBuffer<u128>,
    pub buffers: Vec<Buffer>,
}

impl EncodedKeys {
    /// The keys, as the store takes them.
    pub fn keys(&self) -> Keys<'_> {
        Keys { views: &self.views, buffers: self.buffers.iter().map(Buffer::as_slice).collect() }
    }

    /// The bytes of a key.
    pub fn value<'a>(&'a self, view: &'a u128) -> &'a [u8] {
        let length = *view as u32 as usize;
        if length <= INLINE {
            // SAFETY: a view has 16 bytes, of which the first 4 are its length.
            return unsafe { std::slice::from_raw_parts((&raw const *view).cast::<u8>().add(4), length) };
        }
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
        &self.buffers[buffer][offset..offset + length]
    }
}

/// The type of the values of a column: that of its categories if it has categories.
pub fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// The bytes of a value; `None` if they vary, or for types that are no keys.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::Float16 => None,
        other => other.primitive_width().filter(|width| *width <= 8),
    }
}

fn varies(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// Whether a column can be a key.
pub fn is_key(data_type: &DataType) -> bool {
    let data_type = value_type(data_type);
    varies(data_type) || width(data_type).is_some() || *data_type == DataType::Null
}

/// The most bytes that a key of these columns can have.
pub fn longest(columns: &[ArrayRef]) -> usize {
    let one = |column: &ArrayRef| {
        let column = if let Some(dictionary) = column.as_any_dictionary_opt() { dictionary.values() } else { column };
        match column.data_type() {
            DataType::Utf8 => longest_of(column.as_bytes::<Utf8Type>()),
            DataType::LargeUtf8 => longest_of(column.as_bytes::<LargeUtf8Type>()),
            DataType::Binary => longest_of(column.as_bytes::<BinaryType>()),
            DataType::LargeBinary => longest_of(column.as_bytes::<LargeBinaryType>()),
            DataType::Utf8View => longest_view(column.as_byte_view::<StringViewType>()),
            DataType::BinaryView => longest_view(column.as_byte_view::<BinaryViewType>()),
            other => width(other).unwrap_or(0),
        }
    };
    columns.iter().map(one).sum::<usize>() + if columns.len() > 1 { columns.len() * 5 } else { 0 }
}

fn longest_of<T: ByteArrayType>(array: &GenericByteArray<T>) -> usize {
    array.value_offsets().windows(2).map(|ends| ends[1].as_usize() - ends[0].as_usize()).max().unwrap_or(0)
}

fn longest_view<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> usize {
    let lengths = array.views().iter().map(|view| *view as u32 as usize);
    match array.nulls() {
        None => lengths.max().unwrap_or(0),
        Some(nulls) => {
            lengths.zip(nulls.iter()).filter_map(|(length, valid)| valid.then_some(length)).max().unwrap_or(0)
        }
    }
}

/// Encode the keys of all rows.
pub fn encode(columns: &[ArrayRef]) -> Result<EncodedKeys> {
    match columns {
        [column] => encode_column(column),
        columns => encode_rows(columns),
    }
}

/// Encode the keys of one column.
pub fn encode_column(array: &ArrayRef) -> Result<EncodedKeys> {
    let encoded = match array.data_type() {
        DataType::Utf8View => of_view(array.as_byte_view::<StringViewType>()),
        DataType::BinaryView => of_view(array.as_byte_view::<BinaryViewType>()),
        DataType::Utf8 => of_bytes(array.as_bytes::<Utf8Type>())?,
        DataType::LargeUtf8 => of_bytes(array.as_bytes::<LargeUtf8Type>())?,
        DataType::Binary => of_bytes(array.as_bytes::<BinaryType>())?,
        DataType::LargeBinary => of_bytes(array.as_bytes::<LargeBinaryType>())?,
        DataType::Null => EncodedKeys { views: vec![NULL_KEY; array.len()].into(), buffers: Vec::new() },
        DataType::Dictionary(..) => return of_dictionary(array, encode_column),
        DataType::Boolean => {
            let views = array.as_boolean().values().iter().map(|value| 1 | u128::from(value) << 32);
            EncodedKeys { views: views.collect(), buffers: Vec::new() }
        }
        other => of_numbers(array, other)?,
    };
    Ok(with_nulls(encoded, array.nulls()))
}

/// The keys, with the null key where a value is null.
pub fn with_nulls(mut encoded: EncodedKeys, nulls: Option<&NullBuffer>) -> EncodedKeys {
    if let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) {
        let views = encoded.views.iter().zip(nulls.iter());
        encoded.views = views.map(|(view, valid)| if valid { *view } else { NULL_KEY }).collect();
    }
    encoded
}

fn of_view<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> EncodedKeys {
    EncodedKeys { views: array.views().clone(), buffers: array.data_buffers().to_vec() }
}

fn of_bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> Result<EncodedKeys> {
    let (offsets, values) = (array.value_offsets(), array.values());
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    if u32::try_from(last - first).is_err() {
        return Err(ArrowError::InvalidArgumentError("keys of more than 4 GiB in a batch".into()));
    }
    let buffer = values.slice_with_length(first, last - first);
    let bytes = buffer.as_slice();
    let views = offsets.windows(2).map(|ends| {
        let (start, end) = (ends[0].as_usize() - first, ends[1].as_usize() - first);
        view_of(&bytes[start..end], 0, start as u32)
    });
    Ok(EncodedKeys { views: views.collect(), buffers: vec![buffer.clone()] })
}

/// The keys of a column of categories, whose values `encode` encodes.
pub fn of_dictionary(array: &ArrayRef, encode: impl Fn(&ArrayRef) -> Result<EncodedKeys>) -> Result<EncodedKeys> {
    let dictionary = array.as_any_dictionary();
    let EncodedKeys { views, buffers } = encode(dictionary.values())?;
    if views.is_empty() {
        return Ok(EncodedKeys { views: vec![NULL_KEY; array.len()].into(), buffers });
    }
    let (keys, nulls) = (dictionary.normalized_keys(), dictionary.keys().nulls());
    let view = |(row, key): (usize, &usize)| {
        if nulls.is_none_or(|nulls| nulls.is_valid(row)) { views[*key] } else { NULL_KEY }
    };
    Ok(EncodedKeys { views: keys.iter().enumerate().map(view).collect(), buffers })
}

fn of_numbers(array: &ArrayRef, data_type: &DataType) -> Result<EncodedKeys> {
    let data = array.to_data();
    let Some(width) = width(data_type) else {
        return Err(ArrowError::InvalidArgumentError(format!("keys of type {data_type}")));
    };
    let bytes = &data.buffers()[0].as_slice()[data.offset() * width..(data.offset() + data.len()) * width];
    let view = |bits: u64| width as u128 | u128::from(bits) << 32;
    let views: ScalarBuffer<u128> = match data_type {
        // -0 is 0, and all NaN are one key.
        DataType::Float64 => data.buffer::<f64>(0)[..data.len()]
            .iter()
            .map(|value| view(if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }))
            .collect(),
        DataType::Float32 => data.buffer::<f32>(0)[..data.len()]
            .iter()
            .map(|value| view(u64::from(if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() })))
            .collect(),
        _ => match width {
            1 => bytes.iter().map(|byte| view((*byte).into())).collect(),
            2 => words::<2>(bytes).map(|word| view(u16::from_le_bytes(word).into())).collect(),
            4 => words::<4>(bytes).map(|word| view(u32::from_le_bytes(word).into())).collect(),
            _ => words::<8>(bytes).map(|word| view(u64::from_le_bytes(word))).collect(),
        },
    };
    Ok(EncodedKeys { views, buffers: Vec::new() })
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.chunks_exact(N).map(|word| {
        let mut copy = [0; N];
        copy.copy_from_slice(word);
        copy
    })
}

fn encode_rows(columns: &[ArrayRef]) -> Result<EncodedKeys> {
    let rows = columns.first().map_or(0, |column| column.len());
    let parts = columns.iter().map(encode_column).collect::<Result<Vec<_>>>()?;
    let long: Vec<bool> = columns.iter().map(|column| varies(value_type(column.data_type()))).collect();
    let mut starts = vec![0usize; rows + 1];
    for (part, long) in parts.iter().zip(&long) {
        for (start, view) in starts[1..].iter_mut().zip(part.views.iter()) {
            *start += if *view == NULL_KEY { 1 } else { 1 + 4 * usize::from(*long) + *view as u32 as usize };
        }
    }
    for row in 0..rows {
        starts[row + 1] += starts[row];
    }
    if u32::try_from(starts[rows]).is_err() {
        return Err(ArrowError::InvalidArgumentError("keys of more than 4 GiB in a batch".into()));
    }
    let mut bytes = vec![0u8; starts[rows]];
    let mut next = starts.clone();
    for (part, long) in parts.iter().zip(&long) {
        for (next, view) in next.iter_mut().zip(part.views.iter()) {
            if *view == NULL_KEY {
                *next += 1;
                continue;
            }
            bytes[*next] = 1;
            *next += 1;
            let value = part.value(view);
            if *long {
                bytes[*next..*next + 4].copy_from_slice(&(value.len() as u32).to_le_bytes());
                *next += 4;
            }
            bytes[*next..*next + value.len()].copy_from_slice(value);
            *next += value.len();
        }
    }
    let views = starts.windows(2).map(|ends| view_of(&bytes[ends[0]..ends[1]], 0, ends[0] as u32)).collect();
    Ok(EncodedKeys { views, buffers: vec![Buffer::from_vec(bytes)] })
}

/// Decode keys to columns of these types.
pub fn decode(keys: &BinaryViewArray, types: &[DataType]) -> Result<Vec<ArrayRef>> {
    let encoded = of_view(keys);
    if let [data_type] = types {
        return Ok(vec![decode_column(encoded, keys.nulls().cloned(), data_type)?]);
    }
    let rows = keys.len();
    let mut views = vec![Vec::with_capacity(rows); types.len()];
    let mut valid = vec![Vec::with_capacity(rows); types.len()];
    let short = || ArrowError::InvalidArgumentError("a key that was cut short".into());
    for row in encoded.views.iter() {
        let bytes = encoded.value(row);
        let (buffer, offset) = ((row >> 64) as u32, (row >> 96) as u32);
        let mut at = 0;
        for (column, data_type) in types.iter().enumerate() {
            let is_valid = bytes.get(at).ok_or_else(short)? == &1;
            at += 1;
            valid[column].push(is_valid);
            if !is_valid {
                views[column].push(0);
                continue;
            }
            let length = match width(data_type) {
                Some(width) => width,
                None => {
                    let length = bytes.get(at..at + 4).ok_or_else(short)?;
                    at += 4;
                    u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize
                }
            };
            // A value that is not in its view belongs to a key that is not either.
            views[column].push(view_of(
                bytes.get(at..at + length).ok_or_else(short)?,
                buffer,
                offset.wrapping_add(at as u32),
            ));
            at += length;
        }
    }
    let columns = views.into_iter().zip(valid).zip(types);
    columns
        .map(|((views, valid), data_type)| {
            let keys = EncodedKeys { views: views.into(), buffers: encoded.buffers.clone() };
            decode_column(keys, Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0), data_type)
        })
        .collect()
}

fn decode_column(keys: EncodedKeys, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    let views = &keys.views;
    let bits = || views.iter().map(|view| (view >> 32) as u64);
    Ok(match data_type {
        // SAFETY: the views and buffers are those of keys that were text.
        DataType::Utf8View => std::sync::Arc::new(unsafe {
            StringViewArray::new_unchecked(keys.views.clone(), keys.buffers.into(), nulls)
        }),
        // SAFETY: as above, for binary.
        DataType::BinaryView => std::sync::Arc::new(unsafe {
            BinaryViewArray::new_unchecked(keys.views.clone(), keys.buffers.into(), nulls)
        }),
        DataType::Utf8 => to_bytes::<Utf8Type>(&keys, nulls)?,
        DataType::LargeUtf8 => to_bytes::<LargeUtf8Type>(&keys, nulls)?,
        DataType::Binary => to_bytes::<BinaryType>(&keys, nulls)?,
        DataType::LargeBinary => to_bytes::<LargeBinaryType>(&keys, nulls)?,
        DataType::Null => std::sync::Arc::new(NullArray::new(views.len())),
        DataType::Boolean => {
            let values: BooleanBuffer = bits().map(|bits| bits == 1).collect();
            std::sync::Arc::new(BooleanArray::new(values, nulls))
        }
        other => {
            let buffer = match width(other) {
                Some(1) => Buffer::from_vec(bits().map(|bits| bits as u8).collect::<Vec<_>>()),
                Some(2) => Buffer::from_vec(bits().map(|bits| bits as u16).collect::<Vec<_>>()),
                Some(4) => Buffer::from_vec(bits().map(|bits| bits as u32).collect::<Vec<_>>()),
                Some(_) => Buffer::from_vec(bits().collect::<Vec<_>>()),
                None => return Err(ArrowError::InvalidArgumentError(format!("keys of type {other}"))),
            };
            make_array(ArrayData::builder(other.clone()).len(views.len()).nulls(nulls).add_buffer(buffer).build()?)
        }
    })
}

fn to_bytes<T: ByteArrayType>(keys: &EncodedKeys, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let lengths = keys.views.iter().map(|view| *view as u32 as usize);
    let offsets = OffsetBuffer::<T::Offset>::from_lengths(lengths.clone());
    let mut values = Vec::with_capacity(lengths.sum());
    keys.views.iter().for_each(|view| values.extend_from_slice(keys.value(view)));
    // SAFETY: the bytes are those of keys of this type, so those of text are valid.
    Ok(std::sync::Arc::new(unsafe { GenericByteArray::<T>::new_unchecked(offsets, Buffer::from_vec(values), nulls) }))
}
