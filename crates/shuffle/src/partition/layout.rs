//! Memory layout: groups of chunks, regions of partitions, and buffers in regions.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use super::Partition;
use super::assemble::assemble;
use super::cache::Ends;
use super::foreign;
use super::plan::{Layout, Leaf, Plan, Sharing};
use super::scatter::{Stage, Target, scatter};
use super::sorted::Chunk;
use crate::error::{Error, Result};
use crate::memory::{ALIGNMENT, Memory, Region};

/// The number of tasks per thread that keeps all threads busy to the end; and the least and most rows of a block.
const TASKS: usize = 8;
const LEAST: usize = 1 << 13;
const MOST: usize = 1 << 17;

/// Copy the rows of all chunks into regions of `memory`.
pub(super) fn place(
    schema: &SchemaRef,
    plan: &Plan,
    chunks: Vec<Chunk>,
    partitions: usize,
    memory: &dyn Memory,
) -> Result<Vec<Partition>> {
    let most: Vec<u64> = plan.leaves.iter().filter(|leaf| leaf.varies()).map(Leaf::most).collect();
    place_within(schema, plan, chunks, partitions, memory, &most)
}

/// As [`place`], with a limit on the units of a buffer for each leaf of varying size.
fn place_within(
    schema: &SchemaRef,
    plan: &Plan,
    mut chunks: Vec<Chunk>,
    partitions: usize,
    memory: &dyn Memory,
    most: &[u64],
) -> Result<Vec<Partition>> {
    let mut out = vec![Partition { rows: 0, bytes: 0, batches: Vec::new() }; partitions];
    for range in groups(&chunks, partitions, most) {
        let group = Group::new(plan, &mut chunks[range], partitions);
        for (partition, (batch, bytes)) in out.iter_mut().zip(group.fill(schema, memory)?) {
            if batch.num_rows() > 0 {
                partition.rows += batch.num_rows();
                partition.bytes += bytes;
                partition.batches.push(batch);
            }
        }
    }
    for partition in &mut out {
        if partition.batches.is_empty() {
            partition.batches.push(RecordBatch::new_empty(schema.clone()));
        }
    }
    Ok(out)
}

/// Group consecutive chunks so that no buffer of a partition has more units than its offsets can address.
fn groups(chunks: &[Chunk], partitions: usize, most: &[u64]) -> Vec<Range<usize>> {
    let mut sums = vec![vec![0_u64; partitions]; most.len()];
    let (mut groups, mut start) = (Vec::new(), 0);
    for (number, chunk) in chunks.iter().enumerate() {
        let full =
            sums.iter().zip(&chunk.sizes).zip(most).any(|((sums, sizes), most)| {
                sums.iter().zip(sizes).any(|(sum, size)| sum.saturating_add(*size) > *most)
            });
        if full && number > start {
            groups.push(start..number);
            start = number;
            sums.iter_mut().for_each(|sums| sums.fill(0));
        }
        for (sums, sizes) in sums.iter_mut().zip(&chunk.sizes) {
            sums.iter_mut().zip(sizes).for_each(|(sum, size)| *sum = sum.saturating_add(*size));
        }
    }
    if start < chunks.len() {
        groups.push(start..chunks.len());
    }
    groups
}

/// Consecutive chunks whose rows become one batch for each partition.
pub(super) struct Group<'a> {
    pub plan: &'a Plan,
    chunks: &'a [Chunk],
    partitions: usize,
    /// Rows of each partition.
    pub rows: Vec<u64>,
    /// For each leaf of varying size, units of each partition.
    totals: Vec<Vec<u64>>,
    /// For each leaf, its position among those of varying size.
    varying: Vec<Option<usize>>,
}

/// The memory of one partition: buffers in one region.
#[derive(Default)]
struct Room {
    /// The start and length of each buffer: first those of all leaves, then those of foreign columns.
    buffers: Vec<(usize, usize)>,
    bytes: usize,
    region: Option<Region>,
    foreign: Vec<ArrayData>,
}

impl Room {
    fn reserve(&mut self, bytes: usize) {
        self.buffers.push((self.bytes, bytes));
        self.bytes += bytes.next_multiple_of(ALIGNMENT);
    }
}

/// Pointers into the regions, one for each partition; tasks write to disjoint places.
pub(super) struct Starts(pub Vec<*mut u8>);

