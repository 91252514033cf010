//! Probing the pages of a map.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::build::part_of;
use super::page::{Buckets, IndexPage, Part};
use super::pieces::{KeyPieces, in_parallel};
use super::{MOST_ROWS, PIECE};
use crate::api::{Attributes, Home, Reading};
use crate::error::{Error, Result};
use crate::ids::{PageId, SetId};
use crate::services::Use;
use crate::services::hash::Keys;
use crate::services::hash::keys::{INLINE, length};
use crate::services::held::fetch;

/// The number of the map's row for a row without a match.
pub const NO_ROW: u32 = u32::MAX;

/// How long a thread waits for memory that other readers have pinned.
const PATIENCE: Duration = Duration::from_secs(2);

/// Rows whose buckets are looked up before the first is read, so that cache misses overlap.
const AHEAD: usize = 64;

/// The index pages of a map, to be probed by any number of threads.
pub struct JoinIndex {
    using: Use,
    pages: Vec<PageId>,
    bits: u32,
    rows: u64,
    // The bytes of all pages.
    bytes: u64,
    // Held while pages are probed that do not fit into memory together.
    turn: Mutex<()>,
}

/// Pairs of matching rows of the table that probes and of the map, ordered by the former and then by the latter.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Matches {
    /// The rows of the table that probes.
    pub ours: Vec<u32>,
    /// The rows of the map.
    pub theirs: Vec<u32>,
}

impl JoinIndex {
    /// The index in these pages of a set, in the order in which [`build`](super::build) returned them, of a map with `rows` rows.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) if the number of pages is not a power of two, or there are too many rows; [`NoSet`](Error::NoSet).
    pub fn new(home: &Arc<dyn Home>, set: SetId, numbers: &[u32], rows: u64, bytes: u64) -> Result<Self> {
        let pages: Vec<PageId> = numbers.iter().map(|number| PageId { set, number: *number }).collect();
        if !pages.len().is_power_of_two() || rows >= MOST_ROWS {
            return Err(Error::Invalid(format!("{} index pages and {rows} rows are not those of a map", pages.len())));
        }
        let bits = pages.len().ilog2();
        let attributes = Attributes { reading: Some(Reading::Random), ..Attributes::default() };
        let using = Use::begin(home, set, false, attributes)?;
        Ok(Self { using, pages, bits, rows, bytes, turn: Mutex::new(()) })
    }

