//! Range partitioning: which partition a row belongs to, given sorted boundaries.
//!
//! Comparing rows of several columns of any type would need a branch for each value. Instead, every column is encoded as
//! *codes*: given the distinct boundary values `v0 < v1 < …` of that column, the code of a value is `2i` if it is between
//! `v(i-1)` and `vi`, and `2i + 1` if it equals `vi`. Codes compare like the values, to the precision of the boundaries.
//! Two columns are folded into one code in the same way: pairs of codes are encoded by the boundaries' pairs.

use std::cmp::Ordering;

use arrow_array::ArrowNativeTypeOp;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::error::{Error, Result};

/// The sort order of a key column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// Whether the greatest value comes first.
    pub descending: bool,
    /// Whether nulls come first; otherwise they come last. Descending order does not affect this. NaN is not null: it is
    /// greater than all numbers, as for the kernel that sorts the rows of a range.
    pub nulls_first: bool,
}

/// The boundaries between ranges of rows, in the order of the rows.
///
/// With `m` boundaries there are `m + 1` ranges. The number of a row's range is the count of boundaries that do not sort
/// after the row, so equal rows are in the same range. Equal boundaries make empty ranges.
pub struct Ranges {
    columns: Vec<Column>,
    /// For each fold of two columns into one code: the sorted distinct codes of the boundaries.
    folds: Vec<Vec<u64>>,
    /// For each code, the number of boundaries that do not sort after a row with this code.
    partitions: Vec<u32>,
    boundaries: usize,
}

struct Column {
    values: ArrayRef,
    /// The rows of `values` with distinct values that are not null, ascending.
    distinct: Vec<u32>,
    order: Order,
}

impl Ranges {
    /// The ranges between the rows of `boundaries`, which has an array for each key column.
    ///
    /// # Errors
    /// When there are no columns, they differ in length, the number of orders is not that of the columns, a type has no
    /// order, or the boundaries are not sorted by these orders.
    pub fn new(boundaries: &[ArrayRef], orders: &[Order]) -> Result<Self> {
        let rows = boundaries.first().ok_or(Error::NoKeys)?.len();
        if orders.len() != boundaries.len() {
            let text = format!("{} orders were given for {} columns", orders.len(), boundaries.len());
            return Err(Error::Boundaries(text));
        }
        let mut columns = Vec::with_capacity(boundaries.len());
        for (column, (values, order)) in boundaries.iter().zip(orders).enumerate() {
            if values.len() != rows {
                return Err(Error::Length { column, found: values.len(), expected: rows });
            }
            let values = plain(values)?;
            columns.push(Column { distinct: distinct(values.as_ref())?, values, order: *order });
        }
        let mut ranges = Self { columns, folds: Vec::new(), partitions: Vec::new(), boundaries: rows };
        let mut codes = vec![0; rows];
        let keys: Vec<_> = ranges.columns.iter().map(|column| column.values.clone()).collect();
        ranges.columns[0].codes(keys[0].as_ref(), &mut codes)?;
        let mut next = vec![0; rows];
        for (column, key) in ranges.columns.iter().zip(&keys).skip(1) {
            column.codes(key.as_ref(), &mut next)?;
            for (code, next) in codes.iter_mut().zip(&next) {
                *code = column.join(*code, *next);
            }
            let mut fold = codes.clone();
            fold.sort_unstable();
            fold.dedup();
            for code in &mut codes {
                *code = code_of(&fold, *code);
            }
            ranges.folds.push(fold);
        }
        if let Some(row) = codes.windows(2).position(|pair| pair[0] > pair[1]) {
            let text = format!("boundary {} comes before boundary {row} in the given order; sort them", row + 1);
            return Err(Error::Boundaries(text));
        }
        let most = codes.last().map_or(0, |last| last + 2);
        ranges.partitions = (0..=most).map(|code| codes.partition_point(|boundary| *boundary <= code) as u32).collect();
        Ok(ranges)
    }

