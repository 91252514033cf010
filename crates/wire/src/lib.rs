//! Arrow record batches as metadata and buffers, without a byte of a buffer being copied.
//!
//! Three forms share one encoding: a *page* in memory (a header, and buffers that lie anywhere), a *reference message* (the header, and the
//! buffers' references), and a *page image* on disk (an Arrow IPC file).
//!
//! [`encode`] takes a batch apart and [`decode`] puts it together. [`image`] lays a page out as a file that any Arrow reader opens,
//! [`object`] makes a batch of an object's bytes, [`message`] and [`frame`] are what is sent. [`pickle`] looks into pickles before Python reads
//! them.

mod batch;
mod decode;
mod encode;
mod error;
pub mod frame;
mod header;
pub mod image;
pub mod message;
pub mod object;
pub mod pickle;
mod schema;
mod trim;

pub use decode::{Outline, Trust, columns_of, decode, decode_columns};
pub use encode::{Trim, encode, encode_batch};
pub use error::{Error, Result};
pub use header::MAX_HEADER;

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
