//! Keys of join maps: values of one kind have the same key whatever their types, so that tables of other types can be joined.
//!
//! A value of one column is a view, as in `hash_keys`. Keys of several columns are concatenated, each after a byte that says how many bytes follow.
//!
//! | kind | bytes |
//! | --- | --- |
//! | whole number in [-2⁶³, 2⁶³), also of a float | the 8 bytes of the i64 |
//! | whole number in [2⁶³, 2⁶⁴) | the 8 bytes of the u64, and a byte |
//! | another float, widened to 64 bits; one NaN for all | its 8 bytes, and two bytes |
//! | date, timestamp: nanoseconds since 1970; duration: nanoseconds | the 8 bytes of the i64, or 12 if they do not fit |
//! | time of day: nanoseconds since midnight | the 8 bytes of the i64 |
//! | boolean | one byte |
//! | text, binary | themselves |

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, TimeUnit};
use craton_store::services::hash::{NULL_KEY, view_of};

use crate::hash_keys::{EncodedKeys, encode_column, of_dictionary, value_type, with_nulls};

type Result<T> = std::result::Result<T, ArrowError>;

/// The name of the kind of a column's values, which only match values of the same kind; `None` for types that cannot be keys.
pub fn kind_of(data_type: &DataType) -> Option<&'static str> {
    use DataType as T;
    Some(match value_type(data_type) {
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => "number",
        T::Float16 | T::Float32 | T::Float64 => "number",
        T::Boolean => "boolean",
        T::Utf8 | T::LargeUtf8 | T::Utf8View => "text",
        T::Binary | T::LargeBinary | T::BinaryView => "binary",
        T::Date32 | T::Date64 | T::Timestamp(_, None) => "instant",
        T::Timestamp(_, Some(_)) => "instant with time zone",
        T::Time32(_) | T::Time64(_) => "time of day",
        T::Duration(_) => "duration",
        T::Null => "null",
        _ => return None,
    })
}

/// Encode the keys of all rows.
pub fn encode(columns: &[ArrayRef]) -> Result<EncodedKeys> {
    match columns {
        [column] => encode_values(column),
        columns => encode_rows(columns),
    }
}

#[inline(always)]
fn whole(value: i64) -> u128 {
    8 | u128::from(value as u64) << 32
}

#[inline(always)]
fn unsigned(value: u64) -> u128 {
    match i64::try_from(value) {
        Ok(value) => whole(value),
        Err(_) => 9 | u128::from(value) << 32,
    }
}

#[inline(always)]
fn float(value: f64) -> u128 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if value == value.trunc() && (-HALF..2.0 * HALF).contains(&value) {
        return if value < HALF { whole(value as i64) } else { unsigned(value as u64) };
    }
    let value = if value.is_nan() { f64::NAN } else { value };
    10 | u128::from(value.to_bits()) << 32
}

#[inline(always)]
fn scaled(value: i64, nanoseconds: i64) -> u128 {
    match value.checked_mul(nanoseconds) {
        Some(value) => whole(value),
        // At most 2⁶³ seconds, or 2³¹ days, which have less than 2⁹⁵ nanoseconds.
        None => 12 | ((i128::from(value) * i128::from(nanoseconds)) as u128) << 32,
    }
}

fn mapped<T: ArrowPrimitiveType>(array: &ArrayRef, view: impl Fn(T::Native) -> u128) -> EncodedKeys {
    let values = array.as_primitive::<T>().values().iter();
    EncodedKeys { views: values.map(|value| view(*value)).collect(), buffers: Vec::new() }
}

const DAY: i64 = 86_400_000_000_000;

