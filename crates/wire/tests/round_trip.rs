//! Batches of every type are encoded and decoded.

mod samples;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow_array::{StringViewArray, types::Int32Type};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema};
use craton_wire::{Encoded, Error, Trim, Trust, columns_of, decode, decode_columns, encode_batch};
use samples::{STYLES, Style, batch, flat, nested};

fn types() -> Vec<DataType> {
    flat().into_iter().chain(nested()).collect()
}

fn check(batch: &RecordBatch, trim: Trim<'_>) -> Encoded {
    let encoded = encode_batch(batch, trim).unwrap();
    for trust in [Trust::Checked, Trust::Own] {
        let decoded = decode(&encoded.header, &encoded.buffers, trust).unwrap();
        assert_eq!(decoded.schema(), batch.schema());
        assert_eq!(decoded.num_rows(), batch.num_rows());
        for (index, (found, expected)) in decoded.columns().iter().zip(batch.columns()).enumerate() {
            found.to_data().validate_full().unwrap();
            assert_eq!(found, expected, "column {index}: {}", expected.data_type());
        }
    }
    encoded
}

/// Collect the buffers of an array and its children.
fn memory<'a>(data: &'a ArrayData, found: &mut Vec<&'a Buffer>) {
    found.extend(data.buffers());
    found.extend(data.nulls().map(|nulls| nulls.buffer()));
    data.child_data().iter().for_each(|child| memory(child, found));
}

/// Bytes of the encoded buffers that do not share the batch's memory.
fn new_bytes(batch: &RecordBatch, encoded: &Encoded) -> usize {
    let data: Vec<ArrayData> = batch.columns().iter().map(|column| column.to_data()).collect();
    let mut old = Vec::new();
    data.iter().for_each(|data| memory(data, &mut old));
    let owned = |buffer: &&Buffer| {
        let range = buffer.as_ptr_range();
        !buffer.is_empty()
            && !old.iter().any(|old| old.as_ptr_range().start <= range.start && range.end <= old.as_ptr_range().end)
    };
    encoded.buffers.iter().filter(owned).map(Buffer::len).sum()
}

#[test]
fn every_type_comes_back() {
    for data_type in types() {
        for rows in [0, 1, 8, 50] {
            for style in STYLES {
                let batch = batch(std::slice::from_ref(&data_type), rows, style, rows as u64);
                for trim in [Trim::Never, Trim::Always] {
                    check(&batch, trim);
                    check(&batch.slice(rows / 3, rows / 2), trim);
                }
            }
        }
    }
}

#[test]
fn many_columns_come_back_and_each_alone() {
    let batch = batch(&types(), 40, Style { nulls: true, sliced: true }, 9);
    let encoded = check(&batch, Trim::Never);
    let outline = columns_of(&encoded.header).unwrap();
    assert_eq!((outline.rows, &outline.schema), (40, batch.schema_ref()));
    let lengths: Vec<u64> = encoded.buffers.iter().map(|buffer| buffer.len() as u64).collect();
    assert_eq!(outline.lengths, lengths);
    for (index, ranges) in outline.columns.iter().enumerate() {
        let mut buffers = vec![Buffer::default(); encoded.buffers.len()];
        for number in ranges.iter().cloned().flatten() {
            buffers[number] = encoded.buffers[number].clone();
        }
        let one = decode_columns(&encoded.header, &buffers, &[index], Trust::Checked).unwrap();
        assert_eq!(one, batch.project(&[index]).unwrap());
    }
    let some = decode_columns(&encoded.header, &encoded.buffers, &[5, 2, 5], Trust::Own).unwrap();
    assert_eq!(some, batch.project(&[5, 2, 5]).unwrap());
    assert!(decode_columns(&encoded.header, &encoded.buffers, &[1000], Trust::Own).is_err());
    assert!(decode(&encoded.header, &encoded.buffers[1..], Trust::Own).is_err());
}

