//! Reductions: reduce, allreduce, reduce_scatter.
//!
//! Elements are combined in the order of the ranks: rank 0 and rank 1, the result and rank 2, and so on. The exception are small values in
//! large groups, which are combined along a hypercube (recursive doubling): the order depends on the size of the group alone. So every rank
//! gets the same bits, in every run, over every transport.
//!
//! Large values: each rank combines one part of the value, for which it gets that part of all others, and then the parts are exchanged.
//! Every byte is sent twice, which is the least. Between processes of one machine a part is read from the others' memory piece by piece and
//! combined while it is in the cache.

use std::ops::Range;

use super::SMALL_GROUP;
use crate::engine::{Arrived, Offered, Request, Stop, Target};
use crate::error::{Error, Result};
use crate::group::{Call, Collective, Control, Group};
use crate::memory::{Block, Piece};
use crate::reduce::Reducer;

/// Up to this size every rank combines the whole value itself, in a small group and in a large one.
const WHOLE: usize = 16 << 10;
const WHOLE_IN_LARGE: usize = 32 << 10;
/// Bytes that are combined at once, so that they stay in the cache.
const CHUNK: usize = 256 << 10;

/// An array to be reduced: its elements, and what must agree on all ranks.
#[derive(Clone, Copy)]
pub struct Array {
    /// The elements.
    pub piece: Piece,
    /// The reduction.
    pub reducer: Reducer,
    /// A hash of the shape.
    pub shape: u64,
}

/// Where a result is written.
#[derive(Clone, Copy)]
pub struct Output {
    /// The first byte: aligned for the elements, writable, and not part of the array that is reduced.
    pub start: *mut u8,
    /// The number of bytes.
    pub length: usize,
}

// SAFETY: an output is an address; who passes it promises that nobody else uses the memory during the call.
unsafe impl Send for Output {}
// SAFETY: as above.
unsafe impl Sync for Output {}

impl Array {
    fn check(&self, output: Option<Output>, expected: usize) -> Result<()> {
        self.reducer.number.check(self.reducer.op)?;
        let aligned = self.reducer.is_aligned(self.piece.start);
        if !aligned || self.piece.length % self.reducer.number.size() != 0 {
            return Err(Error::Invalid("the array is not aligned, or has parts of elements".into()));
        }
        let valid = |output: &Output| output.length == expected && self.reducer.is_aligned(output.start);
        if output.as_ref().is_some_and(|output| !valid(output)) {
            return Err(Error::Invalid("the memory for the result has another length, or is not aligned".into()));
        }
        Ok(())
    }

    fn agreed(&self) -> [u64; 4] {
        let reducer = self.reducer;
        [reducer.number as u64, reducer.op as u64, self.shape, self.piece.length as u64]
    }

    /// The ranges of bytes of the parts that the ranks combine.
    fn parts(&self, size: usize) -> Vec<Range<usize>> {
        let width = self.reducer.number.size();
        let count = self.piece.length / width;
        // Whole cache lines, so that no two ranks write to one.
        let line = (64 / width).max(1);
        let at = |part: usize| (count * part / size).div_ceil(line).saturating_mul(line).min(count) * width;
        (0..size).map(|part| at(part)..if part + 1 == size { self.piece.length } else { at(part + 1) }).collect()
    }
}

impl Group {
    /// Write the reduction of the ranks' arrays on all ranks.
    ///
    /// # Errors
    /// [`Error::Invalid`] for memory that does not fit, [`Error::Mismatch`] for arrays that do not agree, and those of all calls.
    pub fn allreduce(&self, array: Array, output: Output, control: &mut Control<'_>) -> Result<()> {
        array.check(Some(output), array.piece.length)?;
        self.collective(Collective::Allreduce, &array.agreed(), control, |call| {
            let length = array.piece.length;
            if call.size() == 1 {
                copy(array.piece, output.start);
                return Ok(());
            }
            if call.size() <= SMALL_GROUP && length <= WHOLE {
                return exchange_and_combine(call, array, output);
            }
            if call.size() > SMALL_GROUP && length <= WHOLE_IN_LARGE {
                return recursive_doubling(call, array, output);
            }
            let parts = array.parts(call.size());
            let own = parts[call.rank].clone();
            let mut requests = Vec::new();
            combine_part(call, array, &parts, output.start.wrapping_add(own.start))?;
            for other in call.others() {
                let target = Target::Memory(output.start.wrapping_add(parts[other].start), parts[other].len());
                requests.push(call.receive(other, 1, target)?);
            }
            let own = Piece { start: output.start.wrapping_add(own.start), length: own.len() };
            for other in call.others() {
                requests.push(call.send(other, 1, &[own])?);
            }
            call.wait(&requests)
        })
    }

