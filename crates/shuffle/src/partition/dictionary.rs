//! Unifies the dictionaries of all batches, because all partitions share the values.

use std::collections::HashMap;

use arrow_array::make_array;
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::DataType;

use crate::error::{Error, Result};
use crate::hash::hash_rows;

/// The keys of each batch, starting with its first row, and the values that they all index.
pub(super) fn unite(
    key_type: &DataType,
    value_type: &DataType,
    arrays: &[ArrayData],
) -> Result<(Vec<Buffer>, ArrayData)> {
    let width = key_type.primitive_width().unwrap_or(1);
    let keys = |array: &ArrayData| array.buffers()[0].slice((array.offset() * width).min(array.buffers()[0].len()));
    let Some(first) = arrays.first() else { return Ok((Vec::new(), ArrayData::new_empty(value_type))) };
    let values = &first.child_data()[0];
    let same = |array: &ArrayData| array.child_data()[0].ptr_eq(values) || array.child_data()[0] == *values;
    if arrays[1..].iter().all(same) {
        return Ok((arrays.iter().map(keys).collect(), values.clone()));
    }
    let (places, values) = merge(arrays)?;
    if values.len() > most(key_type) {
        return Err(Error::Dictionary { values: values.len(), key_type: key_type.clone() });
    }
    let keys = arrays.iter().zip(places).map(|(array, places)| match key_type {
        DataType::Int8 => moved::<i8>(array, keys(array), &places),
        DataType::Int16 => moved::<i16>(array, keys(array), &places),
        DataType::Int32 => moved::<i32>(array, keys(array), &places),
        DataType::Int64 => moved::<i64>(array, keys(array), &places),
        DataType::UInt8 => moved::<u8>(array, keys(array), &places),
        DataType::UInt16 => moved::<u16>(array, keys(array), &places),
        DataType::UInt32 => moved::<u32>(array, keys(array), &places),
        _ => moved::<u64>(array, keys(array), &places),
    });
    Ok((keys.collect(), values))
}

/// The number of values that keys of a type can index.
fn most(key_type: &DataType) -> usize {
    let bits = key_type.primitive_width().unwrap_or(1) * 8 - usize::from(key_type.is_signed_integer());
    1_usize.checked_shl(bits as u32).unwrap_or(usize::MAX)
}

/// The distinct values of all batches, and the position of each batch's values among them.
fn merge(arrays: &[ArrayData]) -> Result<(Vec<Vec<usize>>, ArrayData)> {
    let dictionaries: Vec<&ArrayData> = arrays.iter().map(|array| &array.child_data()[0]).collect();
    let mut out = MutableArrayData::try_new(dictionaries.clone(), true, dictionaries[0].len())?;
    // The places of values by hash: the batch, the row in it, the row in the result.
    let mut seen: HashMap<u64, Vec<(usize, usize, usize)>> = HashMap::new();
    let mut places = Vec::with_capacity(arrays.len());
    for (batch, dictionary) in dictionaries.iter().enumerate() {
        let hashes = hash_rows(&[make_array((*dictionary).clone())], 0)?;
        let mut mine = Vec::with_capacity(hashes.len());
        for (row, hash) in hashes.into_iter().enumerate() {
            let alike = seen.entry(hash).or_default();
            let value = dictionary.slice(row, 1);
            let known = alike.iter().find(|(batch, row, _)| dictionaries[*batch].slice(*row, 1) == value);
            mine.push(match known {
                Some((_, _, place)) => *place,
                None => {
                    out.try_extend(batch, row, row + 1)?;
                    alike.push((batch, row, out.len() - 1));
                    out.len() - 1
                }
            });
        }
        places.push(mine);
    }
    Ok((places, out.freeze()))
}

/// Map keys of one batch's values to keys of the united values. The keys of nulls do not matter.
fn moved<K: ArrowNativeType>(array: &ArrayData, keys: Buffer, places: &[usize]) -> Buffer {
    let keys = keys.typed_data::<K>().iter().take(array.len());
    let place = |key: &K| key.to_usize().and_then(|key| places.get(key)).copied().unwrap_or(0);
    keys.map(|key| K::usize_as(place(key))).collect()
}