    /// The number of ranges: one more than boundaries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.boundaries + 1
    }

    /// The number of key columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Write the range of each row from `start` on to `out`. `keys` must be [`plain`] arrays.
    pub(crate) fn assign(&self, keys: &[ArrayRef], start: usize, out: &mut [u16]) -> Result<()> {
        let mut codes = vec![0; out.len()];
        let mut next = vec![0; if self.columns.len() > 1 { out.len() } else { 0 }];
        for (number, (column, key)) in self.columns.iter().zip(keys).enumerate() {
            let key = key.slice(start, out.len());
            if number == 0 {
                column.codes(key.as_ref(), &mut codes)?;
                continue;
            }
            column.codes(key.as_ref(), &mut next)?;
            let fold = &self.folds[number - 1];
            for (code, next) in codes.iter_mut().zip(&next) {
                *code = code_of(fold, column.join(*code, *next));
            }
        }
        let last = self.partitions.len() - 1;
        for (out, code) in out.iter_mut().zip(&codes) {
            *out = self.partitions[(*code as usize).min(last)] as u16;
        }
        Ok(())
    }

    /// Check that the boundaries can be compared with columns of these types.
    pub(crate) fn check(&self, types: &[&DataType]) -> Result<()> {
        if types.len() != self.columns.len() {
            let text = format!("they have {} columns, the keys {}", self.columns.len(), types.len());
            return Err(Error::Boundaries(text));
        }
        for (column, data_type) in self.columns.iter().zip(types) {
            let (ours, theirs) = (column.values.data_type(), plain_type(data_type));
            if ours != theirs && !(is_text(ours) && is_text(theirs)) && !(is_binary(ours) && is_binary(theirs)) {
                return Err(Error::Boundaries(format!("they are of type {ours}, the key of type {theirs}")));
            }
        }
        Ok(())
    }
}

impl Column {
    /// The number of codes, including the two of nulls.
    fn codes_end(&self) -> u64 {
        2 * self.distinct.len() as u64 + 3
    }

    /// Combine the code of the columns before with the code of this one.
    fn join(&self, before: u64, code: u64) -> u64 {
        before * self.codes_end() + code
    }

    fn codes(&self, keys: &dyn Array, out: &mut [u64]) -> Result<()> {
        let values = self.values.as_ref();
        macro_rules! primitive {
            ($($kind:ty),+ $(,)?) => {
                match keys.data_type() {
                    DataType::Boolean => self.search(
                        &self.distinct.iter().map(|row| values.as_boolean().value(*row as usize)).collect::<Vec<_>>(),
                        keys, |row| keys.as_boolean().value(row), |a, b| a.cmp(b), out),
                    data_type if is_text(data_type) || is_binary(data_type) => {
                        let ours = bytes_of(values);
                        let distinct: Vec<_> = self.distinct.iter().map(|row| ours(*row as usize)).collect();
                        let theirs = bytes_of(keys);
                        self.search(&distinct, keys, theirs, |a, b| a.cmp(b), out);
                    }
                    $(data_type if same_kind::<$kind>(data_type) => {
                        let ours = values.as_primitive::<$kind>().values();
                        let distinct: Vec<_> = self.distinct.iter().map(|row| ours[*row as usize]).collect();
                        let theirs = keys.as_primitive::<$kind>().values();
                        self.search(&distinct, keys, |row| theirs[row], |a, b| order(*a, *b), out);
                    })+
                    other => return Err(Error::Type { what: "ordering", data_type: other.clone() }),
                }
            };
        }
        each_primitive!(primitive);
        Ok(())
    }

    #[inline(always)]
    fn search<T>(
        &self,
        distinct: &[T],
        keys: &dyn Array,
        get: impl Fn(usize) -> T,
        compare: impl Fn(&T, &T) -> Ordering,
        out: &mut [u64],
    ) {
        let end = 2 * distinct.len() as u64;
        let null = if self.order.nulls_first { 0 } else { end + 2 };
        let nulls = keys.nulls().filter(|nulls| nulls.null_count() > 0);
        for (row, out) in out.iter_mut().enumerate() {
            *out = if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                null
            } else {
                let value = get(row);
                let before = distinct.partition_point(|boundary| compare(boundary, &value).is_lt());
                let equal = before < distinct.len() && compare(&distinct[before], &value).is_eq();
                let code = 2 * before as u64 + u64::from(equal);
                1 + if self.order.descending { end - code } else { code }
            };
        }
    }
}

