//! Hashing column by column: one loop for each type, without a branch for each row.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, FixedSizeListArray, GenericByteArray, GenericByteViewArray, GenericListArray,
    GenericListViewArray, OffsetSizeTrait, RunArray, StructArray, UnionArray,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, ToByteSlice};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::{DEEPEST, value};
use crate::error::{Error, Result};

const DAY: i128 = 86_400_000_000_000;

/// A key column prepared for being hashed range by range.
pub(crate) enum Hashable {
    /// Hashed on demand.
    Flat(ArrayRef),
    /// Hashed in advance, because ranges of such a column share values that each range would have to hash again.
    Hashed(Vec<u64>),
}

impl Hashable {
    pub(crate) fn new(array: &ArrayRef, seed: u64) -> Result<Self> {
        let shared = array.data_type().is_nested()
            || matches!(array.data_type(), DataType::Dictionary(..) | DataType::RunEndEncoded(..));
        if !shared {
            return Ok(Self::Flat(array.clone()));
        }
        Ok(Self::Hashed(hash_all(array.as_ref(), seed, 0)?))
    }

    /// Write the hashes of the rows from `start` on to `out`.
    pub(crate) fn hash(&self, start: usize, seed: u64, out: &mut [u64]) -> Result<()> {
        match self {
            Self::Flat(array) => hash_into(array.slice(start, out.len()).as_ref(), seed, 0, out),
            Self::Hashed(hashes) => {
                out.copy_from_slice(&hashes[start..start + out.len()]);
                Ok(())
            }
        }
    }
}

fn hash_all(array: &dyn Array, seed: u64, depth: usize) -> Result<Vec<u64>> {
    let mut out = vec![0; array.len()];
    hash_into(array, seed, depth, &mut out)?;
    Ok(out)
}

fn hash_into(array: &dyn Array, seed: u64, depth: usize, out: &mut [u64]) -> Result<()> {
    if depth > DEEPEST {
        return Err(Error::Depth(DEEPEST));
    }
    hash_values(array, seed, depth, out)?;
    // The nulls of dictionaries and similar types are among their values, which were hashed already.
    if let Some(nulls) = array.nulls() {
        hash_nulls(nulls, seed, out);
    }
    Ok(())
}

fn hash_nulls(nulls: &NullBuffer, seed: u64, out: &mut [u64]) {
    if nulls.null_count() > 0 {
        let null = value::null(seed);
        for (out, valid) in out.iter_mut().zip(nulls.iter()) {
            *out = if valid { *out } else { null };
        }
    }
}

fn hash_values(array: &dyn Array, seed: u64, depth: usize, out: &mut [u64]) -> Result<()> {
    match array.data_type() {
        DataType::Null => out.fill(value::null(seed)),
        DataType::Boolean => {
            let hashes = [value::signed(0, seed), value::signed(1, seed)];
            for (out, set) in out.iter_mut().zip(array.as_boolean().values().iter()) {
                *out = hashes[usize::from(set)];
            }
        }
        DataType::Int8 => each::<Int8Type>(array, out, |v| value::signed(v.into(), seed)),
        DataType::Int16 => each::<Int16Type>(array, out, |v| value::signed(v.into(), seed)),
        DataType::Int32 => each::<Int32Type>(array, out, |v| value::signed(v.into(), seed)),
        DataType::Int64 => each::<Int64Type>(array, out, |v| value::signed(v, seed)),
        DataType::UInt8 => each::<UInt8Type>(array, out, |v| value::signed(v.into(), seed)),
        DataType::UInt16 => each::<UInt16Type>(array, out, |v| value::signed(v.into(), seed)),
        DataType::UInt32 => each::<UInt32Type>(array, out, |v| value::signed(v.into(), seed)),
        DataType::UInt64 => each::<UInt64Type>(array, out, |v| value::unsigned(v, seed)),
        DataType::Float16 => each::<Float16Type>(array, out, |v| value::float(v.to_f64(), seed)),
        DataType::Float32 => each::<Float32Type>(array, out, |v| value::float(v.into(), seed)),
        DataType::Float64 => each::<Float64Type>(array, out, |v| value::float(v, seed)),
        DataType::Decimal32(_, scale) => {
            each::<Decimal32Type>(array, out, |v| value::decimal(v.into(), *scale, seed));
        }
        DataType::Decimal64(_, scale) => {
            each::<Decimal64Type>(array, out, |v| value::decimal(v.into(), *scale, seed));
        }
        DataType::Decimal128(_, scale) => each::<Decimal128Type>(array, out, |v| value::decimal(v, *scale, seed)),
        DataType::Decimal256(_, scale) => each::<Decimal256Type>(array, out, |v| value::wide_decimal(v, *scale, seed)),
        DataType::Utf8 => each_bytes(array.as_bytes::<Utf8Type>(), out, |v| value::string(v, seed)),
        DataType::LargeUtf8 => each_bytes(array.as_bytes::<LargeUtf8Type>(), out, |v| value::string(v, seed)),
        DataType::Utf8View => each_view(array.as_byte_view::<StringViewType>(), out, |v| value::string(v, seed)),
        DataType::Binary => each_bytes(array.as_bytes::<BinaryType>(), out, |v| value::binary(v, seed)),
        DataType::LargeBinary => each_bytes(array.as_bytes::<LargeBinaryType>(), out, |v| value::binary(v, seed)),
        DataType::BinaryView => each_view(array.as_byte_view::<BinaryViewType>(), out, |v| value::binary(v, seed)),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            for (row, out) in out.iter_mut().enumerate() {
                *out = value::binary(array.value(row), seed);
            }
        }
        DataType::List(_) => hash_lists(array.as_list::<i32>(), seed, depth, out)?,
        DataType::LargeList(_) => hash_lists(array.as_list::<i64>(), seed, depth, out)?,
        DataType::ListView(_) => hash_list_views(array.as_list_view::<i32>(), seed, depth, out)?,
        DataType::LargeListView(_) => hash_list_views(array.as_list_view::<i64>(), seed, depth, out)?,
        DataType::FixedSizeList(..) => hash_fixed_lists(array.as_fixed_size_list(), seed, depth, out)?,
        DataType::Map(..) => {
            let array = array.as_map();
            hash_ranges(array.entries(), array.value_offsets(), seed, depth, out)?;
        }
        DataType::Struct(_) => hash_structs(array.as_struct(), seed, depth, out)?,
        DataType::Union(..) => hash_unions(array.as_union(), seed, depth, out)?,
        DataType::Dictionary(..) => {
            let array = array.as_any_dictionary();
            let values = hash_all(array.values().as_ref(), seed, depth + 1)?;
            if values.is_empty() {
                out.fill(value::null(seed));
                return Ok(());
            }
            for (out, key) in out.iter_mut().zip(array.normalized_keys()) {
                *out = values[key];
            }
        }
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => hash_runs(array.as_run::<Int16Type>(), seed, depth, out)?,
            DataType::Int32 => hash_runs(array.as_run::<Int32Type>(), seed, depth, out)?,
            _ => hash_runs(array.as_run::<Int64Type>(), seed, depth, out)?,
        },
        other => hash_temporal(array, other, seed, out)?,
    }
    Ok(())
}

