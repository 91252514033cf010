//! Index pages: their layout, writing them into an extent, and reading them back.
//!
//! A page is an object of `craton_wire`: its metadata are [`Shape`] and place among the pages as words of 64 bits; its buffers are the starts of
//! the buckets (one more than there are buckets), the entries, and the heap of long keys. An entry has two or three words of 64 bits: bytes 4 to 12
//! of the view of its key; the length of the key in the high half, the row in the low half; and, if any key has more than 8 bytes, the last 4
//! bytes of the view. For a key in the heap, the last word is where it starts.

use std::sync::Arc;

use arrow_buffer::Buffer;
use craton_slab::Extent;
use craton_wire::object::{encode_object, locate_object};

use crate::api::{DataInfo, Home, PageBuffer, PageSpec, Pinned, Reference};
use crate::error::{Error, Result};
use crate::ids::{PageId, SetId};
use crate::services::hash::Keys;
use crate::services::hash::keys::{INLINE, length};
use crate::services::held::Held;

/// The first word of the metadata; it has the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"CrJoin01");
/// The words of the metadata.
const WORDS: usize = 7;
/// The longest key that is in the first word of its entry.
const SHORT: usize = 8;
/// The most bytes of the parts of a page.
const MOST_BYTES: usize = craton_wire::object::PART - 1;
/// The bytes for what the object adds to the parts: its metadata, and a view for each of its rows.
const EXTRA: usize = 256;
/// From this many bytes on, the memory of a page is mapped by one system call, not by a page fault for every 4 KiB.
const PREFAULT: usize = 64 << 10;

/// The sizes of the parts of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) entries: usize,
    /// The words of an entry.
    pub(super) width: usize,
    /// The binary logarithm of the number of buckets.
    bucket_bits: u32,
    pub(super) heap: usize,
}

impl Shape {
    pub(super) fn new(entries: usize, width: usize, heap: usize) -> Self {
        Self { entries, width, bucket_bits: entries.max(1).next_power_of_two().ilog2(), heap }
    }

    /// The words of an entry if the longest key has so many bytes.
    pub(super) fn width_for(longest: usize) -> usize {
        if longest <= SHORT { 2 } else { 3 }
    }

    fn starts(&self) -> usize {
        (1 << self.bucket_bits) + 1
    }

    fn entry_bytes(&self) -> usize {
        self.entries * self.width * 8
    }

    fn entries_at(&self) -> usize {
        (self.starts() * 4).next_multiple_of(64)
    }

    fn heap_at(&self) -> usize {
        self.entries_at() + self.entry_bytes().next_multiple_of(64)
    }

    pub(super) fn bytes(&self) -> usize {
        self.heap_at() + self.heap
    }

    /// Fail if a part is too large for a page.
    pub(super) fn check(&self) -> Result<()> {
        let largest = self.entry_bytes().max(self.heap).max(self.starts() * 4);
        if largest <= MOST_BYTES {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "{} rows have one key, or keys of similar hashes: their entries have {largest} bytes, and a page has at most {MOST_BYTES}",
            self.entries
        )))
    }

    /// The bucket of a hash, if `bits` bits of it choose the page.
    #[inline(always)]
    pub(super) fn bucket(&self, hash: u64, bits: u32) -> usize {
        // In two steps, because a shift by 64 bits is not defined.
        ((hash << bits) >> 1 >> (63 - self.bucket_bits)) as usize
    }
}

/// The page among those of the map: its number, and how many bits of a hash choose the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) number: usize,
    pub(super) bits: u32,
}

/// A page that is being written.
pub(super) struct OpenPage {
    part: Part,
    pub(super) shape: Shape,
    extent: Extent,
    extra: Extent,
    // The used bytes of the heap.
    heap: usize,
}

/// The parts of a page that is being written.
pub(super) struct Parts<'a> {
    shape: Shape,
    bits: u32,
    starts: &'a mut [u32],
    entries: &'a mut [u64],
    heap: &'a mut [u8],
    used: &'a mut usize,
}

impl OpenPage {
    pub(super) fn allocate(home: &dyn Home, set: SetId, part: Part, shape: Shape) -> Result<Self> {
        let mut extents = home.allocate(set, &[shape.bytes(), EXTRA])?.into_iter();
        let (Some(mut extent), Some(extra)) = (extents.next(), extents.next()) else {
            return Err(Error::Invalid("the store granted no extents".into()));
        };
        if shape.bytes() >= PREFAULT {
            // An error means that there is no memory, which writing would find too.
            let _ = extent.prefault();
        }
        let memory = extent.as_mut_slice().ok_or_else(read_only)?;
        memory[..shape.starts() * 4].fill(0);
        Ok(Self { part, shape, extent, extra, heap: 0 })
    }

