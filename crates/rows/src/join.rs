//! Hash joins that keep the row order of both sides.

use std::ops::Range;

use rayon::prelude::*;

use crate::huge;
use crate::numbers::{bits, distance, row_number};
use crate::radix::{Element, extent, passes, sort_rows};

/// The row number of the map's side for a row without a match.
pub const NO_ROW: u32 = u32::MAX;

/// If the range of keys is at most this many times the rows, each key has its own bucket and no hash is needed.
const DENSE: u64 = 4;

/// Rows that one task probes.
const PIECE: usize = 1 << 16;

/// Rows whose buckets are looked up before the first is read, so that cache misses overlap.
const AHEAD: usize = 64;

/// A map from each key of one side of a join to the rows that have it, in row order.
///
/// ```
/// let map = craton_rows::JoinMap::new(&[7, 5, 7]);
/// let matches = map.probe(&[7, 6, 5], false);
/// let (mut left, mut right) = (vec![0; matches.len()], vec![0; matches.len()]);
/// matches.write(&mut left, &mut right);
/// assert_eq!((left, right), (vec![0, 0, 2], vec![0, 2, 1]));
/// ```
pub struct JoinMap {
    buckets: Buckets,
    /// Where each bucket's rows start; one more entry than buckets.
    starts: Vec<u32>,
    /// The rows of each bucket; used if each bucket has a single key.
    rows: Vec<u32>,
    /// The keys and rows of each bucket; used if different keys share buckets.
    entries: Vec<(i64, u32)>,
}

#[derive(Clone, Copy)]
enum Buckets {
    /// A bucket for each key, numbered from the least key.
    Dense { least: i64, most: i64 },
    /// By a multiplicative hash.
    Hashed { shift: u32 },
}

