//! The pages of a buffer: allocates open pages within its memory, seals them as partial results, and reads these.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_buffer::alloc::Allocation;
use craton_wire::{Trim, Trust};

use super::super::Use;
use super::layout::{Form, Layout};
use super::table::{HashPage, Open};
use crate::api::{Attributes, Home, Operation, PageSpec, Pinned, Reading, SetOptions, Writing};
use crate::error::{Error, Result};
use crate::ids::{PageId, SetId};

/// The least size of a page in bytes.
pub(super) const SMALLEST: usize = 4 << 10;

/// From this many bytes on, the memory of a page is mapped by one system call, not by a page fault for every 4 KiB.
const PREFAULT: usize = 64 << 10;

/// The least share of a root partition in the memory, in pages of full size.
pub(super) const LEAST_PAGES: u64 = 4;

/// A sealed page with partial results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partial {
    pub(super) page: PageId,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// The pages of a buffer.
pub(super) struct Pages {
    pub(super) form: Form,
    using: Use,
    // The most bytes of open pages, and among how many root partitions they are divided.
    memory: AtomicU64,
    sharers: AtomicU64,
    // The full size of a page.
    full: AtomicUsize,
    sealed: AtomicU64,
}

impl Pages {
    pub(super) fn new(home: &Arc<dyn Home>, form: Form, memory: u64, sharers: u64, full: usize) -> Result<Self> {
        let options = SetOptions { writing: Writing::RandomMutable, reading: Reading::Random, ..SetOptions::default() };
        let set = home.create_set(options)?;
        let using = Use::begin(home, set, true, Attributes::default()).inspect_err(|_| home.release_set(set))?;
        Ok(Self {
            form,
            using,
            memory: AtomicU64::new(memory),
            sharers: AtomicU64::new(sharers),
            full: AtomicUsize::new(full),
            sealed: AtomicU64::new(0),
        })
    }

    /// The set of the sealed pages.
    pub(super) fn set(&self) -> SetId {
        self.using.set
    }

    /// The most bytes of open pages of one root partition.
    pub(super) fn share(&self) -> u64 {
        self.memory.load(Ordering::Relaxed) / self.sharers.load(Ordering::Relaxed)
    }

    /// Divide the memory among so many root partitions from now on.
    pub(super) fn divide(&self, sharers: u64) {
        self.sharers.store(sharers.max(1), Ordering::Relaxed);
    }

    /// How many pages were sealed.
    pub(super) fn sealed(&self) -> u64 {
        self.sealed.load(Ordering::Relaxed)
    }

    /// The size of a page that is not enlarged any more.
    pub(super) fn full(&self) -> usize {
        self.full.load(Ordering::Relaxed)
    }

    /// Use less memory and smaller pages from now on; returns false if they have the least size already.
    pub(super) fn shrink(&self) -> bool {
        let (share, full) = (self.share(), self.full());
        let least = LEAST_PAGES * SMALLEST as u64;
        if share > least {
            self.memory.store((share / 2).max(least) * self.sharers.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let most = usize::try_from(self.share() / LEAST_PAGES).unwrap_or(usize::MAX).max(SMALLEST);
        self.full.store(full.min(most), Ordering::Relaxed);
        share > least || full > most
    }

    /// Declare that the pages are only read from now on.
    pub(super) fn read_only(&self) {
        let attributes = Attributes { operation: Some(Operation::Read), ..Attributes::default() };
        // An error means that the store was closed, which reading reports.
        let _ = self.using.home.set_attributes(self.using.set, attributes);
    }

    /// Allocate an open page of about `bytes` for keys with `long` bytes outside of their views on average, one of them of `least` bytes.
    /// Its bytes are added to `open` as long as it lives.
    pub(super) fn allocate(&self, bytes: usize, long: f64, least: usize, open: &Arc<AtomicU64>) -> Result<HashPage> {
        let mut bytes = bytes.max(SMALLEST).next_multiple_of(64);
        let layout = loop {
            match Layout::new(&self.form, bytes, long, least) {
                Some(layout) => break layout,
                None => bytes = (bytes * 2).max(least * 2).next_multiple_of(64),
            }
        };
        let open = Open::new(open, layout.bytes as u64);
        let mut extents = self.using.home.allocate(self.using.set, &[layout.bytes])?;
        let extent = extents.pop().ok_or_else(|| Error::Invalid("the store returned no extent".into()))?;
        if layout.bytes >= PREFAULT {
            // An error means that there is no memory, which writing would find too.
            let _ = extent.prefault();
        }
        HashPage::new(extent, layout, open)
    }

    /// Seal a page.
    pub(super) fn seal(&self, page: HashPage) -> Result<Partial> {
        let rows = page.len() as u64;
        let (batch, held) = page.into_batch(&self.form)?;
        let encoded =
            craton_wire::encode_batch(&batch, Trim::Never).map_err(|error| Error::Invalid(error.to_string()))?;
        drop(batch);
        let references = encoded.buffers.iter().map(|buffer| held.reference(buffer)).collect::<Result<Vec<_>>>()?;
        drop(encoded.buffers);
        let held = Arc::into_inner(held).ok_or_else(|| Error::Invalid("the arrays of a page are in use".into()))?;
        let spec = PageSpec { header: encoded.header, buffers: references, rows, ..PageSpec::default() };
        let info = self.using.home.seal(self.using.set, spec, vec![held.extent])?;
        self.sealed.fetch_add(1, Ordering::Relaxed);
        Ok(Partial { page: info.page, rows, bytes: info.bytes })
    }

    /// Read a sealed page.
    pub(super) fn read(&self, partial: &Partial) -> Result<RecordBatch> {
        let pinned = Arc::new(self.using.home.pin(partial.page)?);
        let buffers: Vec<Buffer> = pinned
            .buffers
            .iter()
            .map(|part| {
                let bytes = part.as_slice();
                let Some(start) = NonNull::new(bytes.as_ptr().cast_mut()).filter(|_| !bytes.is_empty()) else {
                    return Buffer::from_vec(Vec::<u8>::new());
                };
                let owner: Arc<dyn Allocation> = Arc::new(Kept { _pinned: Arc::clone(&pinned) });
                // SAFETY: the page is readable as long as it is pinned, and sealed pages are never written to.
                unsafe { Buffer::from_custom_allocation(start, bytes.len(), owner) }
            })
            .collect();
        craton_wire::decode(&pinned.header, &buffers, Trust::Own).map_err(|error| Error::Invalid(error.to_string()))
    }

    /// Load sealed pages in the background.
    pub(super) fn prefetch(&self, partials: &[Partial]) {
        if partials.is_empty() {
            return;
        }
        let pages: Vec<PageId> = partials.iter().map(|partial| partial.page).collect();
        self.using.home.prefetch(&pages);
    }

    /// Drop a sealed page.
    pub(super) fn drop_page(&self, partial: &Partial) {
        // An error means that the set was dropped.
        let _ = self.using.home.drop_page(partial.page);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.using.home.release_set(self.using.set);
    }
}

/// A pinned page that arrays refer to.
struct Kept {
    _pinned: Arc<Pinned>,
}

impl std::panic::RefUnwindSafe for Kept {}

/// Whether the store or the client has too little memory.
pub(super) fn is_full(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::Quota { .. })
}
