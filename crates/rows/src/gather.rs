//! Gathers the values of a column by row numbers.

use rayon::prelude::*;

/// Rows that one task gathers.
const PIECE: usize = 1 << 15;

/// Write the values of some rows to `out`, in the order of the row numbers.
///
/// # Panics
///
/// If `out` is not as long as `rows`, or a row number is not below the number of values.
pub fn gather<T: Copy + Send + Sync>(values: &[T], rows: &[u32], out: &mut [T]) {
    assert_eq!(rows.len(), out.len(), "out must be as long as rows");
    out.par_chunks_mut(PIECE).zip(rows.par_chunks(PIECE)).for_each(|(out, rows)| {
        for (value, &row) in out.iter_mut().zip(rows) {
            *value = values[row as usize];
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_the_order_of_the_rows() {
        let values: Vec<u64> = (0..100_000).map(|value| value * 3).collect();
        let rows: Vec<u32> = (0..200_000).map(|row| row * 7919 % 100_000).collect();
        let mut out = vec![0; rows.len()];
        gather(&values, &rows, &mut out);
        assert!(out.iter().zip(&rows).all(|(&value, &row)| value == u64::from(row) * 3));
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn rows_that_are_not_there_are_refused() {
        gather(&[1_u8, 2], &[0, 2], &mut [0, 0]);
    }
}