// SAFETY: the pointers are only passed on; the contract of `scatter` defines which thread writes where.
unsafe impl Send for Starts {}
// SAFETY: as above.
unsafe impl Sync for Starts {}

/// For each leaf, its position among those of varying size; and the number of these.
pub(super) fn varying(plan: &Plan) -> (Vec<Option<usize>>, usize) {
    let mut count = 0;
    let place = |leaf: &Leaf| {
        count += usize::from(leaf.varies());
        leaf.varies().then(|| count - 1)
    };
    (plan.leaves.iter().map(place).collect(), count)
}

impl Leaf {
    /// The bytes of its buffers for these rows and units; the second one only if it has two buffers.
    pub(super) fn lengths(&self, rows: usize, units: usize) -> (usize, Option<usize>) {
        match &self.layout {
            Layout::Fixed(width) => (rows * width, None),
            Layout::Bits | Layout::Valid => (rows.div_ceil(64) * 8, None),
            Layout::Ranges { wide, unit } => ((rows + 1) * if *wide { 8 } else { 4 }, Some(units * unit)),
            Layout::Views(Sharing::Each) => (rows * 16, Some(units)),
            Layout::Views(Sharing::Whole(bytes)) => (rows * 16, Some(bytes.len())),
            Layout::Views(Sharing::Shared(_)) => (rows * 16, None),
        }
    }
}

impl<'a> Group<'a> {
    /// A group whose rows are the first ones of the partitions.
    fn new(plan: &'a Plan, chunks: &'a mut [Chunk], partitions: usize) -> Self {
        let (_, count) = varying(plan);
        Self::after(plan, chunks, vec![0; partitions], vec![vec![0; partitions]; count])
    }

    /// A group whose rows come after `rows` rows of each partition, and `totals` units of each leaf of varying size. Computes the
    /// prefix sums over the chunks.
    pub(super) fn after(
        plan: &'a Plan,
        chunks: &'a mut [Chunk],
        mut rows: Vec<u64>,
        mut totals: Vec<Vec<u64>>,
    ) -> Self {
        let partitions = rows.len();
        let (varying, _) = varying(plan);
        for chunk in chunks.iter_mut() {
            chunk.before = rows.clone();
            for (partition, rows) in rows.iter_mut().enumerate() {
                *rows += chunk.run(partition).len() as u64;
            }
            for (totals, sizes) in totals.iter_mut().zip(&mut chunk.sizes) {
                for (total, size) in totals.iter_mut().zip(sizes) {
                    let before = *total;
                    *total += *size;
                    *size = before;
                }
            }
        }
        Self { plan, chunks, partitions, rows, totals, varying }
    }

    fn fill(&self, schema: &SchemaRef, memory: &dyn Memory) -> Result<Vec<(RecordBatch, usize)>> {
        let rooms =
            (0..self.partitions).into_par_iter().map(|p| self.make_room(p, memory)).collect::<Result<Vec<_>>>()?;
        self.scatter(|buffer| starts(&rooms, buffer));
        let finish = |(partition, room): (usize, Room)| {
            let bytes = room.bytes;
            let rows = self.rows[partition] as usize;
            if rows == 0 {
                return Ok((RecordBatch::new_empty(schema.clone()), 0));
            }
            let region = room.region.map_or_else(|| Buffer::from_vec(Vec::<u8>::new()), Region::into_buffer);
            let buffers: Vec<_> =
                room.buffers.iter().map(|(start, length)| region.slice_with_length(*start, *length)).collect();
            Ok((assemble(schema, self.plan, rows, &buffers, &room.foreign)?, bytes))
        };
        rooms.into_par_iter().enumerate().map(finish).collect()
    }