/// Dispatch over all types whose order is that of their native numbers.
macro_rules! each_primitive {
    ($with:ident) => {
        $with!(
            Int8Type,
            Int16Type,
            Int32Type,
            Int64Type,
            UInt8Type,
            UInt16Type,
            UInt32Type,
            UInt64Type,
            Float16Type,
            Float32Type,
            Float64Type,
            Decimal32Type,
            Decimal64Type,
            Decimal128Type,
            Decimal256Type,
            Date32Type,
            Date64Type,
            TimestampSecondType,
            TimestampMillisecondType,
            TimestampMicrosecondType,
            TimestampNanosecondType,
            Time32SecondType,
            Time32MillisecondType,
            Time64MicrosecondType,
            Time64NanosecondType,
            DurationSecondType,
            DurationMillisecondType,
            DurationMicrosecondType,
            DurationNanosecondType,
            IntervalYearMonthType,
        )
    };
}
use each_primitive;

/// Whether arrays of this type can be read as arrays of `T`, ignoring parameters such as scale and time zone.
fn same_kind<T: ArrowPrimitiveType>(data_type: &DataType) -> bool {
    match (&T::DATA_TYPE, data_type) {
        (DataType::Timestamp(ours, _), DataType::Timestamp(theirs, _)) => ours == theirs,
        (ours, theirs) => std::mem::discriminant(ours) == std::mem::discriminant(theirs) && unit(ours) == unit(theirs),
    }
}

fn unit(data_type: &DataType) -> (Option<TimeUnit>, Option<IntervalUnit>) {
    match data_type {
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => (Some(*unit), None),
        DataType::Interval(unit) => (None, Some(*unit)),
        _ => (None, None),
    }
}

/// The total order of numbers: the two zeros are equal, and so are all NaNs, which are greater than all numbers.
#[inline(always)]
fn order<N: ArrowNativeTypeOp>(a: N, b: N) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

/// Whether a value is NaN: unequal to itself by IEEE comparison.
#[inline(always)]
fn is_nan<N: ArrowNativeTypeOp>(value: N) -> bool {
    value.partial_cmp(&value).is_none()
}

fn code_of(sorted: &[u64], code: u64) -> u64 {
    let before = sorted.partition_point(|boundary| *boundary < code);
    2 * before as u64 + u64::from(sorted.get(before) == Some(&code))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

fn bytes_of<'a>(array: &'a dyn Array) -> Box<dyn Fn(usize) -> &'a [u8] + 'a> {
    match array.data_type() {
        DataType::Utf8 => Box::new(|row| array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => Box::new(|row| array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => Box::new(|row| array.as_string_view().value(row).as_bytes()),
        DataType::Binary => Box::new(|row| array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Box::new(|row| array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Box::new(|row| array.as_binary_view().value(row)),
        _ => Box::new(|row| array.as_fixed_size_binary().value(row)),
    }
}

fn plain_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Decode a dictionary array to its values.
pub(crate) fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(array.data_type(), DataType::Dictionary(..)) {
        return Ok(array.clone());
    }
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values().to_data();
    let mut out = arrow_data::transform::MutableArrayData::try_new(vec![&values], true, array.len())?;
    let keys = if values.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
    for (row, key) in keys.into_iter().enumerate() {
        if dictionary.is_null(row) || values.is_empty() {
            out.try_extend_nulls(1)?;
        } else {
            out.try_extend(0, key, key + 1)?;
        }
    }
    Ok(arrow_array::make_array(out.freeze()))
}

/// The rows with the distinct values that are not null, ascending.
fn distinct(values: &dyn Array) -> Result<Vec<u32>> {
    let valid = (0..values.len() as u32).filter(|row| values.is_valid(*row as usize));
    macro_rules! primitive {
        ($($kind:ty),+ $(,)?) => {
            match values.data_type() {
                DataType::Boolean => {
                    let values = values.as_boolean();
                    sorted(valid, |row| values.value(row), |a, b| a.cmp(b))
                }
                data_type if is_text(data_type) || is_binary(data_type) => {
                    sorted(valid, bytes_of(values), |a, b| a.cmp(b))
                }
                $(data_type if same_kind::<$kind>(data_type) => {
                    let values = values.as_primitive::<$kind>().values();
                    sorted(valid, |row| values[row], |a, b| order(*a, *b))
                })+
                other => return Err(Error::Type { what: "ordering", data_type: other.clone() }),
            }
        };
    }
    Ok(each_primitive!(primitive))
}

fn sorted<T>(
    rows: impl Iterator<Item = u32>,
    get: impl Fn(usize) -> T,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Vec<u32> {
    let mut rows: Vec<u32> = rows.collect();
    rows.sort_by(|a, b| compare(&get(*a as usize), &get(*b as usize)));
    rows.dedup_by(|a, b| compare(&get(*a as usize), &get(*b as usize)).is_eq());
    rows
}
