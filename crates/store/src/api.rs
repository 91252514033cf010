//! What a store can do, and the words for it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use craton_slab::{BufferRef, Extent};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// A locality set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SetId(pub u64);

/// A page: the `number`-th that was sealed in its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PageId {
    /// Its set.
    pub set: SetId,
    /// Its number in the set, from 0; never used again.
    pub number: u32,
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.set, self.number)
    }
}

/// When a page is written to disk (Pangea's DurabilityType, and one that it has not).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Durability {
    /// When it is evicted.
    #[default]
    WriteBack,
    /// When it is sealed; evicting it costs nothing.
    WriteThrough,
    /// Never: whoever made it can make it again, at the cost that it was sealed with.
    Discard,
}

/// How the pages of a set are written (Pangea's WritingPattern).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Writing {
    /// One writer a page, page after page.
    #[default]
    Sequential,
    /// Several writers append to one page through small sub-pages.
    Concurrent,
    /// Written anywhere, many times.
    RandomMutable,
}

/// How the pages of a set are read (Pangea's ReadingPattern).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Reading {
    /// From the first to the last.
    #[default]
    Sequential,
    /// Anywhere.
    Random,
}

/// What is being done with a set now (Pangea's CurrentOperation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Operation {
    /// Nothing.
    #[default]
    None,
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// Both.
    ReadWrite,
}

/// What a set is made with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SetOptions {
    /// A name that is unique in the store. A named set lives as long as the store or until it is dropped; one without a name is dropped
    /// when its last user (see [`Home::retain_set`]) has gone.
    pub name: Option<String>,
    /// What the set is a copy of, such as a file's size and time: whoever finds a set by name compares it.
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

/// What may be changed of a set later; `None` leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// How it is written.
    pub writing: Option<Writing>,
    /// How it is read.
    pub reading: Option<Reading>,
    /// What is being done with it.
    pub operation: Option<Operation>,
    /// Keep every page in memory.
    pub pinned: Option<bool>,
    /// `Some(true)`: nobody will read it again, evict it first and never write it.
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

/// What travels instead of a page.
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
    /// What its maker knows of its contents; opaque here.
    pub statistics: Vec<u8>,
}

/// What a page consists of when it is sealed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PageSpec {
    /// Unique in its set, or none. Sealing a second page with a key returns the first and frees the second.
    pub key: Option<Vec<u8>>,
    /// The header of `craton_wire`.
    pub header: Vec<u8>,
    /// The buffers that the header speaks of, each within an extent that is granted to this client or within a live page's.
    pub buffers: Vec<Reference>,
    /// Rows.
    pub rows: u64,
    /// What its maker knows of its contents.
    pub statistics: Vec<u8>,
    /// Nanoseconds that making it again would take; 0 when it is not known.
    pub rebuild: u64,
}

/// A buffer's place, in a form that is sent.
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

/// A page that stays in memory while this value lives. Whoever hands out its buffers hands out a clone of the `Arc` around it.
pub struct Pinned {
    /// What it is.
    pub info: DataInfo,
    /// The header of `craton_wire`.
    pub header: Arc<[u8]>,
    /// The buffers that the header speaks of.
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

/// Memory that is kept free of pages for somebody else, such as the kernel, until this value is dropped.
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

/// A set as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetInfo {
    /// The set.
    pub set: SetId,
    /// What it was made with, and what was changed since.
    pub options: SetOptions,
    /// What is being done with it.
    pub operation: Operation,
    /// Whether its lifetime has ended.
    pub ended: bool,
    /// Pages.
    pub pages: u64,
    /// Rows of all pages.
    pub rows: u64,
    /// Bytes of all pages.
    pub bytes: u64,
    /// Bytes of those in memory.
    pub memory: u64,
    /// Bytes of images on disk.
    pub disk: u64,
    /// Pages that are pinned.
    pub pins: u64,
    /// Users that keep it alive.
    pub users: u64,
    /// The tick of the pool's clock when a page of it was last used.
    pub recency: u64,
    /// Pins that found the page in memory.
    pub hits: u64,
    /// Pins that had to read it.
    pub misses: u64,
}

