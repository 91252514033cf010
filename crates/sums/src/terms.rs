//! Short lists of terms that have the same exact sum as a list of numbers.

use rayon::prelude::*;

use crate::accumulator::Accumulator;
use crate::{LISTS, PIECE, list};

/// The terms of each list, and the offsets of each list's terms.
///
/// # Panics
///
/// If offsets do not ascend, or point beyond the values.
pub fn terms(values: &[f64], offsets: &[i64]) -> (Vec<f64>, Vec<i64>) {
    let lists = offsets.len().saturating_sub(1);
    let found: Vec<(Vec<f64>, Vec<i64>)> = (0..lists.div_ceil(LISTS))
        .into_par_iter()
        .map(|chunk| {
            let (mut told, mut counts) = (Vec::new(), Vec::new());
            for number in chunk * LISTS..lists.min((chunk + 1) * LISTS) {
                let before = told.len();
                told.extend(of(list(values, offsets, number)));
                counts.push((told.len() - before) as i64);
            }
            (told, counts)
        })
        .collect();
    let mut ends = Vec::with_capacity(lists + 1);
    ends.push(0);
    let mut all = Vec::with_capacity(found.iter().map(|(told, _)| told.len()).sum());
    for (told, counts) in found {
        all.extend(told);
        for count in counts {
            ends.push(ends[ends.len() - 1] + count);
        }
    }
    (all, ends)
}

/// The terms of one list: the rounded sum, then the rounded remainder, and so on; no terms for an empty list.
pub(crate) fn of(values: &[f64]) -> Vec<f64> {
    if values.len() < 2 {
        return values.to_vec();
    }
    if values.len() > PIECE {
        return of(&values.par_chunks(PIECE).flat_map_iter(of).collect::<Vec<_>>());
    }
    let mut found = Accumulator::new();
    found.extend(values);
    found.terms()
}