    /// Lay out one partition, allocate its region, and initialise what `scatter` does not write.
    fn make_room(&self, partition: usize, memory: &dyn Memory) -> Result<Room> {
        let rows = self.rows[partition] as usize;
        let mut room = Room::default();
        if rows == 0 {
            return Ok(room);
        }
        for (leaf, varying) in self.plan.leaves.iter().zip(&self.varying) {
            let units = varying.map_or(0, |number| self.totals[number][partition] as usize);
            let (items, payload) = leaf.lengths(rows, units);
            room.reserve(items);
            if let Some(payload) = payload {
                room.reserve(payload);
            }
        }
        let scattered = room.buffers.len();
        let mut gathered = Vec::new();
        for arrays in &self.plan.foreign {
            let array = foreign::gather(arrays, self.chunks, partition, rows)?;
            let mut reserve = |buffer: &Buffer| {
                room.reserve(buffer.len());
                buffer.clone()
            };
            foreign::rebuild(&array, &mut reserve)?;
            gathered.push(array);
        }
        if room.bytes > 0 {
            let bytes = room.bytes;
            let region = memory.allocate(partition, bytes).map_err(|source| Error::Memory { bytes, source })?;
            assert!(region.len() >= bytes, "a region of {bytes} bytes was requested, got {} bytes", region.len());
            room.region = Some(region);
        }
        self.prepare(&room);
        let mut next = scattered;
        for array in gathered {
            let mut moved = |buffer: &Buffer| {
                next += 1;
                room.copy_in(next - 1, buffer)
            };
            let array = foreign::rebuild(&array, &mut moved)?;
            room.foreign.push(array);
        }
        Ok(room)
    }

    /// Write what `scatter` does not: padding between buffers, zeroed bitmaps, first offsets, and data buffers that are copied whole.
    fn prepare(&self, room: &Room) {
        let Some(region) = &room.region else { return };
        let start = region.as_mut_ptr();
        // SAFETY: all ranges were reserved in the region, which is not shared yet.
        unsafe {
            for (at, bytes) in &room.buffers {
                start.add(at + bytes).write_bytes(0, bytes.next_multiple_of(ALIGNMENT) - bytes);
            }
            start.add(room.bytes).write_bytes(0, region.len() - room.bytes);
            let mut next = 0;
            for leaf in &self.plan.leaves {
                let (at, bytes) = room.buffers[next];
                match &leaf.layout {
                    Layout::Bits => start.add(at).write_bytes(0, bytes),
                    Layout::Valid => start.add(at).write_bytes(0xff, bytes),
                    Layout::Ranges { wide, .. } => start.add(at).write_bytes(0, if *wide { 8 } else { 4 }),
                    Layout::Views(Sharing::Whole(whole)) => {
                        start.add(room.buffers[next + 1].0).copy_from_nonoverlapping(whole.as_ptr(), whole.len());
                    }
                    Layout::Fixed(_) | Layout::Views(_) => {}
                }
                next += leaf.buffers();
            }
        }
    }

    /// Copy all rows. `starts` returns where a buffer, numbered over all leaves, begins in each partition.
    pub(super) fn scatter(&self, starts: impl Fn(usize) -> Starts) {
        let mut targets = Vec::with_capacity(self.plan.leaves.len());
        let mut next = 0;
        for leaf in &self.plan.leaves {
            let count = leaf.buffers();
            let items = starts(next);
            let payload = if count > 1 { starts(next + 1) } else { Starts(Vec::new()) };
            targets.push((items, payload));
            next += count;
        }
        let blocks = self.blocks();
        let tasks = blocks.len() * targets.len();
        (0..tasks).into_par_iter().for_each(|task| {
            let (block, leaf) = (blocks[task / targets.len()].clone(), task % targets.len());
            let (items, payload) = &targets[leaf];
            self.scatter_block(block, leaf, &items.0, &payload.0);
        });
    }

    /// Blocks of chunks. One thread processes a block in order, and keeps the incomplete last lines of its runs.
    fn blocks(&self) -> Vec<Range<usize>> {
        let all: usize = self.chunks.iter().map(|chunk| chunk.order.len()).sum();
        // Each leaf of a block is a separate task. The first and last cache lines of a block cost more than others, so make only as many
        // blocks as keep all threads busy.
        let tasks = TASKS * rayon::current_num_threads();
        let block = (all / tasks.div_ceil(self.plan.leaves.len().max(1))).clamp(LEAST, MOST);
        let mut blocks = Vec::new();
        let (mut start, mut rows) = (0, 0);
        for (number, chunk) in self.chunks.iter().enumerate() {
            rows += chunk.order.len();
            if rows >= block || number + 1 == self.chunks.len() {
                blocks.push(start..number + 1);
                (start, rows) = (number + 1, 0);
            }
        }
        blocks
    }