fn nanoseconds(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn encode_values(array: &ArrayRef) -> Result<EncodedKeys> {
    use DataType as T;
    let encoded = match array.data_type() {
        T::Int8 => mapped::<Int8Type>(array, |value| whole(value.into())),
        T::Int16 => mapped::<Int16Type>(array, |value| whole(value.into())),
        T::Int32 => mapped::<Int32Type>(array, |value| whole(value.into())),
        T::Int64 => mapped::<Int64Type>(array, whole),
        T::UInt8 => mapped::<UInt8Type>(array, |value| whole(value.into())),
        T::UInt16 => mapped::<UInt16Type>(array, |value| whole(value.into())),
        T::UInt32 => mapped::<UInt32Type>(array, |value| whole(value.into())),
        T::UInt64 => mapped::<UInt64Type>(array, unsigned),
        T::Float16 => mapped::<Float16Type>(array, |value| float(value.to_f64())),
        T::Float32 => mapped::<Float32Type>(array, |value| float(value.into())),
        T::Float64 => mapped::<Float64Type>(array, float),
        T::Date32 => mapped::<Date32Type>(array, |value| scaled(value.into(), DAY)),
        T::Date64 => mapped::<Date64Type>(array, |value| scaled(value, nanoseconds(TimeUnit::Millisecond))),
        T::Timestamp(unit, _) => of_timestamps(array, *unit),
        T::Duration(unit) => of_durations(array, *unit),
        T::Time32(unit) | T::Time64(unit) => of_times(array, *unit),
        T::Dictionary(..) => return of_dictionary(array, encode_values),
        _ => return encode_column(array),
    };
    Ok(with_nulls(encoded, array.nulls()))
}

fn of_timestamps(array: &ArrayRef, unit: TimeUnit) -> EncodedKeys {
    let view = |value| scaled(value, nanoseconds(unit));
    match unit {
        TimeUnit::Second => mapped::<TimestampSecondType>(array, view),
        TimeUnit::Millisecond => mapped::<TimestampMillisecondType>(array, view),
        TimeUnit::Microsecond => mapped::<TimestampMicrosecondType>(array, view),
        TimeUnit::Nanosecond => mapped::<TimestampNanosecondType>(array, view),
    }
}

fn of_durations(array: &ArrayRef, unit: TimeUnit) -> EncodedKeys {
    let view = |value| scaled(value, nanoseconds(unit));
    match unit {
        TimeUnit::Second => mapped::<DurationSecondType>(array, view),
        TimeUnit::Millisecond => mapped::<DurationMillisecondType>(array, view),
        TimeUnit::Microsecond => mapped::<DurationMicrosecondType>(array, view),
        TimeUnit::Nanosecond => mapped::<DurationNanosecondType>(array, view),
    }
}

fn of_times(array: &ArrayRef, unit: TimeUnit) -> EncodedKeys {
    let scale = nanoseconds(unit);
    match unit {
        TimeUnit::Second => mapped::<Time32SecondType>(array, |value| scaled(value.into(), scale)),
        TimeUnit::Millisecond => mapped::<Time32MillisecondType>(array, |value| scaled(value.into(), scale)),
        TimeUnit::Microsecond => mapped::<Time64MicrosecondType>(array, |value| scaled(value, scale)),
        TimeUnit::Nanosecond => mapped::<Time64NanosecondType>(array, |value| scaled(value, scale)),
    }
}

/// How many bytes a value has in the key of several columns, and how many its own header has.
#[inline(always)]
fn size(view: u128, numbers: bool) -> (usize, usize) {
    if view == NULL_KEY {
        return (0, 1);
    }
    let length = view as u32 as usize;
    if numbers && length == 8 {
        return (significant((view >> 32) as u64 as i64), 1);
    }
    (length, if length < LONG { 1 } else { 5 })
}

/// A value of so many bytes has its length in 4 bytes after the first one.
const LONG: usize = 250;

/// The bytes of a number without those that only repeat its sign.
#[inline(always)]
fn significant(value: i64) -> usize {
    let sign_bits = if value < 0 { (!value).leading_zeros() } else { value.leading_zeros() };
    (65 - sign_bits as usize).div_ceil(8).min(8)
}

/// The keys of several columns: for each, a byte that is 0 for null, otherwise the length plus 1 (or 255, and the length in 4 bytes), and the value.
/// Numbers are shortened, so that the keys of two small ones are not long.
fn encode_rows(columns: &[ArrayRef]) -> Result<EncodedKeys> {
    let rows = columns.first().map_or(0, |column| column.len());
    let parts = columns.iter().map(encode_values).collect::<Result<Vec<_>>>()?;
    let numbers: Vec<bool> =
        columns.iter().map(|column| !matches!(kind_of(column.data_type()), Some("text" | "binary"))).collect();
    let mut starts = vec![0usize; rows + 1];
    for (part, numbers) in parts.iter().zip(&numbers) {
        for (start, view) in starts[1..].iter_mut().zip(part.views.iter()) {
            let (bytes, header) = size(*view, *numbers);
            *start += bytes + header;
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
    for (part, numbers) in parts.iter().zip(&numbers) {
        for (next, view) in next.iter_mut().zip(part.views.iter()) {
            let (length, header) = size(*view, *numbers);
            let target = &mut bytes[*next..*next + header + length];
            *next += target.len();
            if *view == NULL_KEY {
                continue;
            }
            let (head, value) = target.split_at_mut(header);
            match head {
                [short] => *short = length as u8 + 1,
                [long, length_bytes @ ..] => {
                    *long = 255;
                    length_bytes.copy_from_slice(&(length as u32).to_le_bytes());
                }
                [] => {}
            }
            value.copy_from_slice(&part.value(view)[..length]);
        }
    }
    let views = starts.windows(2).map(|ends| view_of(&bytes[ends[0]..ends[1]], 0, ends[0] as u32)).collect();
    Ok(EncodedKeys { views, buffers: vec![Buffer::from_vec(bytes)] })
}
