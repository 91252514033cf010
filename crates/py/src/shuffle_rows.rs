//! Types shared by the two ways to shuffle rows into sets: keys, pieces of tables, and errors.

use std::panic::RefUnwindSafe;

use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use craton_shuffle::{MemoryError, Ranges, Route};
use craton_slab::Extent;
use craton_store::{Error, Reference};
use pyo3::PyErr;

use crate::errors::{shuffle_error, store_error};

/// Batches of at most this many rows are not divided further when memory is short.
pub const FEWEST_ROWS: usize = 1024;

/// Rows that are sampled to estimate the bytes of strings.
const SAMPLE: usize = 1024;

/// The reasons why a writer refuses rows.
pub const FINISHED: &str = "it is finished";
pub const ABANDONED: &str = "it was abandoned";
pub const FAILED: &str = "rows were lost when it failed before";

/// How a row's partition is determined.
#[derive(Clone)]
pub enum Kind {
    /// By the hash with this seed.
    Hash(u64),
    Ranges(std::sync::Arc<Ranges>),
}

/// How a row's partition is determined, and the positions of the key columns.
#[derive(Clone)]
pub struct Key {
    pub kind: Kind,
    pub columns: Vec<usize>,
}

impl Key {
    pub fn route(&self) -> Route<'_> {
        match &self.kind {
            Kind::Hash(seed) => Route::Hash { columns: self.columns.clone(), seed: *seed },
            Kind::Ranges(ranges) => Route::Ranges { columns: self.columns.clone(), ranges },
        }
    }
}

/// An error of the store or of partitioning.
pub enum Failure {
    Store(Error),
    Shuffle(craton_shuffle::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

pub fn raise_failure(failure: Failure) -> PyErr {
    match failure {
        Failure::Store(error) => store_error(error),
        Failure::Shuffle(craton_shuffle::Error::Memory { bytes, source }) => match source.downcast::<Error>() {
            Ok(error) => store_error(*error),
            Err(source) => shuffle_error(craton_shuffle::Error::Memory { bytes, source }),
        },
        Failure::Shuffle(error) => shuffle_error(error),
    }
}

/// Whether an error of a store means that it has too little memory.
pub fn full(error: &MemoryError) -> bool {
    matches!(error.downcast_ref(), Some(Error::Full { .. } | Error::Quota { .. }))
}

/// Fail if the writer refuses rows.
pub fn open(closed: Option<&'static str>) -> Result<(), Failure> {
    match closed {
        None => Ok(()),
        Some(why) => Err(Error::Invalid(format!("the writer takes no rows: {why}")).into()),
    }
}

/// An extent that rows are written to.
pub struct Held {
    pub extent: Extent,
}

impl RefUnwindSafe for Held {}

impl Held {
    /// A reference to the buffer; `None` if it is not in the extent.
    pub fn find(&self, buffer: &Buffer) -> Option<Reference> {
        let offset = buffer.as_ptr().addr().checked_sub(self.extent.as_ptr().addr())?;
        let inside = offset.checked_add(buffer.len())? <= self.extent.len();
        let whole = self.extent.reference();
        inside.then(|| Reference {
            segment: whole.segment,
            offset: whole.offset + offset as u64,
            length: buffer.len() as u64,
        })
    }
}

pub fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// The first and the second half of the rows.
pub fn halves(batches: Vec<RecordBatch>) -> (Vec<RecordBatch>, Vec<RecordBatch>) {
    let mut left = rows(&batches) / 2;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for batch in batches {
        let take = left.min(batch.num_rows());
        left -= take;
        first.push(batch.slice(0, take));
        second.push(batch.slice(take, batch.num_rows() - take));
    }
    (first, second)
}

/// Rows, and an estimate of their bytes.
pub struct Piece {
    pub batch: RecordBatch,
    pub bytes: u64,
}

/// Cut batches so that none has many more than `most` bytes.
pub fn pieces(batches: Vec<RecordBatch>, most: u64) -> impl Iterator<Item = Piece> {
    batches.into_iter().flat_map(move |batch| {
        let rows = batch.num_rows();
        let row_bytes = (bytes_of(&batch) / rows.max(1) as u64).max(1);
        let each = usize::try_from(most / row_bytes).unwrap_or(usize::MAX).max(1);
        // Pieces of equal size, so that no small one is left at the end.
        let each = rows.div_ceil(rows.div_ceil(each).max(1)).max(1);
        (0..rows).step_by(each).map(move |start| {
            let take = each.min(rows - start);
            Piece { batch: batch.slice(start, take), bytes: row_bytes * take as u64 }
        })
    })
}

/// An estimate of the bytes of a batch's rows.
fn bytes_of(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|column| bytes_of_array(column.as_ref())).sum()
}

fn bytes_of_array(array: &dyn Array) -> u64 {
    let data = array.to_data();
    let fixed = data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()) as u64;
    if !matches!(data.data_type(), DataType::Utf8View | DataType::BinaryView) {
        return fixed;
    }
    // Strings of at most 12 bytes are in the views themselves. The bytes of longer ones are estimated from a sample.
    let Some(views) = data.buffers().first() else { return fixed };
    let views = &views.typed_data::<u128>()[data.offset()..data.offset() + data.len()];
    let step = (views.len() / SAMPLE).max(1);
    let long = views.iter().step_by(step).map(|view| *view as u32).filter(|length| *length > 12).map(u64::from);
    (views.len() * 16) as u64 + long.sum::<u64>() * step as u64
}