#[test]
fn rows_without_columns_and_columns_without_rows() {
    let options = RecordBatchOptions::new().with_row_count(Some(12345));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).unwrap();
    assert!(check(&batch, Trim::Never).buffers.is_empty());
    let empty = RecordBatch::new_empty(samples::batch(&types(), 3, STYLES[1], 1).schema());
    // An empty array of texts or lists still has one offset.
    let encoded = check(&empty, Trim::Never);
    assert!(encoded.buffers.iter().all(|buffer| buffer.len() <= 8));
}

#[test]
fn nothing_is_copied_but_bitmaps_that_begin_within_a_byte() {
    for data_type in types() {
        let whole = batch(std::slice::from_ref(&data_type), 80, STYLES[1], 5);
        let encoded = check(&whole, Trim::Never);
        let offset_of_nothing = if format!("{data_type:?}").ends_with(" 0)") { 4 } else { 0 };
        assert_eq!(new_bytes(&whole, &encoded), offset_of_nothing, "{data_type}");
        // The slice begins at a byte boundary of the bitmaps, so only run ends have to be rewritten.
        let slice = whole.slice(16, 40);
        let encoded = check(&slice, Trim::Never);
        let runs = format!("{data_type:?}").contains("RunEndEncoded");
        let bound = if runs {
            1000
        } else if format!("{data_type:?}").contains("FixedSizeList") {
            20
        } else {
            0
        };
        assert!(new_bytes(&slice, &encoded) <= bound, "{data_type}: {}", new_bytes(&slice, &encoded));
    }
}

#[test]
fn a_projection_shares_every_buffer_of_what_was_decoded() {
    let batch = batch(&types(), 64, STYLES[1], 5);
    let first = check(&batch, Trim::Never);
    let decoded = decode(&first.header, &first.buffers, Trust::Own).unwrap();
    let again = encode_batch(&decoded.project(&[30, 3, 50, 40]).unwrap(), Trim::Never).unwrap();
    for buffer in again.buffers.iter().filter(|buffer| !buffer.is_empty()) {
        assert!(first.buffers.iter().any(|old| old.as_ptr() == buffer.as_ptr() && old.len() == buffer.len()));
    }
}

#[test]
fn a_small_slice_of_much_text_copies_little() {
    let texts: Vec<String> = (0..10_000).map(|row| format!("a text that is long enough for row {row}")).collect();
    let list = {
        let offsets = arrow_buffer::OffsetBuffer::new((0..=1000).map(|row| row * 10).collect::<Vec<i32>>().into());
        let field = Arc::new(Field::new("item", DataType::Utf8, true));
        arrow_array::ListArray::new(field, offsets, Arc::new(StringArray::from(texts.clone())), None)
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(texts.clone()).slice(5000, 10)),
        Arc::new(StringViewArray::from_iter_values(&texts).slice(5000, 10)),
        Arc::new(list.slice(500, 10)),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| Field::new(at.to_string(), column.data_type().clone(), true))
        .collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let bytes = |encoded: &Encoded| encoded.buffers.iter().map(Buffer::len).sum::<usize>();
    assert!(bytes(&check(&batch, Trim::Always)) < 8_000);
    let shared = check(&batch, Trim::Never);
    assert_eq!(new_bytes(&batch, &shared), 0);
    assert!(bytes(&shared) > 1_000_000);
    // A shared text buffer is not copied, even if other buffers are.
    let values = batch.column(0).to_data().buffers()[1].clone();
    let is_shared = |buffer: &Buffer| buffer.as_ptr() == values.as_ptr();
    let mixed = check(&batch, Trim::Unless(&is_shared));
    assert!(mixed.buffers.iter().any(|buffer| buffer.as_ptr() == values.as_ptr() && buffer.len() == values.len()));
    assert!(bytes(&mixed) - values.len() < 8_000);
}

