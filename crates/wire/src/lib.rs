//! Arrow record batches as metadata and buffers, without a byte of a buffer being copied.
//!
//! Three forms share one encoding: a *page* in memory (a header, and buffers that lie anywhere), a *reference message* (the header, and the
//! buffers' references), and a *page image* on disk (an Arrow IPC file).

mod error;

pub use error::{Error, Result};

use arrow_buffer::Buffer;

/// A record batch taken apart.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The schema and the structure of every message, in this crate's format: opaque to whoever stores it.
    pub header: Vec<u8>,
    /// What the header's structure points to, in order. Those that the caller's arrays had are the same memory.
    pub buffers: Vec<Buffer>,
    /// Rows of the batch.
    pub rows: u64,
}
