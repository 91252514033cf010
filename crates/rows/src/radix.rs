//! Stable radix sorting of keys with their row numbers.

use rayon::prelude::*;

use crate::numbers::{bits, distance, row_number};
use crate::{MOST_ROWS, huge, runs};

/// Digits are at most this wide, so that the write positions of a pass stay in the second-level cache.
const DIGIT_BITS: u32 = 11;

/// Fewer elements than this are sorted by one thread.
const PARALLEL_FROM: usize = 1 << 16;

/// A key and its row number, in the form that is sorted.
pub(crate) trait Element: Copy + Send + Sync + Default {
    /// The element of a row; `offset` is its key minus the least key.
    fn new(offset: u64, row: u32, row_bits: u32) -> Self;
    /// The key minus the least key.
    fn offset(self, row_bits: u32) -> u64;
    /// The row number.
    fn row(self, row_bits: u32) -> u32;
}

/// Key and row packed into one word, if both fit.
impl Element for u64 {
    fn new(offset: u64, row: u32, row_bits: u32) -> Self {
        offset << row_bits | u64::from(row)
    }

    fn offset(self, row_bits: u32) -> u64 {
        self >> row_bits
    }

    #[allow(clippy::cast_possible_truncation)]
    fn row(self, row_bits: u32) -> u32 {
        (self & ((1 << row_bits) - 1)) as u32
    }
}

/// Key and row side by side.
impl Element for (u64, u32) {
    fn new(offset: u64, row: u32, _: u32) -> Self {
        (offset, row)
    }

    fn offset(self, _: u32) -> u64 {
        self.0
    }

    fn row(self, _: u32) -> u32 {
        self.1
    }
}

/// Write to `rows` the row numbers that sort the keys in ascending or descending order; equal keys keep their order.
///
/// # Panics
///
/// If `rows` is not as long as `keys`, or there are [`MOST_ROWS`] or more.
pub fn argsort(keys: &[i64], descending: bool, rows: &mut [u32]) {
    sort(keys, descending, rows, None);
}

/// As [`argsort`], and write the sorted keys to `ordered`. Most are read from the sorted elements, without a lookup by row.
///
/// # Panics
///
/// As [`argsort`], and if `ordered` is not as long as `keys`.
pub fn sort(keys: &[i64], descending: bool, rows: &mut [u32], ordered: Option<&mut [i64]>) {
    assert_eq!(keys.len(), rows.len(), "rows must be as long as keys");
    assert!(ordered.as_ref().is_none_or(|ordered| ordered.len() == keys.len()), "ordered must be as long as keys");
    let Some((least, most, sorted)) = extent(keys) else {
        return;
    };
    if least == most || (sorted && !descending) {
        rows.par_iter_mut().enumerate().for_each(|(row, number)| *number = row_number(row));
        if let Some(ordered) = ordered {
            ordered.copy_from_slice(keys);
        }
        return;
    }
    let range = distance(least, most);
    if !descending
        && runs::is_dense(keys.len(), range)
        && let Some(starts) = runs::runs(keys)
    {
        runs::merge(keys, &starts, (least, most), rows, ordered);
        return;
    }
    let offset = |row: usize| {
        if descending { distance(keys[row], most) } else { distance(least, keys[row]) }
    };
    let row_bits = bits(keys.len() as u64 - 1);
    // The first digit is not needed after its pass, so it need not fit into the element.
    let kept = bits(range) - Digits::of(range).width;
    if bits(range) + row_bits <= u64::BITS {
        let sorted: Vec<u64> = sort_rows(keys.len(), range, false, offset);
        write_rows(&sorted, row_bits, rows);
        if let Some(ordered) = ordered {
            write_keys(&sorted, row_bits, if descending { (most, true) } else { (least, false) }, ordered);
        }
        return;
    }
    if kept + row_bits <= u64::BITS {
        let sorted: Vec<u64> = sort_rows(keys.len(), range, true, offset);
        write_rows(&sorted, row_bits, rows);
    } else {
        let sorted: Vec<(u64, u32)> = sort_rows(keys.len(), range, false, offset);
        write_rows(&sorted, row_bits, rows);
    }
    if let Some(ordered) = ordered {
        crate::gather(keys, rows, ordered);
    }
}