    /// Find the matches of keys. With `keep`, a key without a match is paired with [`NO_ROW`].
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) for [`MOST_ROWS`] keys or more, or pairs; [`Damaged`](Error::Damaged); those of [`Home::pin`], and of reading
    /// the keys.
    pub fn probe<P: KeyPieces>(&self, keys: &P, keep: bool) -> Result<Matches> {
        let count = (0..keys.count()).map(|piece| keys.rows(piece).1 as u64).sum::<u64>();
        if count >= MOST_ROWS {
            return Err(Error::Invalid(format!(
                "{count} rows are too many to probe at once: pass fewer than {MOST_ROWS}"
            )));
        }
        let all = 0..self.pages.len();
        if self.pages.len() == 1 || self.bytes <= self.using.home.counters()?.limit / 2 {
            match self.pin(all.clone()) {
                Ok(pages) => return concatenated(self.probe_pages(keys, &pages, 0, keep)?),
                Err(Error::Full { .. } | Error::Quota { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let mut groups = Vec::new();
        {
            // One thread after another: together, they would pin more memory than there is.
            let _turn = self.turn.lock();
            self.collect(keys, all, &mut groups)?;
        }
        let mut parts: Vec<Vec<Matches>> = (0..keys.count()).map(|_| Vec::new()).collect();
        for group in groups {
            parts.iter_mut().zip(group).for_each(|(parts, part)| parts.push(part));
        }
        concatenated(in_parallel(parts.len(), |piece| Ok(merged(keys.rows(piece), &parts[piece], keep)))?)
    }

    /// Probe some pages: together if they take at most a quarter of the memory, otherwise one half of them after the other. Each group of pages
    /// adds the matches of each piece to `groups`.
    fn collect<P: KeyPieces>(&self, keys: &P, parts: Range<usize>, groups: &mut Vec<Vec<Matches>>) -> Result<()> {
        let share = self.bytes / self.pages.len() as u64 * parts.len() as u64;
        if parts.len() == 1 || share <= self.using.home.counters()?.limit / 4 {
            match self.pin(parts.clone()) {
                Ok(pages) => {
                    groups.push(self.probe_pages(keys, &pages, parts.start, false)?);
                    return Ok(());
                }
                Err(Error::Full { .. } | Error::Quota { .. }) if parts.len() > 1 => {}
                Err(Error::Full { .. }) => {
                    let pages = self.pin_patiently(parts.clone())?;
                    groups.push(self.probe_pages(keys, &pages, parts.start, false)?);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        let middle = parts.start + parts.len() / 2;
        self.collect(keys, parts.start..middle, groups)?;
        self.collect(keys, middle..parts.end, groups)
    }

    /// Pin pages; wait for a while if other readers have pinned all memory.
    fn pin_patiently(&self, parts: Range<usize>) -> Result<Vec<IndexPage>> {
        let begun = Instant::now();
        loop {
            match self.pin(parts.clone()) {
                Err(Error::Full { .. }) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(5)),
                done => return done,
            }
        }
    }

    fn pin(&self, parts: Range<usize>) -> Result<Vec<IndexPage>> {
        let pinned = self.using.home.pin_many(&self.pages[parts.clone()])?;
        let bits = self.bits;
        parts.zip(pinned).map(|(number, page)| IndexPage::open(page, Part { number, bits })).collect()
    }

    fn probe_pages<P: KeyPieces>(
        &self,
        keys: &P,
        pages: &[IndexPage],
        first: usize,
        keep: bool,
    ) -> Result<Vec<Matches>> {
        let buckets = pages.iter().map(IndexPage::buckets).collect::<Result<Vec<_>>>()?;
        let group = Group { buckets: &buckets, first, bits: self.bits, rows: self.rows, keep };
        in_parallel(keys.count(), |piece| {
            let row = keys.rows(piece).0 as u32;
            keys.with(piece, |keys| group.probe(keys, row))
        })
    }
}

/// Pages that are probed together.
struct Group<'a> {
    buckets: &'a [Buckets<'a>],
    // The number of the first page.
    first: usize,
    bits: u32,
    rows: u64,
    keep: bool,
}

impl Group<'_> {
    fn probe(&self, keys: &Keys<'_>, first: u32) -> Result<Matches> {
        let room = keys.views.len().min(PIECE);
        let mut found = Matches { ours: Vec::with_capacity(room), theirs: Vec::with_capacity(room) };
        let mut hashes = [(0usize, 0usize); AHEAD];
        let mut row = first;
        for views in keys.views.chunks(AHEAD) {
            // The page and the bucket of each key.
            for (place, view) in hashes.iter_mut().zip(views) {
                let hash = keys.hash(*view);
                let page = part_of(hash, self.bits).wrapping_sub(self.first);
                *place = (page, 0);
                if let Some(page) = self.buckets.get(page) {
                    place.1 = page.shape.bucket(hash, self.bits);
                    fetch(page.starts, place.1);
                }
            }
            for (page, bucket) in &hashes[..views.len()] {
                if let Some(page) = self.buckets.get(*page) {
                    fetch(page.entries, page.starts[*bucket] as usize * page.shape.width);
                }
            }
            for ((page, bucket), view) in hashes.iter().zip(views) {
                let before = found.ours.len();
                if let Some(page) = self.buckets.get(*page) {
                    if page.shape.width == 2 {
                        self.look_up::<2>(page, *bucket, keys, *view, row, &mut found)?;
                    } else {
                        self.look_up::<3>(page, *bucket, keys, *view, row, &mut found)?;
                    }
                }
                if self.keep && found.ours.len() == before {
                    found.ours.push(row);
                    found.theirs.push(NO_ROW);
                }
                row += 1;
                if found.ours.len() as u64 >= MOST_ROWS {
                    return Err(too_many(found.ours.len()));
                }
            }
        }
        Ok(found)
    }

    #[inline(always)]
    fn look_up<const WIDTH: usize>(
        &self,
        page: &Buckets<'_>,
        bucket: usize,
        keys: &Keys<'_>,
        view: u128,
        row: u32,
        found: &mut Matches,
    ) -> Result<()> {
        let range = page.starts[bucket] as usize * WIDTH..page.starts[bucket + 1] as usize * WIDTH;
        let Some(entries) = page.entries.get(range) else {
            return Err(damaged(page, "a bucket is outside of the entries"));
        };
        for entry in entries.chunks_exact(WIDTH) {
            if (entry[1] >> 32) as usize == length(view) && self.equal::<WIDTH>(page, entry, keys, view)? {
                let their = entry[1] as u32;
                if u64::from(their) >= self.rows {
                    return Err(damaged(page, "an entry has a row that the map does not have"));
                }
                found.ours.push(row);
                found.theirs.push(their);
            }
        }
        Ok(())
    }

    /// Whether the key of an entry, which has the same length, is `view`.
    #[inline(always)]
    fn equal<const WIDTH: usize>(
        &self,
        page: &Buckets<'_>,
        entry: &[u64],
        keys: &Keys<'_>,
        view: u128,
    ) -> Result<bool> {
        let middle = (view >> 32) as u64;
        if length(view) <= INLINE {
            return Ok(entry[0] == middle && (WIDTH == 2 || entry[2] == (view >> 96) as u64));
        }
        if WIDTH == 2 {
            return Err(damaged(page, "a long key is in a page of short keys"));
        }
        if entry[0] as u32 != middle as u32 {
            return Ok(false);
        }
        let start = entry[2] as usize;
        let stored = start.checked_add(length(view)).and_then(|end| page.heap.get(start..end));
        let Some(stored) = stored else { return Err(damaged(page, "a key is outside of the heap")) };
        Ok(stored == keys.long(view))
    }
}

#[cold]
fn damaged(page: &Buckets<'_>, why: &str) -> Error {
    Error::Damaged { page: page.page, why: why.into() }
}

#[cold]
fn too_many(pairs: usize) -> Error {
    Error::Invalid(format!(
        "{pairs} pairs of rows match or more, and there have to be fewer than {MOST_ROWS}: probe fewer rows at once"
    ))
}

/// The matches of one piece from several groups of pages, by row; all matches of a row are from one group.
fn merged((first, count): (u64, usize), parts: &[Matches], keep: bool) -> Matches {
    let mut starts = vec![0usize; count + 1];
    let place = |row: u32| (u64::from(row) - first) as usize;
    for row in parts.iter().flat_map(|part| &part.ours) {
        starts[place(*row) + 1] += 1;
    }
    if keep {
        starts[1..].iter_mut().for_each(|count| *count = (*count).max(1));
    }
    for row in 0..count {
        starts[row + 1] += starts[row];
    }
    let mut theirs = vec![NO_ROW; starts[count]];
    let mut ours = vec![0; starts[count]];
    for row in 0..count {
        ours[starts[row]..starts[row + 1]].fill((first + row as u64) as u32);
    }
    for (row, their) in parts.iter().flat_map(|part| part.ours.iter().zip(&part.theirs)) {
        let next = &mut starts[place(*row)];
        theirs[*next] = *their;
        *next += 1;
    }
    Matches { ours, theirs }
}

fn concatenated(mut pieces: Vec<Matches>) -> Result<Matches> {
    let count: usize = pieces.iter().map(|piece| piece.ours.len()).sum();
    if count as u64 >= MOST_ROWS {
        return Err(too_many(count));
    }
    if pieces.len() == 1 {
        return Ok(pieces.swap_remove(0));
    }
    let mut all = Matches { ours: Vec::with_capacity(count), theirs: Vec::with_capacity(count) };
    for piece in pieces {
        all.ours.extend_from_slice(&piece.ours);
        all.theirs.extend_from_slice(&piece.theirs);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_of_several_groups_are_ordered_by_row() {
        let part = |pairs: &[(u32, u32)]| {
            let (ours, theirs) = pairs.iter().copied().unzip();
            Matches { ours, theirs }
        };
        let parts = [part(&[(11, 4), (11, 9), (13, 0)]), part(&[]), part(&[(10, 7), (14, 1)])];
        assert_eq!(merged((10, 6), &parts, false), part(&[(10, 7), (11, 4), (11, 9), (13, 0), (14, 1)]));
        let kept = [(10, 7), (11, 4), (11, 9), (12, NO_ROW), (13, 0), (14, 1), (15, NO_ROW)];
        assert_eq!(merged((10, 6), &parts, true), part(&kept));
    }
}