/// What has been counted since the store was opened.
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
    /// Bytes reserved for others.
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
    /// Bytes copied into the store by those who sealed pages.
    pub copied: u64,
    /// Bytes of sealed pages that were references to pages there.
    pub shared: u64,
    /// Clients connected.
    pub clients: u64,
}

/// What a store can do. Every method may be called by any thread; none holds a lock while it waits for a disk or a peer.
pub trait Home: Send + Sync {
    /// Make a set; its maker is its first user.
    ///
    /// # Errors
    /// [`Exists`](crate::Error::Exists) when the name is taken.
    fn create_set(&self, options: SetOptions) -> Result<SetId>;
    /// The set of that name.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn find_set(&self, name: &str) -> Result<Option<SetId>>;
    /// Become a user of the set.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn retain_set(&self, set: SetId) -> Result<()>;
    /// Be no user any more; a set without a name goes with its last user. A set that is gone is no error.
    fn release_set(&self, set: SetId);
    /// Change attributes.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn set_attributes(&self, set: SetId, attributes: Attributes) -> Result<()>;
    /// Drop the set and its pages. Pages that are pinned stay readable for those who pinned them.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn drop_set(&self, set: SetId) -> Result<()>;
    /// Extents of these lengths, to be written and sealed; evicts what it must. Dropping one gives it back.
    ///
    /// # Errors
    /// [`Full`](crate::Error::Full), [`Quota`](crate::Error::Quota), [`NoSet`](crate::Error::NoSet).
    fn allocate(&self, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>>;
    /// Make a page of what was written: `extents` are those of [`Home::allocate`] that the page refers to; it owns them from now on. After
    /// this returns, the page is not lost by the death of its maker.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid) when a buffer lies neither in `extents` nor in a live page; what writing through meets.
    fn seal(&self, set: SetId, spec: PageSpec, extents: Vec<Extent>) -> Result<DataInfo>;
    /// The page, in memory; reads it when it is not.
    ///
    /// # Errors
    /// [`NoPage`](crate::Error::NoPage), [`Corrupt`](crate::Error::Corrupt), [`Full`](crate::Error::Full).
    fn pin(&self, page: PageId) -> Result<Pinned>;
    /// The pages, in memory together, in the order that they are asked for. When one of them cannot be had, none stays pinned.
    ///
    /// # Errors
    /// Those of [`Home::pin`], for the first page that cannot be had.
    fn pin_many(&self, pages: &[PageId]) -> Result<Vec<Pinned>> {
        pages.iter().map(|page| self.pin(*page)).collect()
    }
    /// Read these pages soon, in the background, as far as there is room without harm to others.
    fn prefetch(&self, pages: &[PageId]);
    /// The pages of a set, by number.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn pages(&self, set: SetId) -> Result<Vec<DataInfo>>;
    /// The pages of a set with these keys; `None` for a key that no page has.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    fn find_pages(&self, set: SetId, keys: &[Vec<u8>]) -> Result<Vec<Option<DataInfo>>>;
    /// Drop a page.
    ///
    /// # Errors
    /// [`NoPage`](crate::Error::NoPage).
    fn drop_page(&self, page: PageId) -> Result<()>;
    /// Keep `bytes` free for somebody else. Evicts what it must; gives at least `least`, or fails.
    ///
    /// # Errors
    /// [`Full`](crate::Error::Full).
    fn reserve(&self, least: u64, bytes: u64) -> Result<Reservation>;
    /// All sets.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn describe(&self) -> Result<Vec<SetInfo>>;
    /// What was counted.
    ///
    /// # Errors
    /// When the store cannot be asked.
    fn counters(&self) -> Result<Counters>;
}