/// The least and the greatest key, and whether the keys ascend; `None` without keys.
pub(crate) fn extent(keys: &[i64]) -> Option<(i64, i64, bool)> {
    let (first, last) = (*keys.first()?, *keys.last()?);
    let pieces = keys.par_chunks(PARALLEL_FROM).enumerate().map(|(piece, chunk)| {
        let before = if piece == 0 { chunk[0] } else { keys[piece * PARALLEL_FROM - 1] };
        let (mut least, mut most, mut sorted, mut previous) = (chunk[0], chunk[0], true, before);
        for &key in chunk {
            least = least.min(key);
            most = most.max(key);
            sorted &= previous <= key;
            previous = key;
        }
        (least, most, sorted)
    });
    Some(pieces.reduce(|| (first, last, true), |a, b| (a.0.min(b.0), a.1.max(b.1), a.2 && b.2)))
}

/// The number of passes that sort keys of that many bits.
pub(crate) fn passes(bits: u32) -> u32 {
    bits.div_ceil(DIGIT_BITS).max(1)
}

/// How keys are cut into digits.
struct Digits {
    passes: u32,
    width: u32,
}

impl Digits {
    /// The fewest digits for keys up to `range`, each as narrow as possible.
    fn of(range: u64) -> Self {
        let passes = passes(bits(range));
        Self { passes, width: bits(range).div_ceil(passes).max(1) }
    }
}

/// Rows `0..count` as elements, stably sorted by `offset` of each row, which is at most `range`.
///
/// With `drop_first` the elements hold the offsets without their lowest digit.
pub(crate) fn sort_rows<E: Element>(
    count: usize,
    range: u64,
    drop_first: bool,
    offset: impl Fn(usize) -> u64 + Sync,
) -> Vec<E> {
    assert!(count < MOST_ROWS, "{count} rows are too many for row numbers");
    let row_bits = bits(count.max(1) as u64 - 1);
    let Digits { passes, width } = Digits::of(range);
    let dropped = if drop_first { width } else { 0 };
    let mut from: Vec<E> = Vec::new();
    let mut to: Vec<E> = huge::filled(count, E::default());
    for pass in 0..passes {
        if pass == 0 {
            scatter(count, Digit { shift: 0, bits: width }, &mut to, |row| {
                let offset = offset(row);
                (offset, E::new(offset >> dropped, row_number(row), row_bits))
            });
            from = if passes > 1 { huge::filled(count, E::default()) } else { Vec::new() };
        } else {
            let digit = Digit { shift: pass * width - dropped, bits: width };
            let input = &from;
            scatter(count, digit, &mut to, |place| (input[place].offset(row_bits), input[place]));
        }
        if pass + 1 < passes {
            std::mem::swap(&mut from, &mut to);
        }
    }
    to
}

#[derive(Clone, Copy)]
struct Digit {
    shift: u32,
    bits: u32,
}

impl Digit {
    #[allow(clippy::cast_possible_truncation)]
    fn of(self, offset: u64) -> usize {
        (offset >> self.shift) as usize & ((1 << self.bits) - 1)
    }
}

