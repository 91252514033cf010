//! Writing and reading the pages of a set in sequence.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use craton_slab::Extent;

use super::Use;
use crate::api::{Attributes, DataInfo, Home, PageSpec, Pinned, Reading, Writing};
use crate::error::Result;
use crate::ids::{PageId, SetId};

/// Writes a set page by page. Several writers may write to one set, each its own pages.
pub struct SequentialWriter {
    using: Use,
}

impl SequentialWriter {
    /// A writer of that set.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    pub fn new(home: &Arc<dyn Home>, set: SetId) -> Result<Self> {
        let attributes = Attributes { writing: Some(Writing::Sequential), ..Attributes::default() };
        Ok(Self { using: Use::begin(home, set, true, attributes)? })
    }

    /// A writer of complete pages to a set that other writers write to concurrently.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    pub fn beside_others(home: &Arc<dyn Home>, set: SetId) -> Result<Self> {
        let attributes = Attributes { writing: Some(Writing::Concurrent), ..Attributes::default() };
        Ok(Self { using: Use::begin(home, set, true, attributes)? })
    }

    pub(super) fn into_use(self) -> Use {
        self.using
    }

    /// The set.
    #[must_use]
    pub fn set(&self) -> SetId {
        self.using.set
    }

    /// Write one page: `fill` writes to extents of these lengths, in bytes, and returns the page that they make.
    ///
    /// # Errors
    /// Those of [`Home::allocate`] and [`Home::seal`].
    pub fn write(&self, lengths: &[usize], fill: impl FnOnce(&mut [Extent]) -> Result<PageSpec>) -> Result<DataInfo> {
        let Use { home, set, .. } = &self.using;
        let mut extents = home.allocate(*set, lengths)?;
        let spec = fill(&mut extents)?;
        home.seal(*set, spec, extents)
    }
}

/// Reads the pages that a set has when the reader is created. Threads may share a reader; each page goes to one of them.
pub struct SequentialReader {
    using: Use,
    pages: Vec<PageId>,
    cursor: AtomicUsize,
    // How many pages ahead are prefetched.
    ahead: usize,
}

impl SequentialReader {
    /// A reader that `workers` threads share; it prefetches that many pages.
    ///
    /// # Errors
    /// [`NoSet`](crate::Error::NoSet).
    pub fn new(home: &Arc<dyn Home>, set: SetId, workers: usize) -> Result<Self> {
        let attributes = Attributes { reading: Some(Reading::Sequential), ..Attributes::default() };
        let using = Use::begin(home, set, false, attributes)?;
        let pages: Vec<PageId> = home.pages(set)?.into_iter().map(|info| info.page).collect();
        Ok(Self { using, pages, cursor: AtomicUsize::new(0), ahead: workers.clamp(1, 16) })
    }

    /// The total number of pages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Take the next page; `None` at the end.
    ///
    /// # Errors
    /// Those of [`Home::pin`].
    pub fn next_page(&self) -> Result<Option<Pinned>> {
        let next = self.cursor.fetch_add(1, Ordering::Relaxed);
        let Some(page) = self.pages.get(next) else {
            self.cursor.store(self.pages.len(), Ordering::Relaxed);
            return Ok(None);
        };
        if next % self.ahead == 0 {
            let from = (next + 1).min(self.pages.len());
            let to = (next + 1 + self.ahead).min(self.pages.len());
            self.using.home.prefetch(&self.pages[from..to]);
        }
        self.using.home.pin(*page).map(Some)
    }
}
