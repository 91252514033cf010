//! The groups of a hash buffer, one record batch after another.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use rayon::prelude::*;

use super::buffer::HashBuffer;
use super::keys::NULL_KEY;
use crate::error::{Error, Result};

/// The most partitions whose partial results are combined at a time.
const TOGETHER: usize = 4;

/// The groups of a buffer, in any order: batches with the keys as binary views in the first column, and a column for each aggregate.
///
/// Batches of a buffer that was larger than its memory, and those of a buffer that is still used, are copies. Others refer to the memory of
/// the store as long as they live.
pub struct HashGroups {
    buffer: Arc<HashBuffer>,
    // The partitions that have more groups, and the position in each.
    left: VecDeque<(usize, u64)>,
    ready: VecDeque<RecordBatch>,
    take: bool,
    copy: bool,
    failed: Option<Error>,
}

impl HashGroups {
    /// Take the groups out of a buffer, which takes no more rows.
    ///
    /// # Errors
    /// As for [`HashBuffer::add`].
    pub fn take(buffer: Arc<HashBuffer>) -> Result<Self> {
        let copy = buffer.finish(together())?;
        Ok(Self { copy, ..Self::of(buffer, true) })
    }

    /// Copies of the groups of a buffer. Groups that are added, changed or removed meanwhile may or may not be in it.
    ///
    /// # Errors
    /// As for [`HashBuffer::add`].
    pub fn copy(buffer: Arc<HashBuffer>) -> Result<Self> {
        buffer.check_open()?;
        Ok(Self::of(buffer, false))
    }

    fn of(buffer: Arc<HashBuffer>, take: bool) -> Self {
        let left = (0..buffer.root_count()).map(|root| (root, 0)).collect();
        Self { buffer, left, ready: VecDeque::new(), take, copy: false, failed: None }
    }

    /// The next groups; `None` at the end.
    ///
    /// # Errors
    /// As for [`HashBuffer::add`]; the error is repeated by later calls, because groups are missing.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        while self.ready.is_empty() && !self.left.is_empty() {
            if let Err(error) = self.refill() {
                self.failed = Some(error.clone());
                return Err(error);
            }
        }
        Ok(self.ready.pop_front())
    }

    fn refill(&mut self) -> Result<()> {
        let count = self.left.len().min(if self.copy { together() } else { 1 });
        let mut some: Vec<(usize, u64)> = self.left.drain(..count).collect();
        let (buffer, take) = (&self.buffer, self.take);
        let next = |(root, position): &mut (usize, u64)| buffer.next_of(*root, position, take);
        let found: Vec<Result<Option<RecordBatch>>> =
            if count == 1 { some.iter_mut().map(next).collect() } else { some.par_iter_mut().map(next).collect() };
        for (place, batch) in some.into_iter().zip(found).rev() {
            if let Some(batch) = batch? {
                self.ready.push_front(finished(batch, self.copy)?);
                self.left.push_front(place);
            }
        }
        Ok(())
    }
}

/// How many root partitions are taken at a time if there are partial results.
fn together() -> usize {
    rayon::current_num_threads().clamp(1, TOGETHER)
}

/// A batch whose null key is null, and with memory of its own if `copy`.
fn finished(batch: RecordBatch, copy: bool) -> Result<RecordBatch> {
    let keys = batch.column(0).as_binary_view();
    let is_null = keys.views().iter().position(|view| *view == NULL_KEY);
    if is_null.is_none() && !copy {
        return Ok(batch);
    }
    let mut views = keys.views().to_vec();
    let nulls = is_null.map(|null| {
        views[null] = 0;
        NullBuffer::new(BooleanBuffer::collect_bool(views.len(), |row| row != null))
    });
    let buffers: Vec<Buffer> = match copy {
        true => keys.data_buffers().iter().map(|buffer| Buffer::from(buffer.as_slice())).collect(),
        false => keys.data_buffers().to_vec(),
    };
    // SAFETY: the views refer to the same bytes as before.
    let keys = unsafe { BinaryViewArray::new_unchecked(views.into(), buffers.into(), nulls) };
    let mut columns: Vec<ArrayRef> = vec![Arc::new(keys)];
    columns.extend(batch.columns()[1..].iter().map(|column| if copy { copied(column) } else { Arc::clone(column) }));
    RecordBatch::try_new(batch.schema(), columns).map_err(|error| Error::Invalid(error.to_string()))
}

/// A copy of an array of numbers.
fn copied(array: &ArrayRef) -> ArrayRef {
    let data = array.to_data();
    let nulls = data.nulls().map(|nulls| NullBuffer::new(nulls.inner().iter().collect::<BooleanBuffer>()));
    let values = data.buffers().iter().map(|buffer| Buffer::from(buffer.as_slice())).collect();
    let builder = data.into_builder().nulls(nulls).buffers(values);
    // SAFETY: the buffers have the same contents as before.
    make_array(unsafe { builder.build_unchecked() })
}