/// One pass: move the elements to `to`, stably sorted by one digit.
fn scatter<E: Element>(count: usize, digit: Digit, to: &mut [E], element: impl Fn(usize) -> (u64, E) + Sync) {
    let threads = if count < PARALLEL_FROM { 1 } else { rayon::current_num_threads() };
    let length = count.div_ceil(threads).max(1);
    let pieces: Vec<_> = (0..count).step_by(length).map(|start| start..(start + length).min(count)).collect();
    let mut places: Vec<Vec<usize>> = pieces
        .par_iter()
        .map(|piece| {
            let mut counts = vec![0; 1 << digit.bits];
            for place in piece.clone() {
                counts[digit.of(element(place).0)] += 1;
            }
            counts
        })
        .collect();
    let mut next = 0;
    for bucket in 0..1 << digit.bits {
        for piece in &mut places {
            next += std::mem::replace(&mut piece[bucket], next);
        }
    }
    let shared = Shared(to.as_mut_ptr());
    pieces.into_par_iter().zip(places).for_each(|(piece, mut places)| {
        for place in piece {
            let (offset, moved) = element(place);
            let target = &mut places[digit.of(offset)];
            // SAFETY: the counts of all pieces and buckets give each element a distinct place below `count`,
            // which is the length of `to`; `to` is not read before all threads have written.
            unsafe { shared.write(*target, moved) };
            *target += 1;
        }
    });
}

/// A slice that threads write to, each to distinct places.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);

// SAFETY: writes go to distinct places, which the callers of `write` promise.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// # Safety
    ///
    /// `place` is within the slice, and no other thread reads or writes it meanwhile.
    unsafe fn write(self, place: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(place).write(value) };
    }
}

fn write_rows<E: Element>(sorted: &[E], row_bits: u32, rows: &mut [u32]) {
    rows.par_iter_mut().with_min_len(PARALLEL_FROM).zip(sorted).for_each(|(row, element)| *row = element.row(row_bits));
}

/// Write the keys: each is `first` plus the element's offset, or minus it if `below`.
#[allow(clippy::cast_possible_wrap)]
fn write_keys(sorted: &[u64], row_bits: u32, (first, below): (i64, bool), keys: &mut [i64]) {
    keys.par_iter_mut().with_min_len(PARALLEL_FROM).zip(sorted).for_each(|(key, &element)| {
        let offset = element.offset(row_bits) as i64;
        *key = if below { first.wrapping_sub(offset) } else { first.wrapping_add(offset) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(keys: &[i64]) {
        for descending in [false, true] {
            let mut rows = vec![0; keys.len()];
            argsort(keys, descending, &mut rows);
            let (mut again, mut ordered) = (vec![0; keys.len()], vec![0; keys.len()]);
            sort(keys, descending, &mut again, Some(&mut ordered));
            assert_eq!(again, rows);
            assert!(ordered.iter().zip(&rows).all(|(&key, &row)| key == keys[row as usize]));
            let mut expected: Vec<u32> = (0..row_number(keys.len())).collect();
            expected.sort_by(|&a, &b| {
                let order = keys[a as usize].cmp(&keys[b as usize]);
                if descending { order.reverse() } else { order }
            });
            assert_eq!(rows, expected, "descending: {descending}");
        }
    }

    /// Pseudorandom numbers (xorshift64*).
    fn random(count: usize, seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            state.wrapping_mul(0x2545_F491_4F6C_DD1D)
        })
        .take(count)
    }

    #[test]
    fn few_keys() {
        check(&[]);
        check(&[5]);
        check(&[2, 1]);
        check(&[1, 1, 1]);
        check(&[3, 1, 2, 1, 3, 1]);
    }

    #[test]
    fn extreme_keys() {
        check(&[i64::MAX, i64::MIN, 0, -1, 1, i64::MIN, i64::MAX]);
        check(&[i64::MIN, i64::MAX]);
        check(&[i64::MAX - 1, i64::MAX]);
    }

    #[test]
    #[allow(clippy::cast_possible_wrap)]
    fn many_keys_of_every_width() {
        for width in [1, 8, 11, 12, 23, 33, 48, 63, 64] {
            let keys: Vec<i64> = random(200_001, 7).map(|number| (number >> (64 - width)) as i64).collect();
            check(&keys);
        }
    }

    #[test]
    #[allow(clippy::cast_possible_wrap)]
    fn sorted_keys() {
        let keys: Vec<i64> = (0..150_000).map(|key: i64| key / 3).collect();
        check(&keys);
        let mut one_off = keys.clone();
        one_off.swap(70_000, 70_010);
        check(&one_off);
    }
}
