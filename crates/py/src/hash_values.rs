//! Values of hash tables: columns of numbers as 64-bit integers or floats, and results in the types of the columns.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float32Array, make_array};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};
use craton_store::services::hash::{Aggregate, Number, Values};

type Result<T> = std::result::Result<T, ArrowError>;

/// The values of a column.
pub enum NumberColumn {
    Int(ScalarBuffer<i64>, Option<NullBuffer>),
    Float(ScalarBuffer<f64>, Option<NullBuffer>),
    /// Only nulls matter: for counting.
    Any(usize, Option<NullBuffer>),
    /// No column: rows are counted.
    Rows,
}

impl NumberColumn {
    /// The values, as the store takes them. `zeros` has as many items as there are rows.
    pub fn values<'a>(&'a self, zeros: &'a [i64]) -> Values<'a> {
        match self {
            Self::Int(values, nulls) => Values::Int(values, nulls.as_ref()),
            Self::Float(values, nulls) => Values::Float(values, nulls.as_ref()),
            Self::Any(rows, nulls) => Values::Int(&zeros[..*rows], nulls.as_ref()),
            Self::Rows => Values::Rows,
        }
    }
}

/// The aggregate of a column, and the type of its results; `None` if the type has no such aggregate.
pub fn aggregate_of(name: &str, data_type: Option<&DataType>) -> Option<(Aggregate, DataType)> {
    use DataType::{Boolean, Date32, Date64, Duration, Float32, Float64, Int64, Null, Time32, Time64, Timestamp};
    if name == "count" {
        return Some((Aggregate::Count, Int64));
    }
    let data_type = data_type?;
    let number = match data_type {
        Float32 | Float64 => Number::Float,
        other if other.is_integer() => Number::Int,
        Boolean | Null | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => Number::Int,
        _ => return None,
    };
    let aggregate = match name {
        "sum" => {
            let result = match data_type {
                Float32 | Float64 => Float64,
                Duration(_) => data_type.clone(),
                Boolean | Null => Int64,
                other if other.is_integer() => Int64,
                _ => return None,
            };
            return Some((Aggregate::Sum(number), result));
        }
        "min" => Aggregate::Min(number),
        "max" => Aggregate::Max(number),
        "last" => Aggregate::Last(number),
        _ => return None,
    };
    Some((aggregate, data_type.clone()))
}

/// Whether all values of a column have 64 bits with a sign; only unsigned ones may not.
pub fn fits(array: &ArrayRef) -> bool {
    *array.data_type() != DataType::UInt64
        || array.as_primitive::<UInt64Type>().iter().flatten().all(|value| i64::try_from(value).is_ok())
}

/// The values of a column for an aggregate.
pub fn numbers(array: &ArrayRef, aggregate: Aggregate) -> Result<NumberColumn> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    if aggregate == Aggregate::Count {
        return Ok(NumberColumn::Any(array.len(), nulls));
    }
    let data = array.to_data();
    let count = array.len();
    let ints: ScalarBuffer<i64> = match array.data_type() {
        DataType::Float64 => {
            return Ok(NumberColumn::Float(array.as_primitive::<Float64Type>().values().clone(), nulls));
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values();
            return Ok(NumberColumn::Float(values.iter().map(|value| f64::from(*value)).collect(), nulls));
        }
        DataType::Boolean => array.as_boolean().values().iter().map(i64::from).collect(),
        DataType::Null => vec![0; count].into(),
        DataType::UInt8 => data.buffer::<u8>(0)[..count].iter().map(|value| i64::from(*value)).collect(),
        DataType::UInt16 => data.buffer::<u16>(0)[..count].iter().map(|value| i64::from(*value)).collect(),
        DataType::UInt32 => data.buffer::<u32>(0)[..count].iter().map(|value| i64::from(*value)).collect(),
        other => match other.primitive_width() {
            Some(1) => data.buffer::<i8>(0)[..count].iter().map(|value| i64::from(*value)).collect(),
            Some(2) => data.buffer::<i16>(0)[..count].iter().map(|value| i64::from(*value)).collect(),
            Some(4) => data.buffer::<i32>(0)[..count].iter().map(|value| i64::from(*value)).collect(),
            Some(8) => ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), count),
            _ => return Err(ArrowError::InvalidArgumentError(format!("values of type {other}"))),
        },
    };
    Ok(NumberColumn::Int(ints, nulls))
}

/// Results as an array of that type.
pub fn typed(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let nulls = array.nulls().cloned();
    if *data_type == DataType::Float32 {
        let values = array.as_primitive::<Float64Type>().values().iter().map(|value| *value as f32);
        return Ok(Arc::new(Float32Array::new(values.collect(), nulls)));
    }
    let values = array.as_primitive::<Int64Type>().values();
    let buffer = match data_type {
        DataType::Boolean => Buffer::from_iter(values.iter().map(|value| *value != 0)),
        DataType::Null => return Ok(Arc::new(arrow_array::NullArray::new(array.len()))),
        other => match other.primitive_width() {
            Some(1) => Buffer::from_vec(values.iter().map(|value| *value as u8).collect::<Vec<_>>()),
            Some(2) => Buffer::from_vec(values.iter().map(|value| *value as u16).collect::<Vec<_>>()),
            Some(4) => Buffer::from_vec(values.iter().map(|value| *value as u32).collect::<Vec<_>>()),
            _ => values.inner().clone(),
        },
    };
    Ok(make_array(ArrayData::builder(data_type.clone()).len(array.len()).nulls(nulls).add_buffer(buffer).build()?))
}