#[test]
fn columns_that_share_a_dictionary_share_its_message() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let other: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "z"]));
    let column = |values: &ArrayRef, keys: Vec<i32>| -> ArrayRef {
        Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(keys), values.clone()))
    };
    let columns = vec![
        column(&values, vec![0, 1]),
        column(&other, vec![2, 2]),
        column(&values, vec![2, 0]),
        column(&other, vec![0, 1]),
    ];
    let fields: Vec<Field> =
        (0..4).map(|at| Field::new(at.to_string(), columns[0].data_type().clone(), true)).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let encoded = check(&batch, Trim::Never);
    assert_eq!(encoded.buffers.len(), 2 * 3 + 4 * 2);
    let outline = columns_of(&encoded.header).unwrap();
    assert_eq!(outline.columns[0], [0..3, 6..8]);
    assert_eq!(outline.columns[2], [0..3, 10..12]);
}

#[test]
fn unsupported_types_are_refused() {
    let inner = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let outer = DataType::Dictionary(Box::new(DataType::Int8), Box::new(inner));
    let batch = RecordBatch::new_empty(Arc::new(Schema::new(vec![Field::new("a", outer, true)])));
    assert!(matches!(encode_batch(&batch, Trim::Never), Err(Error::Invalid(_))));
    let deep = |depth: usize| {
        let nest = |inner, _| DataType::List(Arc::new(Field::new("item", inner, true)));
        let data_type = (0..depth).fold(DataType::Int8, nest);
        RecordBatch::new_empty(Arc::new(Schema::new(vec![Field::new("a", data_type, true)])))
    };
    check(&deep(56), Trim::Never);
    assert!(matches!(encode_batch(&deep(57), Trim::Never), Err(Error::TooLarge { .. })));
}

#[test]
fn buffers_at_odd_addresses_are_copied() {
    let batch = batch(&types(), 20, STYLES[1], 3);
    let encoded = check(&batch, Trim::Never);
    let odd: Vec<Buffer> = encoded
        .buffers
        .iter()
        .map(|buffer| {
            let mut bytes = vec![0];
            bytes.extend_from_slice(buffer);
            Buffer::from_vec(bytes).slice(1)
        })
        .collect();
    assert_eq!(decode(&encoded.header, &odd, Trust::Checked).unwrap(), batch);
}

#[test]
fn every_damage_of_a_header_is_found() {
    let batch = batch(&[DataType::Utf8, nested()[14].clone()], 5, STYLES[1], 3);
    let encoded = check(&batch, Trim::Never);
    for length in 0..encoded.header.len() {
        assert!(decode(&encoded.header[..length], &encoded.buffers, Trust::Checked).is_err());
    }
    for bit in 0..encoded.header.len() * 8 {
        let mut damaged = encoded.header.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&damaged, &encoded.buffers, Trust::Checked).is_err());
    }
}

/// Damage by the author of a header: the checksum is valid.
#[test]
fn a_forged_header_is_an_error_or_a_valid_batch() {
    for data_type in types() {
        let batch = batch(&[data_type], 6, Style { nulls: true, sliced: false }, 3);
        let encoded = check(&batch, Trim::Always);
        for bit in 12 * 8..encoded.header.len() * 8 {
            let mut damaged = encoded.header.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let crc = crc32c::crc32c(&damaged[12..]);
            damaged[8..12].copy_from_slice(&crc.to_le_bytes());
            if let Ok(decoded) = decode(&damaged, &encoded.buffers, Trust::Checked) {
                for column in decoded.columns() {
                    column.to_data().validate_full().unwrap();
                }
            }
        }
    }
}

#[test]
fn damaged_buffers_are_an_error_or_a_valid_batch() {
    for data_type in types() {
        let batch = batch(&[data_type], 9, STYLES[1], 4);
        let encoded = check(&batch, Trim::Always);
        for number in 0..encoded.buffers.len() {
            for bit in 0..encoded.buffers[number].len() * 8 {
                let mut bytes = encoded.buffers[number].to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let mut buffers = encoded.buffers.clone();
                buffers[number] = Buffer::from(&bytes[..]);
                if let Ok(decoded) = decode(&encoded.header, &buffers, Trust::Checked) {
                    decoded.column(0).to_data().validate_full().unwrap();
                    assert_eq!(decoded, decoded.clone());
                }
            }
        }
    }
}