impl Buckets {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn of(self, key: i64) -> Option<usize> {
        match self {
            Self::Dense { least, most } if key < least || key > most => None,
            Self::Dense { least, .. } => Some(distance(least, key) as usize),
            Self::Hashed { shift } => {
                let key = key as u64;
                Some(((key ^ (key >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize)
            }
        }
    }
}

impl JoinMap {
    /// Builds the map of one side's keys.
    ///
    /// # Panics
    ///
    /// If there are [`MOST_ROWS`](crate::MOST_ROWS) keys or more.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn new(keys: &[i64]) -> Self {
        let (least, most, _) = extent(keys).unwrap_or((0, 0, true));
        let count = keys.len() as u64;
        let (buckets, range) = if distance(least, most) / DENSE <= count {
            (Buckets::Dense { least, most }, distance(least, most))
        } else {
            // Use half as many buckets if that saves a pass of sorting: the rows of a bucket are adjacent anyway.
            let width = bits(count).max(1);
            let width = if passes(width - 1) < passes(width) { (width - 1).max(1) } else { width };
            (Buckets::Hashed { shift: u64::BITS - width }, (1 << width) - 1)
        };
        // Bucket and row always fit into one word: there are at most DENSE buckets for each row, and rows have 32 bits.
        let row_bits = bits(count.max(1) - 1);
        let sorted: Vec<u64> =
            sort_rows(keys.len(), range, false, |row| buckets.of(keys[row]).map_or(0, |bucket| bucket as u64));
        let mut starts = huge::filled(range as usize + 2, 0);
        fill_starts(&sorted, row_bits, &mut starts);
        let found = sorted.par_iter().with_min_len(PIECE).map(|&element| Element::row(element, row_bits));
        let (mut rows, mut entries) = (Vec::new(), Vec::new());
        match buckets {
            Buckets::Dense { .. } => {
                rows = huge::with_room(keys.len());
                found.collect_into_vec(&mut rows);
            }
            Buckets::Hashed { .. } => {
                entries = huge::with_room(keys.len());
                found.map(|row| (keys[row as usize], row)).collect_into_vec(&mut entries);
            }
        }
        Self { buckets, starts, rows, entries }
    }

    /// Find the matches of the other side's rows, ordered by the row that probes and then by the row of the map's side.
    ///
    /// With `keep` (a left join), a row without a match is paired with [`NO_ROW`].
    ///
    /// # Panics
    ///
    /// If there are [`MOST_ROWS`](crate::MOST_ROWS) keys or more.
    #[must_use]
    pub fn probe(&self, keys: &[i64], keep: bool) -> Matches {
        assert!(keys.len() < crate::MOST_ROWS, "{} rows are too many for row numbers", keys.len());
        let pieces: Vec<_> = keys
            .par_chunks(PIECE)
            .enumerate()
            .map(|(piece, chunk)| self.probe_piece(chunk, row_number(piece * PIECE), keep))
            .collect();
        let count = pieces.iter().map(|(rows, _)| rows.len()).sum();
        Matches { pieces, count }
    }

    fn probe_piece(&self, keys: &[i64], first: u32, keep: bool) -> (Vec<u32>, Vec<u32>) {
        match self.buckets {
            Buckets::Dense { .. } => self.probe_entries(keys, first, keep, &self.rows, |&row, _| Some(row)),
            Buckets::Hashed { .. } => {
                let matching = |&(found, row): &(i64, u32), key| (found == key).then_some(row);
                self.probe_entries(keys, first, keep, &self.entries, matching)
            }
        }
    }

    /// Look up the buckets of a batch of rows, then prefetch their entries, then compare them, so that cache misses overlap.
    fn probe_entries<T>(
        &self,
        keys: &[i64],
        first: u32,
        keep: bool,
        entries: &[T],
        matching: impl Fn(&T, i64) -> Option<u32>,
    ) -> (Vec<u32>, Vec<u32>) {
        let mut ours = Vec::with_capacity(keys.len() + keys.len() / 4);
        let mut theirs = Vec::with_capacity(keys.len() + keys.len() / 4);
        let mut spans = [const { 0..0 }; AHEAD];
        let mut row = first;
        for batch in keys.chunks(AHEAD) {
            for (span, &key) in spans.iter_mut().zip(batch) {
                *span = self.span(key);
            }
            for span in &spans[..batch.len()] {
                fetch_ahead(&entries[span.clone()]);
            }
            for (span, &key) in spans.iter().zip(batch) {
                let before = ours.len();
                for found in entries[span.clone()].iter().filter_map(|entry| matching(entry, key)) {
                    ours.push(row);
                    theirs.push(found);
                }
                if keep && ours.len() == before {
                    ours.push(row);
                    theirs.push(NO_ROW);
                }
                row += 1;
            }
        }
        (ours, theirs)
    }

    /// The positions of the rows of a key's bucket.
    fn span(&self, key: i64) -> Range<usize> {
        self.buckets.of(key).map_or(0..0, |bucket| self.starts[bucket] as usize..self.starts[bucket + 1] as usize)
    }
}

/// Prefetch the first and the last item into the cache.
fn fetch_ahead<T>(items: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for item in [items.first(), items.last()].into_iter().flatten() {
        // SAFETY: this reads nothing; every processor of this architecture has the instruction.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(item).cast());
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = items;
}

/// For each bucket, write the position of its first element in `sorted`.
#[allow(clippy::cast_possible_truncation)]
fn fill_starts(sorted: &[u64], row_bits: u32, starts: &mut [u32]) {
    let mut next = 0;
    for (place, element) in sorted.iter().enumerate() {
        let bucket = Element::offset(*element, row_bits) as usize;
        if bucket >= next {
            starts[next..=bucket].fill(row_number(place));
            next = bucket + 1;
        }
    }
    starts[next..].fill(row_number(sorted.len()));
}

/// Pairs of matching rows, in order.
pub struct Matches {
    pieces: Vec<(Vec<u32>, Vec<u32>)>,
    count: usize,
}

impl Matches {
    /// The number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no pair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Write the row numbers of the probing side, and those of the map's side.
    ///
    /// # Panics
    ///
    /// If a slice is not as long as there are pairs.
    pub fn write(&self, ours: &mut [u32], theirs: &mut [u32]) {
        assert_eq!((ours.len(), theirs.len()), (self.count, self.count), "a slice must have a place for each pair");
        let mut targets = Vec::with_capacity(self.pieces.len());
        let (mut ours, mut theirs) = (ours, theirs);
        for piece in &self.pieces {
            let (one, other) = (ours.split_at_mut(piece.0.len()), theirs.split_at_mut(piece.0.len()));
            targets.push((piece, one.0, other.0));
            (ours, theirs) = (one.1, other.1);
        }
        targets.into_par_iter().for_each(|(piece, ours, theirs)| {
            ours.copy_from_slice(&piece.0);
            theirs.copy_from_slice(&piece.1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(left: &[i64], right: &[i64], keep: bool) -> Vec<(u32, u32)> {
        let matches = JoinMap::new(right).probe(left, keep);
        let (mut ours, mut theirs) = (vec![0; matches.len()], vec![0; matches.len()]);
        matches.write(&mut ours, &mut theirs);
        ours.into_iter().zip(theirs).collect()
    }

    fn check(left: &[i64], right: &[i64]) {
        for keep in [false, true] {
            let mut expected = Vec::new();
            for (i, key) in left.iter().enumerate() {
                let before = expected.len();
                for (j, other) in right.iter().enumerate() {
                    if key == other {
                        expected.push((row_number(i), row_number(j)));
                    }
                }
                if keep && expected.len() == before {
                    expected.push((row_number(i), NO_ROW));
                }
            }
            assert_eq!(joined(left, right, keep), expected);
        }
    }

    #[test]
    fn few_rows() {
        check(&[], &[]);
        check(&[1], &[]);
        check(&[], &[1]);
        check(&[1, 2, 1], &[1, 1, 3, 2]);
        check(&[0, 5, -5], &[-5, -5, 0]);
    }

    #[test]
    fn keys_far_apart() {
        let far = [i64::MIN, i64::MAX, 0, -1, 1 << 40, i64::MIN];
        check(&far, &far);
        check(&[3, i64::MAX], &far);
        check(&far, &[i64::MAX - 1, 9]);
    }

    #[test]
    fn many_rows() {
        for step in [1, 1 << 33] {
            let left: Vec<i64> = (0..3000_i64).map(|row| row * 7919 % 400 * step).collect();
            let right: Vec<i64> = (0..2000_i64).map(|row| row * 104_729 % 500 * step).collect();
            check(&left, &right);
        }
    }

    #[test]
    fn more_rows_than_one_piece() {
        let count: i64 = 3 * 65_536 + 17;
        let keys: Vec<i64> = (0..count).collect();
        let pairs = joined(&keys, &keys, false);
        assert!(pairs.iter().enumerate().all(|(row, pair)| *pair == (row_number(row), row_number(row))));
        assert_eq!(pairs.len(), keys.len());
    }
}