fn hash_temporal(array: &dyn Array, data_type: &DataType, seed: u64, out: &mut [u64]) -> Result<()> {
    let instant = |v: i64, unit| value::instant(v, unit, seed);
    let duration = |v: i64, unit| value::duration(v, unit, seed);
    match data_type {
        DataType::Date32 => each::<Date32Type>(array, out, |v| instant(v.into(), DAY)),
        DataType::Date64 => each::<Date64Type>(array, out, |v| instant(v, 1_000_000)),
        DataType::Timestamp(TimeUnit::Second, _) => {
            each::<TimestampSecondType>(array, out, |v| instant(v, 1_000_000_000));
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            each::<TimestampMillisecondType>(array, out, |v| instant(v, 1_000_000));
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            each::<TimestampMicrosecondType>(array, out, |v| instant(v, 1_000));
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => each::<TimestampNanosecondType>(array, out, |v| instant(v, 1)),
        DataType::Time32(TimeUnit::Second) => {
            each::<Time32SecondType>(array, out, |v| value::time(v.into(), 1_000_000_000, seed));
        }
        DataType::Time32(_) => each::<Time32MillisecondType>(array, out, |v| value::time(v.into(), 1_000_000, seed)),
        DataType::Time64(TimeUnit::Microsecond) => {
            each::<Time64MicrosecondType>(array, out, |v| value::time(v, 1_000, seed));
        }
        DataType::Time64(_) => each::<Time64NanosecondType>(array, out, |v| value::time(v, 1, seed)),
        DataType::Duration(TimeUnit::Second) => each::<DurationSecondType>(array, out, |v| duration(v, 1_000_000_000)),
        DataType::Duration(TimeUnit::Millisecond) => {
            each::<DurationMillisecondType>(array, out, |v| duration(v, 1_000_000));
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            each::<DurationMicrosecondType>(array, out, |v| duration(v, 1_000))
        }
        DataType::Duration(TimeUnit::Nanosecond) => each::<DurationNanosecondType>(array, out, |v| duration(v, 1)),
        DataType::Interval(IntervalUnit::YearMonth) => {
            each::<IntervalYearMonthType>(array, out, |v| value::interval(v, 0, 0, seed));
        }
        DataType::Interval(IntervalUnit::DayTime) => each::<IntervalDayTimeType>(array, out, |v| {
            value::interval(0, v.days, i64::from(v.milliseconds) * 1_000_000, seed)
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            each::<IntervalMonthDayNanoType>(array, out, |v| value::interval(v.months, v.days, v.nanoseconds, seed))
        }
        other => return Err(Error::Type { what: "hashing", data_type: other.clone() }),
    }
    Ok(())
}

#[inline(always)]
fn each<T: ArrowPrimitiveType>(array: &dyn Array, out: &mut [u64], hash: impl Fn(T::Native) -> u64) {
    for (out, value) in out.iter_mut().zip(array.as_primitive::<T>().values()) {
        *out = hash(*value);
    }
}

#[inline(always)]
fn each_bytes<T: ByteArrayType>(array: &GenericByteArray<T>, out: &mut [u64], hash: impl Fn(&[u8]) -> u64) {
    for (row, out) in out.iter_mut().enumerate() {
        *out = hash(array.value(row).as_ref());
    }
}

#[inline(always)]
fn each_view<T: ByteViewType>(array: &GenericByteViewArray<T>, out: &mut [u64], hash: impl Fn(&[u8]) -> u64) {
    for (row, out) in out.iter_mut().enumerate() {
        // The view of a null may be anything.
        if array.is_valid(row) {
            *out = hash(array.value(row).as_ref());
        }
    }
}

/// The hashes of elements as bytes, little-endian.
fn element_hashes(values: &dyn Array, seed: u64, depth: usize) -> Result<Vec<u64>> {
    let mut hashes = hash_all(values, seed, depth + 1)?;
    for hash in &mut hashes {
        *hash = hash.to_le();
    }
    Ok(hashes)
}

fn hash_ranges<O: OffsetSizeTrait>(
    values: &dyn Array,
    offsets: &[O],
    seed: u64,
    depth: usize,
    out: &mut [u64],
) -> Result<()> {
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    let hashes = element_hashes(values.slice(first, last - first).as_ref(), seed, depth)?;
    for (out, ends) in out.iter_mut().zip(offsets.windows(2)) {
        *out = value::list(hashes[ends[0].as_usize() - first..ends[1].as_usize() - first].to_byte_slice(), seed);
    }
    Ok(())
}

fn hash_lists<O: OffsetSizeTrait>(array: &GenericListArray<O>, seed: u64, depth: usize, out: &mut [u64]) -> Result<()> {
    hash_ranges(array.values().as_ref(), array.value_offsets(), seed, depth, out)
}

fn hash_list_views<O: OffsetSizeTrait>(
    array: &GenericListViewArray<O>,
    seed: u64,
    depth: usize,
    out: &mut [u64],
) -> Result<()> {
    let hashes = element_hashes(array.values().as_ref(), seed, depth)?;
    for (row, out) in out.iter_mut().enumerate() {
        // Where a null's view points to is not defined.
        if array.is_valid(row) {
            let (start, length) = (array.value_offset(row).as_usize(), array.value_size(row).as_usize());
            *out = value::list(hashes[start..start + length].to_byte_slice(), seed);
        }
    }
    Ok(())
}

fn hash_fixed_lists(array: &FixedSizeListArray, seed: u64, depth: usize, out: &mut [u64]) -> Result<()> {
    let width = array.value_length().as_usize();
    let hashes = element_hashes(array.values().as_ref(), seed, depth)?;
    for (row, out) in out.iter_mut().enumerate() {
        *out = value::list(hashes[row * width..(row + 1) * width].to_byte_slice(), seed);
    }
    Ok(())
}

fn hash_structs(array: &StructArray, seed: u64, depth: usize, out: &mut [u64]) -> Result<()> {
    let fields = array
        .columns()
        .iter()
        .map(|column| element_hashes(column.as_ref(), seed, depth))
        .collect::<Result<Vec<_>>>()?;
    let mut row_hashes = vec![0_u64; fields.len()];
    for (row, out) in out.iter_mut().enumerate() {
        for (place, field) in row_hashes.iter_mut().zip(&fields) {
            *place = field[row];
        }
        *out = value::structure(row_hashes.to_byte_slice(), seed);
    }
    Ok(())
}

fn hash_unions(array: &UnionArray, seed: u64, depth: usize, out: &mut [u64]) -> Result<()> {
    let DataType::Union(fields, _) = array.data_type() else { unreachable!("a union array has a union type") };
    let mut hashes: [Vec<u64>; 128] = [const { Vec::new() }; 128];
    for (id, _) in fields.iter() {
        hashes[usize::from(id.unsigned_abs())] = hash_all(array.child(id).as_ref(), seed, depth + 1)?;
    }
    for (row, out) in out.iter_mut().enumerate() {
        *out = hashes[usize::from(array.type_id(row).unsigned_abs())][array.value_offset(row)];
    }
    Ok(())
}

fn hash_runs<R: RunEndIndexType>(array: &RunArray<R>, seed: u64, depth: usize, out: &mut [u64]) -> Result<()> {
    let hashes = hash_all(array.values().as_ref(), seed, depth + 1)?;
    let ends = array.run_ends();
    let (values, offset) = (ends.values(), ends.offset());
    let mut run = if out.is_empty() { 0 } else { ends.get_start_physical_index() };
    for (row, out) in out.iter_mut().enumerate() {
        while values[run].as_usize() <= row + offset {
            run += 1;
        }
        *out = hashes[run];
    }
    Ok(())
}
