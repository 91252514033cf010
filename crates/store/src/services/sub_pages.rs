//! One page, many writers: each appends to a small part of it, so that all data of a partition lies in few large pages.

use std::ops::Range;
use std::sync::Arc;

use craton_slab::{ALIGNMENT, Extent};
use parking_lot::Mutex;

use super::Use;
use crate::api::{Attributes, DataInfo, Home, PageSpec, Reference, SetId, Writing};
use crate::error::{Error, Result};

/// What was written to one sub-page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where it is.
    pub place: Reference,
    /// Rows, or whatever the writer counts as such.
    pub rows: u64,
}

type Describe = Box<dyn Fn(&[Part]) -> Result<PageSpec> + Send + Sync>;

/// The shared end of a set that many threads append to.
///
/// Memory comes in pages; a writer takes a sub-page of the open one at a time, and fills it without a lock. A page is sealed by whoever
/// finishes the last of its sub-pages, once all of them were given out.
pub struct SubPages {
    using: Use,
    page_bytes: usize,
    sub_bytes: usize,
    describe: Describe,
    state: Mutex<State>,
    // Held by the one who gets the next page from the store, so that the others wait for that one instead of getting their own.
    refill: Mutex<()>,
}

#[derive(Default)]
struct State {
    open: Option<Arc<Page>>,
    sealed: Vec<DataInfo>,
}

struct Page {
    // Where the extent's bytes are; they are written through this while the extent is held below.
    base: *mut u8,
    state: Mutex<PageState>,
}

struct PageState {
    extent: Option<Extent>,
    // The start of what was not given out.
    next: usize,
    // Where each sub-page begins, and bytes and rows that were written to it; in the order in which they were given out.
    parts: Vec<(usize, usize, u64)>,
    // Sub-pages that are being written.
    writing: usize,
    // No more is given out.
    closed: bool,
}

// SAFETY: `base` points into the extent that `state` holds, and each byte is written by the one writer that its sub-page was given to; nobody
// reads any before the page is sealed, which the lock around `state` orders after all writes.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

/// A piece of a page that one writer fills.
struct SubPage {
    page: Arc<Page>,
    range: Range<usize>,
    filled: usize,
    rows: u64,
    index: usize,
}

impl SubPages {
    /// Pages of `page_bytes` bytes for that set, given out in pieces of `sub_bytes` bytes. `describe` says of what was written to the sub-pages of
    /// a page, in the order in which they were given out, what page that makes.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a sub-page is empty or larger than a page; [`NoSet`](Error::NoSet).
    pub fn new(
        home: &Arc<dyn Home>,
        set: SetId,
        page_bytes: usize,
        sub_bytes: usize,
        describe: impl Fn(&[Part]) -> Result<PageSpec> + Send + Sync + 'static,
    ) -> Result<Self> {
        if sub_bytes == 0 || sub_bytes > page_bytes {
            return Err(Error::Invalid(format!("sub-pages of {sub_bytes} bytes in pages of {page_bytes} bytes")));
        }
        let attributes = Attributes { writing: Some(Writing::Concurrent), ..Attributes::default() };
        let using = Use::begin(home, set, true, attributes)?;
        let sub_bytes = sub_bytes.next_multiple_of(ALIGNMENT).min(page_bytes);
        Ok(Self {
            using,
            page_bytes,
            sub_bytes,
            describe: Box::new(describe),
            state: Mutex::default(),
            refill: Mutex::default(),
        })
    }

    /// A writer; each thread has its own.
    #[must_use]
    pub fn writer(self: &Arc<Self>) -> SubPageWriter {
        SubPageWriter { pages: Arc::clone(self), sub: None }
    }

    /// Seal the open page. All writers have to be finished.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a writer is not finished; those of [`Home::seal`].
    pub fn finish(&self) -> Result<Vec<DataInfo>> {
        let open = self.state.lock().open.take();
        if let Some(page) = open {
            let mut state = page.state.lock();
            state.closed = true;
            if state.writing > 0 {
                return Err(Error::Invalid(format!("{} writers of the set are not finished", state.writing)));
            }
            drop(state);
            self.seal(&page)?;
        }
        Ok(std::mem::take(&mut self.state.lock().sealed))
    }

    /// A sub-page with room for at least `least` bytes.
    fn take(&self, least: usize) -> Result<SubPage> {
        if least > self.page_bytes {
            return Err(Error::Invalid(format!("{least} bytes in one piece, in pages of {} bytes", self.page_bytes)));
        }
        loop {
            let open = self.state.lock().open.clone();
            if let Some(page) = open {
                if let Some(sub) = self.grant(&page, least) {
                    return Ok(sub);
                }
                self.retire(&page)?;
                continue;
            }
            let _refill = self.refill.lock();
            if self.state.lock().open.is_some() {
                continue;
            }
            let mut extents = self.using.home.allocate(self.using.set, &[self.page_bytes])?;
            let mut extent = extents.pop().ok_or_else(|| Error::Invalid("the store gave no extent".into()))?;
            let base = extent.as_mut_slice().ok_or_else(|| Error::Invalid("the extent is read-only".into()))?;
            let base = base.as_mut_ptr();
            let state = PageState { extent: Some(extent), next: 0, parts: Vec::new(), writing: 0, closed: false };
            let fresh = Arc::new(Page { base, state: Mutex::new(state) });
            self.state.lock().open = Some(fresh);
        }
    }

