//! The interface of a store, and its types.

use std::ops::Range;
use std::sync::Arc;

use craton_slab::{BufferRef, Extent};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ids::{PageId, SetId};

/// When a page is written to disk (Pangea's DurabilityType, extended by `Discard`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Durability {
    /// When it is evicted.
    #[default]
    WriteBack,
    /// When it is sealed; evicting it costs nothing.
    WriteThrough,
    /// Never: its maker can make it again, at the cost given when it was sealed.
    Discard,
}

/// How the pages of a set are written (Pangea's WritingPattern).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Writing {
    /// One writer writes page after page.
    #[default]
    Sequential,
    /// Several writers append to one page through small sub-pages.
    Concurrent,
    /// Pages are written at random, and repeatedly.
    RandomMutable,
}

/// How the pages of a set are read (Pangea's ReadingPattern).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Reading {
    /// From the first page to the last.
    #[default]
    Sequential,
    /// Pages are read at random.
    Random,
}

/// The current operation on a set (Pangea's CurrentOperation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Operation {
    /// None is declared.
    #[default]
    None,
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// It is read and written.
    ReadWrite,
}

/// The options of a new set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SetOptions {
    /// A name that is unique in the store. A named set lives as long as the store or until it is dropped; one without a name is dropped
    /// with its last use (see [`Home::retain_set`]).
    pub name: Option<String>,
    /// Identifies what the set is a copy of, such as a file's size and time, so that a user who finds the set by name can compare it.
    pub tag: Vec<u8>,
    /// When its pages are written.
    pub durability: Durability,
    /// How they are written.
    pub writing: Writing,
    /// How they are read.
    pub reading: Reading,
    /// Keep every page in memory.
    pub pinned: bool,
}

/// Changes of a set's attributes; `None` leaves an attribute as it is.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// How it is written.
    pub writing: Option<Writing>,
    /// How it is read.
    pub reading: Option<Reading>,
    /// The current operation on it.
    pub operation: Option<Operation>,
    /// Keep every page in memory.
    pub pinned: Option<bool>,
    /// `Some(true)`: it will not be read again; evict it first, and never write it.
    pub ended: Option<bool>,
}

/// Where a page's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Location {
    /// In memory only.
    Memory,
    /// On disk only.
    Disk,
    /// In memory and on disk.
    Both,
}

/// The metadata of a page, which is sent between processes instead of its bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataInfo {
    /// The page.
    pub page: PageId,
    /// Its key in the set, if it has one.
    pub key: Option<Vec<u8>>,
    /// Rows.
    pub rows: u64,
    /// Bytes of its buffers.
    pub bytes: u64,
    /// Where they are.
    pub location: Location,
    /// Bytes that its writer stored to describe its contents; opaque to the store.
    pub statistics: Vec<u8>,
}

/// The specification of a page that is to be sealed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PageSpec {
    /// Unique in its set, or none. Sealing a second page with a key returns the first and frees the second.
    pub key: Option<Vec<u8>>,
    /// The header of `craton_wire`.
    pub header: Vec<u8>,
    /// The buffers that the header describes, each within an extent allocated by this client or within memory of a live page.
    pub buffers: Vec<Reference>,
    /// Rows.
    pub rows: u64,
    /// Bytes that describe its contents; opaque to the store.
    pub statistics: Vec<u8>,
    /// Nanoseconds that making it again would take; 0 if unknown.
    pub rebuild: u64,
}

/// A reference to a buffer, in serializable form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reference {
    /// The segment.
    pub segment: u64,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl From<BufferRef> for Reference {
    fn from(place: BufferRef) -> Self {
        Self { segment: place.segment, offset: place.offset, length: place.length }
    }
}

/// A buffer of a pinned page: a range of an extent that lives as long as this value.
#[derive(Debug, Clone)]
pub struct PageBuffer {
    /// The memory.
    pub extent: Arc<Extent>,
    /// The part of it that is the buffer.
    pub range: Range<usize>,
}

impl PageBuffer {
    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.extent.as_slice()[self.range.clone()]
    }
}

/// A pinned page, which stays in memory while this value lives. A view of its buffers must keep a clone of the `Arc` around this value.
pub struct Pinned {
    /// Its metadata.
    pub info: DataInfo,
    /// The header of `craton_wire`.
    pub header: Arc<[u8]>,
    /// The buffers that the header describes.
    pub buffers: Arc<[PageBuffer]>,
    /// Runs when the value is dropped.
    pub unpin: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        drop(std::mem::take(&mut self.buffers));
        if let Some(unpin) = self.unpin.take() {
            unpin();
        }
    }
}

/// Memory that is reserved for other work, such as the kernel's, until this value is dropped.
pub struct Reservation {
    /// Bytes.
    pub bytes: u64,
    /// Runs when the value is dropped.
    pub release: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// A snapshot of a set's attributes and statistics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetInfo {
    /// The set.
    pub set: SetId,
    /// Its options, including later changes.
    pub options: SetOptions,
    /// The current operation on it.
    pub operation: Operation,
    /// Whether its lifetime has ended.
    pub ended: bool,
    /// Number of pages.
    pub pages: u64,
    /// Rows of all pages.
    pub rows: u64,
    /// Bytes of all pages.
    pub bytes: u64,
    /// Bytes of those in memory.
    pub memory: u64,
    /// Bytes of images on disk.
    pub disk: u64,
    /// Number of pinned pages.
    pub pins: u64,
    /// Number of uses that keep it alive.
    pub users: u64,
    /// The tick of the pool's clock when a page of it was last used.
    pub recency: u64,
    /// Pins that found the page in memory.
    pub hits: u64,
    /// Pins that had to read it.
    pub misses: u64,
}

