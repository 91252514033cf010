//! Stable sorting of keys that consist of a few ascending runs, such as concatenated sorted pieces.

use rayon::prelude::*;

use crate::numbers::{distance, row_number};

/// With more runs than this, keys are sorted as if they were unordered.
const MOST_RUNS: usize = 64;

/// Range of values that is counted at a time, so that the counts stay in the second-level cache.
const BLOCK: u64 = 1 << 16;

/// Keys are counted by value if the range of values is at most this many times the number of keys.
const DENSE: u64 = 4;

/// Where the runs begin, and where the last ends; `None` if there are more than [`MOST_RUNS`].
pub(crate) fn runs(keys: &[i64]) -> Option<Vec<usize>> {
    let mut starts = vec![0];
    for (place, pair) in keys.windows(2).enumerate() {
        if pair[0] > pair[1] {
            starts.push(place + 1);
            if starts.len() > MOST_RUNS {
                return None;
            }
        }
    }
    starts.push(keys.len());
    Some(starts)
}

/// Whether [`merge`] can sort that many keys of that range of values.
pub(crate) fn is_dense(count: usize, range: u64) -> bool {
    range / DENSE <= count as u64
}

/// Write the row numbers that sort the keys in ascending order to `rows`, and the sorted keys to `ordered`; equal keys keep their order.
///
/// `starts` are those of [`runs`]; `least` and `most` the least and the greatest key.
pub(crate) fn merge(
    keys: &[i64],
    starts: &[usize],
    (least, most): (i64, i64),
    rows: &mut [u32],
    ordered: Option<&mut [i64]>,
) {
    let blocks = distance(least, most) / BLOCK + 1;
    // For each block of values, where its keys begin in each run; after the last block, where the runs end.
    let cuts: Vec<Vec<usize>> = (0..=blocks)
        .map(|block| {
            starts
                .windows(2)
                .map(|run| run[0] + keys[run[0]..run[1]].partition_point(|&key| distance(least, key) / BLOCK < block))
                .collect()
        })
        .collect();
    let mut pieces = Vec::with_capacity(cuts.len() - 1);
    let (mut rows, mut ordered) = (rows, ordered);
    for pair in cuts.windows(2) {
        let count = pair[0].iter().zip(&pair[1]).map(|(start, stop)| stop - start).sum();
        let (ours, others) = rows.split_at_mut(count);
        let (our_keys, other_keys) = ordered.map(|all| all.split_at_mut(count)).unzip();
        pieces.push((pair, ours, our_keys));
        (rows, ordered) = (others, other_keys);
    }
    pieces.into_par_iter().enumerate().for_each(|(block, (cuts, rows, ordered))| {
        merge_block(keys, cuts, least, block as u64 * BLOCK, rows, ordered);
    });
}

/// Merge the keys of one block of values from all runs.
#[allow(clippy::cast_possible_truncation)]
fn merge_block(
    keys: &[i64],
    cuts: &[Vec<usize>],
    least: i64,
    first: u64,
    rows: &mut [u32],
    mut ordered: Option<&mut [i64]>,
) {
    let value = |place: usize| (distance(least, keys[place]) - first) as usize;
    let pieces = || cuts[0].iter().zip(&cuts[1]).map(|(&start, &stop)| start..stop);
    let mut next = vec![0_u32; BLOCK as usize + 1];
    for place in pieces().flatten() {
        next[value(place) + 1] += 1;
    }
    let mut before = 0;
    for count in &mut next {
        before += *count;
        *count = before;
    }
    for place in pieces().flatten() {
        let target = &mut next[value(place)];
        rows[*target as usize] = row_number(place);
        if let Some(ordered) = &mut ordered {
            ordered[*target as usize] = keys[place];
        }
        *target += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[i64]) {
        let starts = runs(keys).expect("few runs");
        let (least, most) = (*keys.iter().min().unwrap(), *keys.iter().max().unwrap());
        let (mut rows, mut ordered) = (vec![0; keys.len()], vec![0; keys.len()]);
        merge(keys, &starts, (least, most), &mut rows, Some(&mut ordered));
        let mut expected: Vec<usize> = (0..keys.len()).collect();
        expected.sort_by_key(|&row| keys[row]);
        assert_eq!(rows, expected.iter().map(|&row| row_number(row)).collect::<Vec<_>>());
        assert_eq!(ordered, expected.iter().map(|&row| keys[row]).collect::<Vec<_>>());
        let mut alone = vec![0; keys.len()];
        merge(keys, &starts, (least, most), &mut alone, None);
        assert_eq!(alone, rows);
    }

    #[test]
    fn runs_are_found() {
        assert_eq!(runs(&[]), Some(vec![0, 0]));
        assert_eq!(runs(&[1, 1, 2]), Some(vec![0, 3]));
        assert_eq!(runs(&[1, 0, 2, 2, 1]), Some(vec![0, 1, 4, 5]));
        let falling: Vec<i64> = (0..=64).rev().collect();
        assert_eq!(runs(&falling), None);
        assert_eq!(runs(&falling[1..]).map(|starts| starts.len()), Some(65));
    }

    #[test]
    fn runs_are_merged_stably() {
        check(&[1, 1, 2]);
        check(&[5, 1, 1, 5, 0, 5]);
        check(&[i64::MAX - 1, i64::MAX, i64::MAX - 3]);
        for runs in 1..7_i64 {
            let keys: Vec<i64> = (0..runs).flat_map(|run| (0..40_000).map(move |i| (i * (run + 3)) / 2 - 7)).collect();
            check(&keys);
        }
    }
}