    /// Write the reduction of the ranks' arrays on the root.
    ///
    /// # Errors
    /// As for [`Group::allreduce`].
    pub fn reduce(&self, array: Array, output: Option<Output>, root: usize, control: &mut Control<'_>) -> Result<()> {
        self.check(root)?;
        array.check(output, array.piece.length)?;
        let output = output.filter(|_| root == self.rank());
        if root == self.rank() && output.is_none() {
            return Err(Error::Invalid("the root of a reduction must have memory for the result".into()));
        }
        let [number, op, shape, length] = array.agreed();
        self.collective(Collective::Reduce, &[number, op, shape, length, root as u64], control, |call| {
            if array.piece.length <= WHOLE || call.size() == 1 {
                return reduce_whole(call, array, output, root);
            }
            let parts = array.parts(call.size());
            let own = parts[call.rank].clone();
            if let Some(output) = output {
                combine_part(call, array, &parts, output.start.wrapping_add(own.start))?;
                for other in call.others() {
                    let target = Target::Memory(output.start.wrapping_add(parts[other].start), parts[other].len());
                    call.receive(other, 1, target)?;
                }
                return call.wait_all();
            }
            let part = Block::new(own.len())?;
            combine_part(call, array, &parts, part.pointer())?;
            call.send(root, 1, &[Piece { start: part.pointer(), length: part.length() }])?;
            call.wait_all()
        })
    }

    /// Write this rank's part of the reduction. `bounds` are the ends of the ranks' parts, in elements, beginning with 0.
    ///
    /// # Errors
    /// As for [`Group::allreduce`].
    pub fn reduce_scatter(
        &self,
        array: Array,
        bounds: &[usize],
        output: Output,
        control: &mut Control<'_>,
    ) -> Result<()> {
        let width = array.reducer.number.size();
        let ascend = bounds.windows(2).all(|pair| pair[0] <= pair[1]);
        let fits = bounds.len() == self.size() + 1 && ascend && bounds[0] == 0;
        if !fits || bounds[self.size()].checked_mul(width) != Some(array.piece.length) {
            return Err(Error::Invalid("the parts do not cover the array".into()));
        }
        let parts: Vec<Range<usize>> = bounds.windows(2).map(|pair| pair[0] * width..pair[1] * width).collect();
        array.check(Some(output), parts[self.rank()].len())?;
        self.collective(Collective::ReduceScatter, &array.agreed(), control, |call| {
            combine_part(call, array, &parts, output.start)
        })
    }
}

fn copy(piece: Piece, target: *mut u8) {
    // SAFETY: the caller has compared the lengths, and the output is not part of the array.
    unsafe { std::ptr::copy_nonoverlapping(piece.start, target, piece.length) };
}

/// Every rank gets every array, and combines them itself.
fn exchange_and_combine(call: &mut Call<'_, '_>, array: Array, output: Output) -> std::result::Result<(), Stop> {
    let (size, length) = (call.size(), array.piece.length);
    let others = Block::new(size * length.next_multiple_of(64))?;
    let place = |rank: usize| others.pointer().wrapping_add(rank * length.next_multiple_of(64));
    for other in call.others() {
        call.receive(other, 0, Target::Memory(place(other), length))?;
    }
    for other in call.others() {
        call.send(other, 0, &[array.piece])?;
    }
    call.wait_all()?;
    combine_all(call, array, output, place);
    Ok(())
}

/// Combine arrays in the order of the ranks; the other ranks' are where `place` says.
fn combine_all(call: &Call<'_, '_>, array: Array, output: Output, place: impl Fn(usize) -> *mut u8) {
    let length = array.piece.length;
    let value = |rank: usize| if rank == call.rank { array.piece.start } else { place(rank).cast_const() };
    copy(Piece { start: value(0), length }, output.start);
    for rank in 1..call.size() {
        // SAFETY: all are of this length, aligned, and different.
        unsafe { array.reducer.combine(output.start, value(rank), length) };
    }
}

fn reduce_whole(
    call: &mut Call<'_, '_>,
    array: Array,
    output: Option<Output>,
    root: usize,
) -> std::result::Result<(), Stop> {
    let Some(output) = output else {
        call.send(root, 0, &[array.piece])?;
        return call.wait_all();
    };
    let length = array.piece.length;
    let others = Block::new(call.size() * length.next_multiple_of(64))?;
    let place = |rank: usize| others.pointer().wrapping_add(rank * length.next_multiple_of(64));
    for other in call.others() {
        call.receive(other, 0, Target::Memory(place(other), length))?;
    }
    call.wait_all()?;
    combine_all(call, array, output, place);
    Ok(())
}

