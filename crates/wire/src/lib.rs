//! Zero-copy encoding of Arrow record batches as metadata and buffers.
//!
//! Three forms share one encoding: a *page* in memory (a header, and buffers at any addresses), a *reference message* (the header, and
//! references to the buffers), and a *page image* on disk (an Arrow IPC file).
//!
//! [`encode`] splits a batch into a header and buffers, and [`decode`] reassembles it. [`image`] lays out a page as a file that any Arrow
//! reader opens, [`object`] makes a batch of a pickled object, [`message`] and [`frame`] define the messages of the protocol, and [`pickle`]
//! checks pickles before Python reads them.

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
mod values;

pub use decode::{Outline, Trust, columns_of, decode, decode_columns};
pub use encode::{encode, encode_batch};
pub use error::{Error, Result};
pub use header::MAX_HEADER;
pub use trim::Trim;

use arrow_buffer::Buffer;

/// An encoded record batch.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The schema and the structure of every message, in this crate's format; a store treats it as opaque.
    pub header: Vec<u8>,
    /// The buffers that the header refers to, in order. They share the memory of the caller's arrays wherever possible.
    pub buffers: Vec<Buffer>,
    /// Rows of the batch.
    pub rows: u64,
}
