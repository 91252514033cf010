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
use super::table::{HashPage, Held, Open};
use crate::api::{Attributes, Home, Operation, PageSpec, Pinned, Reading, Reference, SetOptions, Writing};
use crate::error::{Error, Result};
use crate::ids::{PageId, SetId};

/// The least size of a page in bytes.
pub(super) const SMALLEST: usize = 4 << 10;

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
    // The most bytes of open pages.
    memory: u64,
    open: Arc<AtomicU64>,
    // The full size of a page.
    full: AtomicUsize,
    sealed: AtomicU64,
}

impl Pages {
    pub(super) fn new(home: &Arc<dyn Home>, form: Form, memory: u64, full: usize) -> Result<Self> {
        let options = SetOptions { writing: Writing::RandomMutable, reading: Reading::Random, ..SetOptions::default() };
        let set = home.create_set(options)?;
        let using = Use::begin(home, set, true, Attributes::default()).inspect_err(|_| home.release_set(set))?;
        let open = Arc::new(AtomicU64::new(0));
        Ok(Self { form, using, memory, open, full: AtomicUsize::new(full), sealed: AtomicU64::new(0) })
    }

    /// The set of the sealed pages.
    pub(super) fn set(&self) -> SetId {
        self.using.set
    }

    /// The most bytes of open pages.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// The bytes of open pages.
    pub(super) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// How many pages were sealed.
    pub(super) fn sealed(&self) -> u64 {
        self.sealed.load(Ordering::Relaxed)
    }

    /// The size of a page that is not enlarged any more.
    pub(super) fn full(&self) -> usize {
        self.full.load(Ordering::Relaxed)
    }

    /// Halve the size of later pages; returns false if they have the least size already.
    pub(super) fn shrink(&self) -> bool {
        let full = self.full();
        self.full.store((full / 2).max(SMALLEST).min(full), Ordering::Relaxed);
        full > SMALLEST
    }

    /// Declare that the pages are only read from now on.
    pub(super) fn read_only(&self) {
        let attributes = Attributes { operation: Some(Operation::Read), ..Attributes::default() };
        // An error means that the store was closed, which reading reports.
        let _ = self.using.home.set_attributes(self.using.set, attributes);
    }

    /// Whether open pages of `bytes` more are within the buffer's memory.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.open() + bytes as u64 <= self.memory
    }

    /// Allocate an open page of about `bytes` for keys with `long` bytes outside of their views on average, one of them of `least` bytes.
    pub(super) fn allocate(&self, bytes: usize, long: f64, least: usize) -> Result<HashPage> {
        let mut bytes = bytes.max(SMALLEST).next_multiple_of(64);
        let layout = loop {
            match Layout::new(&self.form, bytes, long, least) {
                Some(layout) => break layout,
                None => bytes = (bytes * 2).max(least * 2).next_multiple_of(64),
            }
        };
        let open = Open::new(&self.open, layout.bytes as u64);
        let mut extents = self.using.home.allocate(self.using.set, &[layout.bytes])?;
        let extent = extents.pop().ok_or_else(|| Error::Invalid("the store returned no extent".into()))?;
        HashPage::new(extent, layout, open)
    }

    /// Seal a page.
    pub(super) fn seal(&self, page: HashPage) -> Result<Partial> {
        let rows = page.len() as u64;
        let (batch, held) = page.into_batch(&self.form)?;
        let encoded =
            craton_wire::encode_batch(&batch, Trim::Never).map_err(|error| Error::Invalid(error.to_string()))?;
        drop(batch);
        let references = encoded.buffers.iter().map(|buffer| reference(&held, buffer)).collect::<Result<Vec<_>>>()?;
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

fn reference(held: &Held, buffer: &Buffer) -> Result<Reference> {
    if buffer.is_empty() {
        return Ok(Reference { segment: 0, offset: 0, length: 0 });
    }
    let offset = buffer.as_ptr().addr().checked_sub(held.extent.as_ptr().addr());
    let offset = offset.filter(|offset| offset + buffer.len() <= held.extent.len());
    let whole = held.extent.reference();
    match offset {
        Some(offset) => {
            Ok(Reference { segment: whole.segment, offset: whole.offset + offset as u64, length: buffer.len() as u64 })
        }
        None => Err(Error::Invalid("a buffer of a page is outside the page".into())),
    }
}

/// Whether the store or the client has too little memory.
pub(super) fn is_full(error: &Error) -> bool {
    matches!(error, Error::Full { .. } | Error::Quota { .. })
}