    fn grant(&self, page: &Arc<Page>, least: usize) -> Option<SubPage> {
        let mut state = page.state.lock();
        let left = self.page_bytes.saturating_sub(state.next);
        if state.closed || left == 0 || left < least {
            return None;
        }
        let length = self.sub_bytes.max(least.next_multiple_of(ALIGNMENT)).min(left);
        let range = state.next..state.next + length;
        state.next = range.end;
        let index = state.parts.len();
        state.parts.push((range.start, 0, 0));
        state.writing += 1;
        drop(state);
        Some(SubPage { page: Arc::clone(page), range, filled: 0, rows: 0, index })
    }

    /// Give out no more of the page, and seal it if nobody writes to it.
    fn retire(&self, page: &Arc<Page>) -> Result<()> {
        {
            let mut state = self.state.lock();
            if state.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, page)) {
                state.open = None;
            }
        }
        let mut state = page.state.lock();
        state.closed = true;
        let done = state.writing == 0;
        drop(state);
        if done { self.seal(page) } else { Ok(()) }
    }

    /// Take back a sub-page; the last one of a page that is closed seals it.
    fn give_back(&self, sub: SubPage) -> Result<()> {
        let mut state = sub.page.state.lock();
        state.parts[sub.index] = (sub.range.start, sub.filled, sub.rows);
        state.writing -= 1;
        let done = state.closed && state.writing == 0;
        drop(state);
        if done { self.seal(&sub.page) } else { Ok(()) }
    }

    fn seal(&self, page: &Page) -> Result<()> {
        let mut state = page.state.lock();
        // Whoever comes second finds that it was sealed.
        let Some(extent) = state.extent.take() else { return Ok(()) };
        let parts = std::mem::take(&mut state.parts);
        drop(state);
        let whole = extent.reference();
        let written = parts.iter().filter(|(_, bytes, _)| *bytes > 0).map(|&(start, bytes, rows)| {
            let place = Reference { segment: whole.segment, offset: whole.offset + start as u64, length: bytes as u64 };
            Part { place, rows }
        });
        let written: Vec<Part> = written.collect();
        if written.is_empty() {
            return Ok(());
        }
        let spec = (self.describe)(&written)?;
        let info = self.using.home.seal(self.using.set, spec, vec![extent])?;
        self.state.lock().sealed.push(info);
        Ok(())
    }
}

/// One thread's end of [`SubPages`]. What it has appended is in no page before it is finished or has gone on to another sub-page.
pub struct SubPageWriter {
    pages: Arc<SubPages>,
    sub: Option<SubPage>,
}

impl SubPageWriter {
    /// Append bytes that stay together, as so many rows.
    ///
    /// # Errors
    /// [`Error::Invalid`] when they are more than a page has; those of [`Home::allocate`] and [`Home::seal`].
    pub fn append(&mut self, bytes: &[u8], rows: u64) -> Result<()> {
        let fits = |sub: &SubPage| sub.range.len() - sub.filled >= bytes.len();
        if !self.sub.as_ref().is_some_and(fits) {
            if let Some(full) = self.sub.take() {
                self.pages.give_back(full)?;
            }
            self.sub = Some(self.pages.take(bytes.len())?);
        }
        let Some(sub) = &mut self.sub else { return Ok(()) };
        // SAFETY: the range lies in the page's extent, which is held while sub-pages of it are being written; it was given to this writer
        // alone, and `bytes` has room in what is left of it.
        unsafe {
            let place = sub.page.base.add(sub.range.start + sub.filled);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
        }
        sub.filled += bytes.len();
        sub.rows += rows;
        Ok(())
    }

    /// Have what was appended in a page; that page is sealed when it is full and all its writers are done, or with [`SubPages::finish`].
    ///
    /// # Errors
    /// Those of [`Home::seal`].
    pub fn finish(mut self) -> Result<()> {
        self.sub.take().map_or(Ok(()), |sub| self.pages.give_back(sub))
    }
}

impl Drop for SubPageWriter {
    /// A writer that was not finished gives up what is in its sub-page.
    fn drop(&mut self) {
        if let Some(mut sub) = self.sub.take() {
            sub.filled = 0;
            sub.rows = 0;
            let _ = self.pages.give_back(sub);
        }
    }
}