    pub(super) fn parts(&mut self) -> Result<Parts<'_>> {
        let shape = self.shape;
        let memory = self.extent.as_mut_slice().ok_or_else(read_only)?;
        let (starts, rest) = memory.split_at_mut(shape.entries_at());
        let (entries, heap) = rest.split_at_mut(shape.heap_at() - shape.entries_at());
        let starts = words_mut::<u32>(&mut starts[..shape.starts() * 4])?;
        let entries = words_mut::<u64>(&mut entries[..shape.entry_bytes()])?;
        Ok(Parts { shape, bits: self.part.bits, starts, entries, heap: &mut heap[..shape.heap], used: &mut self.heap })
    }

    /// Seal the page.
    pub(super) fn seal(mut self, home: &dyn Home, set: SetId) -> Result<DataInfo> {
        let Shape { entries, width, bucket_bits, heap } = self.shape;
        let rows = entries as u64;
        let words: [u64; WORDS] = [
            MAGIC,
            self.part.number as u64,
            u64::from(self.part.bits),
            entries as u64,
            width as u64,
            u64::from(bucket_bits),
            heap as u64,
        ];
        let meta: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let shape = self.shape;
        let held = Arc::new(Held { extent: self.extent });
        let buffers = vec![
            held.buffer(0, shape.starts() * 4),
            held.buffer(shape.entries_at(), shape.entry_bytes()),
            held.buffer(shape.heap_at(), shape.heap),
        ];
        let encoded = encode_object(meta, buffers).map_err(|error| Error::Invalid(error.to_string()))?;
        let base = self.extra.reference();
        let target = self.extra.as_mut_slice().ok_or_else(read_only)?;
        let mut at = 0;
        let mut place = |buffer: &Buffer| -> Result<Reference> {
            if let Ok(reference) = held.reference(buffer) {
                return Ok(reference);
            }
            let room = target.get_mut(at..at + buffer.len());
            let room = room.ok_or_else(|| Error::Invalid("the metadata of a page has no room".into()))?;
            room.copy_from_slice(buffer);
            let offset = base.offset + at as u64;
            at += buffer.len().next_multiple_of(64);
            Ok(Reference { segment: base.segment, offset, length: buffer.len() as u64 })
        };
        let references = encoded.buffers.iter().map(&mut place).collect::<Result<Vec<_>>>()?;
        drop(encoded.buffers);
        let held = Arc::into_inner(held).ok_or_else(|| Error::Invalid("the parts of a page are in use".into()))?;
        let spec = PageSpec { header: encoded.header, buffers: references, rows, ..PageSpec::default() };
        home.seal(set, spec, vec![held.extent, self.extra])
    }
}

fn read_only() -> Error {
    Error::Invalid("the store granted an extent that cannot be written".into())
}

impl Parts<'_> {
    /// Count an entry of that hash. All entries are counted first, then [`begin`](Self::begin) is called, then all are inserted.
    #[inline(always)]
    pub(super) fn count(&mut self, hash: u64) {
        self.starts[self.shape.bucket(hash, self.bits)] += 1;
    }

    /// Determine where the entries of each bucket start.
    pub(super) fn begin(&mut self) {
        let mut next = 0u32;
        for start in self.starts.iter_mut() {
            next += std::mem::replace(start, next);
        }
    }

    /// Insert an entry; returns whether there was room, which there is for every entry that was counted.
    #[inline(always)]
    pub(super) fn insert(&mut self, keys: &Keys<'_>, view: u128, hash: u64, row: u32) -> bool {
        let start = &mut self.starts[self.shape.bucket(hash, self.bits)];
        let at = *start as usize * self.shape.width;
        *start += 1;
        let Some(entry) = self.entries.get_mut(at..at + self.shape.width) else { return false };
        let bytes = length(view);
        entry[1] = (bytes as u64) << 32 | u64::from(row);
        if bytes <= INLINE {
            entry[0] = (view >> 32) as u64;
            if let Some(last) = entry.get_mut(2) {
                *last = (view >> 96) as u64;
            }
            return true;
        }
        let (from, to) = (*self.used, *self.used + bytes);
        let (Some(room), Some(last)) = (self.heap.get_mut(from..to), entry.get_mut(2)) else { return false };
        room.copy_from_slice(keys.long(view));
        *last = from as u64;
        // The first 4 bytes of the key, without the number of the buffer that it came from.
        entry[0] = (view >> 32) as u64 & u64::from(u32::MAX);
        *self.used = to;
        true
    }

    /// End the inserting: each start has moved to the end of its bucket, which is the start of the next one.
    pub(super) fn end(&mut self) {
        let last = self.starts.len() - 1;
        self.starts.copy_within(..last, 1);
        self.starts[0] = 0;
    }
}

/// A page that is pinned, whose parts are where they have to be.
pub(super) struct IndexPage {
    pinned: Pinned,
    part: Part,
    shape: Shape,
    // The buffer and the range of each part.
    places: [(usize, std::ops::Range<usize>); 3],
}

