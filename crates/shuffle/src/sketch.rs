//! HyperLogLog sketches: estimates of the number of distinct values of a column, from the stable hash of its values.
//!
//! # Registers
//! A sketch has [`REGISTERS`] registers of one byte. A value with the [hash](crate::hash) `h`, without a seed, belongs to the register
//! `h >> 54`; the rank of the value is the number of leading zeros of the other 54 bits, plus one, so 55 if there is no other bit.
//! A register has the greatest rank of its values, and 0 if it has none. Nulls are no values; all NaN are one value.
//!
//! Two sketches are merged by the greater of each two registers: the result is the sketch of the values of both. As the hash is
//! stable, so is the sketch, whichever process, machine or version has made it.

use arrow_array::{Array, ArrayRef};

use crate::error::Result;
use crate::hash::Hashable;

/// The binary logarithm of the number of registers.
const PRECISION: u32 = 10;

/// The number of registers.
pub const REGISTERS: usize = 1 << PRECISION;

/// Values that are hashed at a time.
const BLOCK: usize = 1 << 13;

/// Add the values of a column to a sketch.
///
/// # Errors
/// When the type is not supported or nested too deeply.
pub fn sketch(column: &ArrayRef, registers: &mut [u8; REGISTERS]) -> Result<()> {
    let hashable = Hashable::new(column, 0)?;
    let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let mut hashes = vec![0; BLOCK.min(column.len())];
    for start in (0..column.len()).step_by(BLOCK) {
        let hashes = &mut hashes[..BLOCK.min(column.len() - start)];
        hashable.hash(start, 0, hashes)?;
        match &nulls {
            None => hashes.iter().for_each(|hash| add(*hash, registers)),
            Some(nulls) => {
                for (row, hash) in hashes.iter().enumerate() {
                    if nulls.is_valid(start + row) {
                        add(*hash, registers);
                    }
                }
            }
        }
    }
    Ok(())
}

#[inline(always)]
fn add(hash: u64, registers: &mut [u8; REGISTERS]) {
    let register = &mut registers[(hash >> (u64::BITS - PRECISION)) as usize];
    // The bit below the last one of the hash ends the zeros.
    let rank = ((hash << PRECISION) | (1 << (PRECISION - 1))).leading_zeros() as u8 + 1;
    *register = rank.max(*register);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{DictionaryArray, Float64Array, Int8Array, Int64Array, StringArray};

    use super::*;

    fn of(column: ArrayRef) -> [u8; REGISTERS] {
        let mut registers = [0; REGISTERS];
        sketch(&column, &mut registers).expect("the type is supported");
        registers
    }

    fn of_numbers(numbers: impl IntoIterator<Item = i64>) -> [u8; REGISTERS] {
        of(Arc::new(Int64Array::from_iter_values(numbers)))
    }

    #[test]
    fn ranks_end_with_the_hash() {
        let mut registers = [0; REGISTERS];
        add(0, &mut registers);
        add(u64::MAX, &mut registers);
        add((1 << 54) | 1, &mut registers);
        assert_eq!((registers[0], registers[REGISTERS - 1], registers[1]), (55, 1, 54));
    }

    #[test]
    fn merging_is_adding() {
        let (mut left, right, both) = (of_numbers(0..30_000), of_numbers(20_000..50_000), of_numbers(0..50_000));
        left.iter_mut().zip(right).for_each(|(left, right)| *left = right.max(*left));
        assert_eq!(left, both);
        assert_eq!(of_numbers((0..50_000).rev().chain(0..9)), both);
    }

    #[test]
    fn equal_values_of_other_types_are_the_same() {
        let numbers = of_numbers(0..5);
        assert_eq!(of(Arc::new(Int8Array::from(vec![Some(0), None, Some(1), Some(2), Some(3), Some(4)]))), numbers);
        assert_eq!(of(Arc::new(Float64Array::from(vec![-0.0, 0.0, 1.0, 2.0, 3.0, 4.0]))), numbers);
        let texts: DictionaryArray<Int32Type> = vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
        assert_eq!(of(Arc::new(texts)), of(Arc::new(StringArray::from(vec!["a", "b"]))));
    }

    #[test]
    fn columns_without_values_have_empty_sketches() {
        assert_eq!(of_numbers([]), [0; REGISTERS]);
        assert_eq!(of(Arc::new(StringArray::from(vec![None::<&str>; 9]))), [0; REGISTERS]);
    }
}