/// The counters and gauges of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes of shared memory in extents.
    pub slab_used: u64,
    /// Bytes of address space of all segments.
    pub slab_reserved: u64,
    /// Bytes of pages in memory.
    pub page_memory: u64,
    /// Bytes of page images on disk.
    pub page_disk: u64,
    /// Bytes reserved for other work.
    pub reserved: u64,
    /// The limit.
    pub limit: u64,
    /// Sets.
    pub sets: u64,
    /// Pages.
    pub pages: u64,
    /// Pins that found the page in memory.
    pub hits: u64,
    /// Pins that had to read it.
    pub misses: u64,
    /// Pages evicted because their lifetime had ended.
    pub evicted_ended: u64,
    /// Pages evicted that were on disk already.
    pub evicted_clean: u64,
    /// Pages evicted after they were written.
    pub evicted_written: u64,
    /// Pages dropped because they can be made again.
    pub evicted_discarded: u64,
    /// Bytes written to disk.
    pub written: u64,
    /// Bytes read from disk.
    pub read: u64,
    /// Bytes of sealed pages that were copied into the store.
    pub copied: u64,
    /// Bytes of sealed pages that refer to memory of other pages.
    pub shared: u64,
    /// Bytes of sealed pages in memory that another process handed over to the store: neither copied nor memory of other pages.
    pub adopted: u64,
    /// Clients connected.
    pub clients: u64,
}

/// The interface of a store. All methods are thread-safe; none holds a lock while it waits for a disk or a peer.
pub trait Home: Send + Sync {
    /// Create a set with one use, which the caller owns.
    ///
    /// # Errors
    /// [`Exists`](crate::Error::Exists) when the name is taken.
    fn create_set(&self, options: SetOptions) -> Result<SetId>;
    /// The set of that name.
    ///
    /// # Errors
    /// When the connection to the store is lost, or the store is closed.
    fn find_set(&self, name: &str) -> Result<Option<SetId>>;
    /// Add a use of the set.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn retain_set(&self, set: SetId) -> Result<()>;
    /// Give a set without a name this name, in one step. It then lives until it is dropped, like one that was created with the name.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet); [`Exists`](crate::Error::Exists) when the name is taken; [`Invalid`](crate::Error::Invalid) when the set
    /// has a name.
    fn name_set(&self, set: SetId, name: &str) -> Result<()>;
    /// End a use of the set; a set without a name is dropped with its last use. No error if the set does not exist any more.
    fn release_set(&self, set: SetId);
    /// Change attributes.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn set_attributes(&self, set: SetId, attributes: Attributes) -> Result<()>;
    /// Drop the set and its pages. Pinned pages stay readable until they are unpinned.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn drop_set(&self, set: SetId) -> Result<()>;
    /// Allocate extents of these lengths, to be written and sealed; evicts pages if necessary. Dropping an extent frees it.
    ///
    /// # Errors
    /// [`Full`](crate::Error::Full), [`Quota`](crate::Error::Quota), [`NoSet`](crate::Error::NoSet).
    fn allocate(&self, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>>;
    /// Seal a page. `extents` are the extents from [`Home::allocate`] that the page refers to; the page owns them from now on. After this
    /// returns, the page survives the death of the process that wrote it.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid) when a buffer is neither in `extents` nor in memory of a live page; [`Io`](crate::Error::Io) when a
    /// write-through set cannot be written.
    fn seal(&self, set: SetId, spec: PageSpec, extents: Vec<Extent>) -> Result<DataInfo>;
    /// Pin a page; loads it if it is not in memory.
    ///
    /// # Errors
    /// [`NoPage`](crate::Error::NoPage), [`Corrupt`](crate::Error::Corrupt), [`Full`](crate::Error::Full).
    fn pin(&self, page: PageId) -> Result<Pinned>;
    /// Pin several pages together, and return them in the requested order. If one of them cannot be pinned, none stays pinned.
    ///
    /// # Errors
    /// Those of [`Home::pin`], for the first page that cannot be pinned.
    fn pin_many(&self, pages: &[PageId]) -> Result<Vec<Pinned>> {
        pages.iter().map(|page| self.pin(*page)).collect()
    }
    /// Load these pages in the background, as far as memory is available without displacing pages that are worth more.
    fn prefetch(&self, pages: &[PageId]);
    /// The pages of a set, by number.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn pages(&self, set: SetId) -> Result<Vec<DataInfo>>;
    /// The page with each of these keys in a set; `None` for a key without a page.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn find_pages(&self, set: SetId, keys: &[Vec<u8>]) -> Result<Vec<Option<DataInfo>>>;
    /// Drop a page.
    ///
    /// # Errors
    /// [`NoPage`](crate::Error::NoPage).
    fn drop_page(&self, page: PageId) -> Result<()>;
    /// Reserve up to `bytes`, at least `least`, for other work; evicts pages if necessary.
    ///
    /// # Errors
    /// [`Full`](crate::Error::Full).
    fn reserve(&self, least: u64, bytes: u64) -> Result<Reservation>;
    /// Describe all sets.
    ///
    /// # Errors
    /// When the connection to the store is lost, or the store is closed.
    fn describe(&self) -> Result<Vec<SetInfo>>;
    /// The current counters and gauges.
    ///
    /// # Errors
    /// When the connection to the store is lost, or the store is closed.
    fn counters(&self) -> Result<Counters>;
}