/// Exchange and combine with one rank after another, whose numbers differ in one binary digit. Ranks beyond a power of two give their array
/// to another rank before, and get the result after.
fn recursive_doubling(call: &mut Call<'_, '_>, array: Array, output: Output) -> std::result::Result<(), Stop> {
    let (rank, size, length) = (call.rank, call.size(), array.piece.length);
    let most = if size.is_power_of_two() { size } else { size.next_power_of_two() / 2 };
    let own = Piece { start: output.start, length };
    copy(array.piece, output.start);
    if rank >= most {
        call.send(rank - most, 0, &[own])?;
        call.wait_all()?;
        call.receive(rank - most, 50, Target::Memory(output.start, length))?;
        return call.wait_all();
    }
    let other_value = Block::new(length)?;
    if rank + most < size {
        let request = call.receive(rank + most, 0, Target::Memory(other_value.pointer(), length))?;
        call.wait(&[request])?;
        // SAFETY: both have this length, are aligned, and differ.
        unsafe { array.reducer.combine(output.start, other_value.pointer(), length) };
    }
    let (mut distance, mut round) = (1, 1);
    while distance < most {
        let other = rank ^ distance;
        let received = call.receive(other, round, Target::Memory(other_value.pointer(), length))?;
        let sent = call.send(other, round, &[own])?;
        call.wait(&[received, sent])?;
        // The lower rank's value is the left one on both sides.
        // SAFETY: as above.
        unsafe {
            if rank < other {
                array.reducer.combine(output.start, other_value.pointer(), length);
            } else {
                array.reducer.combine(other_value.pointer(), output.start, length);
                std::ptr::copy_nonoverlapping(other_value.pointer(), output.start, length);
            }
        }
        (distance, round) = (distance * 2, round + 1);
    }
    if rank + most < size {
        call.send(rank + most, 50, &[own])?;
    }
    call.wait_all()
}

/// Combine this rank's part of all arrays, in the order of the ranks, into `target`.
fn combine_part(
    call: &mut Call<'_, '_>,
    array: Array,
    parts: &[Range<usize>],
    target: *mut u8,
) -> std::result::Result<(), Stop> {
    let own = parts[call.rank].clone();
    let mut received: Vec<(usize, Request)> = Vec::new();
    for other in call.others() {
        received.push((other, call.receive(other, 0, Target::Later(own.len()))?));
    }
    let mut sent = Vec::new();
    for other in call.others() {
        sent.push(call.send(other, 0, &[array.piece.part(parts[other].start, parts[other].len())])?);
    }
    let requests: Vec<Request> = received.iter().map(|&(_, request)| request).collect();
    call.wait(&requests)?;
    let mut values: Vec<Option<Arrived>> = (0..call.size()).map(|_| None).collect();
    for (other, request) in received {
        values[other] = Some(call.take(request));
    }
    let scratch = Block::new(CHUNK.min(own.len()))?;
    let mut at = 0;
    while at < own.len() {
        let length = CHUNK.min(own.len() - at);
        let target = target.wrapping_add(at);
        for (rank, value) in values.iter().enumerate() {
            let source = match value {
                None => array.piece.start.wrapping_add(own.start + at),
                Some(Arrived::Block(block)) => block.pointer().wrapping_add(at).cast_const(),
                Some(Arrived::Offered(offered)) => {
                    let place = if rank == 0 { target } else { scratch.pointer() };
                    copy_part(call, offered, at, length, place)?;
                    place.cast_const()
                }
                Some(Arrived::Done) => unreachable!("messages were not received into memory"),
            };
            if rank > 0 {
                // SAFETY: both have this length and are aligned; the target is neither the array's memory nor the scratch.
                unsafe { array.reducer.combine(target, source, length) };
            } else if !std::ptr::eq(source, target) {
                copy(Piece { start: source, length }, target);
            }
        }
        at += length;
    }
    for value in &values {
        if let Some(Arrived::Offered(offered)) = value {
            call.taken(offered)?;
        }
    }
    call.wait(&sent)
}

fn copy_part(
    call: &Call<'_, '_>,
    offered: &Offered,
    from: usize,
    length: usize,
    target: *mut u8,
) -> std::result::Result<(), Stop> {
    let pieces = crate::memory::slice(&offered.pieces, from, length);
    // SAFETY: there is room for the chunk at the target.
    unsafe { call.engine.copy_offered(offered, &pieces, target) }
}