/// The parts of a page, for reading.
pub(super) struct Buckets<'a> {
    pub(super) page: PageId,
    pub(super) shape: Shape,
    pub(super) starts: &'a [u32],
    pub(super) entries: &'a [u64],
    pub(super) heap: &'a [u8],
}

impl IndexPage {
    /// Check the metadata and the lengths of the parts of a page.
    pub(super) fn open(pinned: Pinned, expected: Part) -> Result<Self> {
        let page = pinned.info.page;
        let damaged = |why: &str| Error::Damaged { page, why: format!("it is not an index page of this map: {why}") };
        let slices: Vec<&[u8]> = pinned.buffers.iter().map(PageBuffer::as_slice).collect();
        let places = locate_object(&pinned.header, &slices).map_err(|error| damaged(&error.to_string()))?;
        let mut values = places.values();
        let mut next = || match values.next() {
            Some([place]) => Some((place.buffer, place.range.clone())),
            _ => None,
        };
        let (Some(meta), Some(starts), Some(entries), Some(heap), None) = (next(), next(), next(), next(), next())
        else {
            return Err(damaged("it has another number of parts"));
        };
        let words: Vec<u64> = slices[meta.0][meta.1].chunks_exact(8).map(word).collect();
        let [MAGIC, number, bits, count, width @ 2..=3, bucket_bits @ 0..=32, heap_bytes] = words[..] else {
            return Err(damaged("its metadata are wrong"));
        };
        let part = Part { number: number as usize, bits: bits as u32 };
        let shape = Shape {
            entries: count as usize,
            width: width as usize,
            bucket_bits: bucket_bits as u32,
            heap: heap_bytes as usize,
        };
        let lengths = [
            starts.1.len() == shape.starts() * 4,
            count <= super::MOST_ROWS && entries.1.len() == shape.entry_bytes(),
            heap.1.len() == shape.heap,
        ];
        if part != expected || lengths.contains(&false) {
            return Err(damaged("its parts have other lengths, or it is another page"));
        }
        let opened = Self { part, shape, places: [starts, entries, heap], pinned };
        opened.buckets()?;
        Ok(opened)
    }

    /// The parts.
    pub(super) fn buckets(&self) -> Result<Buckets<'_>> {
        let page = self.pinned.info.page;
        let slice = |at: usize| {
            let (buffer, range) = &self.places[at];
            &self.pinned.buffers[*buffer].as_slice()[range.clone()]
        };
        let unaligned = || Error::Damaged { page, why: format!("part {} of the map is not aligned", self.part.number) };
        Ok(Buckets {
            page,
            shape: self.shape,
            starts: words::<u32>(slice(0)).ok_or_else(unaligned)?,
            entries: words::<u64>(slice(1)).ok_or_else(unaligned)?,
            heap: slice(2),
        })
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// An integer of which every bit pattern is a value.
trait Word {}
impl Word for u32 {}
impl Word for u64 {}

/// The bytes as integers; `None` if they are not aligned or not whole integers.
fn words<T: Word>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: every bit pattern is a value.
    let (before, words, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(words)
}

fn words_mut<T: Word>(bytes: &mut [u8]) -> Result<&mut [T]> {
    // SAFETY: every bit pattern is a value.
    let (before, words, after) = unsafe { bytes.align_to_mut::<T>() };
    if before.is_empty() && after.is_empty() {
        return Ok(words);
    }
    Err(Error::Invalid("an extent of the store is not aligned".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_the_bits_after_those_of_the_page() {
        for entries in [0, 1, 2, 3, 1000, 1 << 20] {
            let shape = Shape::new(entries, 2, 0);
            let most = (1usize << shape.bucket_bits) - 1;
            for bits in [0, 1, 12] {
                assert_eq!(shape.bucket(0, bits), 0);
                assert_eq!(shape.bucket(u64::MAX, bits), most);
                assert_eq!(shape.bucket(u64::MAX >> bits, bits), most);
                assert_eq!(shape.bucket(1, bits), 0);
            }
            assert!(most + 1 >= entries && (entries < 2 || most < 2 * entries));
        }
    }

    #[test]
    fn the_parts_of_a_page_are_apart() {
        for (entries, width, heap) in [(0, 2, 0), (1, 3, 100), (17, 2, 0), (1000, 3, 12345)] {
            let shape = Shape::new(entries, width, heap);
            assert!(shape.starts() * 4 <= shape.entries_at());
            assert!(shape.entries_at() + shape.entry_bytes() <= shape.heap_at());
            assert_eq!(shape.bytes(), shape.heap_at() + heap);
            assert!(shape.check().is_ok());
        }
        assert!(Shape::new(1 << 27, 2, 0).check().is_err());
        assert_eq!((Shape::width_for(8), Shape::width_for(9)), (2, 3));
    }
}