    fn scatter_block(&self, block: Range<usize>, leaf: usize, items: &[*mut u8], payload: &[*mut u8]) {
        let (varying, leaf) = (self.varying[leaf], &self.plan.leaves[leaf]);
        let size = leaf.streamed();
        let mut ends = Ends::new(size.map_or(&[], |_| &self.chunks[block.start].before), size.unwrap_or(1));
        let mut stage = Stage::default();
        for number in block.clone() {
            let chunk = &self.chunks[number];
            let (before, after): (&[u64], &[u64]) = match varying {
                None => (&[], &[]),
                Some(varying) => {
                    let next = self.chunks.get(number + 1).map(|chunk| &chunk.sizes[varying]);
                    (&chunk.sizes[varying], next.unwrap_or(&self.totals[varying]))
                }
            };
            let target = Target { items, payload, before, after };
            // SAFETY: `make_room` reserved the sums over all chunks and initialised bitmaps; by the prefix sums, the parts of chunks do
            // not overlap. All chunks of the block pass through `ends`.
            unsafe { scatter(leaf, chunk, &target, &mut ends, &mut stage) };
        }
        if let Some(size) = size {
            let next = self.chunks.get(block.end).map_or(&self.rows, |chunk| &chunk.before);
            // SAFETY: these are the starts of the block's values and their numbers after its runs.
            unsafe { ends.finish(items, |partition| next[partition], size) };
        }
    }
}

impl Room {
    /// Copy bytes into the buffer of that number; the result keeps the region's owner alive.
    fn copy_in(&self, number: usize, from: &Buffer) -> Buffer {
        let (at, bytes) = self.buffers[number];
        match &self.region {
            Some(region) if bytes == from.len() && bytes > 0 => {
                // SAFETY: reserved for this buffer, and not shared yet.
                unsafe { region.as_mut_ptr().add(at).copy_from_nonoverlapping(from.as_ptr(), bytes) };
                region.part(at, bytes)
            }
            _ => from.clone(),
        }
    }
}

/// A placeholder pointer for partitions without rows, to which nothing is written.
pub(super) fn nowhere() -> *mut u8 {
    std::ptr::NonNull::<u128>::dangling().as_ptr().cast()
}

/// The start of a buffer in each partition; a placeholder for partitions without rows.
fn starts(rooms: &[Room], number: usize) -> Starts {
    let start = |room: &Room| match &room.region {
        // SAFETY: the buffer was reserved in the region.
        Some(region) if number < room.buffers.len() => unsafe { region.as_mut_ptr().add(room.buffers[number].0) },
        _ => nowhere(),
    };
    Starts(rooms.iter().map(start).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::{ArrayRef, StringArray, StringViewArray};

    use super::super::{Route, cut};
    use super::*;
    use crate::memory::Heap;

    #[test]
    fn rows_beyond_the_range_of_offsets_become_several_batches() {
        let text = |row: usize| format!("a text that is longer than views hold: {row}");
        let batches: Vec<RecordBatch> = (0..10)
            .map(|batch| {
                let texts: Vec<String> = (batch * 100..batch * 100 + 100).map(text).collect();
                let columns: [(&str, ArrayRef); 2] = [
                    ("string", Arc::new(StringArray::from(texts.clone()))),
                    ("view", Arc::new(StringViewArray::from_iter_values(&texts))),
                ];
                RecordBatch::try_from_iter(columns).unwrap()
            })
            .collect();
        let schema = batches[0].schema();
        let numbers: Vec<u32> = (0..1000).map(|row| row % 2).collect();
        let mut plan = Plan::new(&schema, &batches).unwrap();
        let chunks = cut(&plan, &batches, &Route::Numbers(&numbers), 2).unwrap();
        plan.settle(&chunks, 2, true).unwrap();
        // Each batch adds about 2,100 bytes to each partition.
        let found = place_within(&schema, &plan, chunks, 2, &Heap, &[7_000, 9_000]).unwrap();
        for (number, partition) in found.iter().enumerate() {
            assert_eq!((partition.rows, partition.batches.len()), (500, 4));
            let strings = partition.batches.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter());
            let views = partition.batches.iter().flat_map(|batch| batch.column(1).as_string_view().iter());
            for (place, (string, view)) in strings.zip(views).enumerate() {
                let expected = text(2 * place + number);
                assert_eq!((string, view), (Some(expected.as_str()), Some(expected.as_str())));
            }
        }
    }
}
