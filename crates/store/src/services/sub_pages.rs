//! Pages that several writers append to concurrently, so that the data of a partition are in a few large pages.
//!
//! A page has *lanes*: one counts rows, and others count what varies between rows, such as the bytes of a string column. A writer is granted a
//! sub-page, that is, a range of each lane. All ranges are granted in one step, so that the rows have the same order in all lanes. The writer
//! fills the sub-page without a lock. A page without room is closed, and it is sealed when the last of its sub-pages is written. Pages are
//! sealed in the order of their creation, so the rows of one thread keep their order across pages.
//!
//! A [`Shape`] defines the meaning of the lanes.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use craton_slab::Extent;
use parking_lot::Mutex;

use super::{SequentialWriter, Use};
use crate::api::{DataInfo, Home, PageSpec};
use crate::error::{Error, Result};
use crate::ids::SetId;

/// The layout of pages.
pub trait Shape: Send + Sync {
    /// The bytes of a new page and the room in each of its lanes, which must be at least `least`. `number` counts the pages that this process
    /// has created for the set, from 0.
    ///
    /// # Errors
    /// When a page cannot have that much room.
    fn room(&self, least: &[u64], number: u64) -> Result<(usize, Vec<u64>)>;

    /// Initialise the parts of a page that writers of sub-pages do not write.
    fn prepare(&self, memory: &mut [u8], room: &[u64]);

    /// Complete a page: returns its specification and extents, or `None` if it would be empty.
    ///
    /// # Errors
    /// Any error; the contents of the page are lost then.
    fn close(&self, home: &dyn Home, set: SetId, written: Written) -> Result<Option<(PageSpec, Vec<Extent>)>>;
}

/// A page to which no writer writes any more.
pub struct Written {
    /// Its memory.
    pub extent: Extent,
    /// The room in each lane.
    pub room: Vec<u64>,
    /// How much of each lane was granted.
    pub used: Vec<u64>,
    /// Abandoned sub-pages, whose contents are undefined: for each, its start and its length in every lane.
    pub lost: Vec<(Vec<u64>, Vec<u64>)>,
}

/// The open pages of a set that several threads append to.
pub struct SubPages {
    using: Use,
    shape: Arc<dyn Shape>,
    state: Mutex<State>,
    // Held by the thread that allocates the next page, so that other threads wait for that page instead of allocating their own.
    refill: Mutex<()>,
    // Held while pages are sealed, so that they are sealed in order.
    sealing: Mutex<()>,
}

#[derive(Default)]
struct State {
    // In the order of their creation; all except the last one are closed.
    pages: VecDeque<Page>,
    begun: u64,
    sealed: Vec<DataInfo>,
    // The error by which a page was lost when a sub-page was dropped; the next call returns it.
    failed: Option<Error>,
}

struct Page {
    number: u64,
    // The start of the extent's memory, through which writers write.
    base: NonNull<u8>,
    extent: Extent,
    room: Vec<u64>,
    used: Vec<u64>,
    lost: Vec<(Vec<u64>, Vec<u64>)>,
    // Sub-pages that are being written.
    writing: usize,
    // No more sub-pages are granted.
    closed: bool,
}

// SAFETY: `base` points into `extent`, which may be sent. Each byte is written only by the writer of its sub-page, and read only after all
// writers have returned their sub-pages; the lock around the page orders the reads after the writes.
unsafe impl Send for Page {}

impl SubPages {
    /// Pages of that shape for that set.
    ///
    /// # Errors
    /// [`NoSet`](Error::NoSet).
    pub fn new(home: &Arc<dyn Home>, set: SetId, shape: Arc<dyn Shape>) -> Result<Self> {
        Ok(Self::within(SequentialWriter::beside_others(home, set)?, shape))
    }

    /// As [`SubPages::new`], for a set that has a writer already.
    #[must_use]
    pub fn within(writer: SequentialWriter, shape: Arc<dyn Shape>) -> Self {
        Self {
            using: writer.into_use(),
            shape,
            state: Mutex::default(),
            refill: Mutex::default(),
            sealing: Mutex::default(),
        }
    }

    /// Grant a sub-page with these lengths, one for each lane.
    ///
    /// # Errors
    /// Those of [`Shape::room`] and [`Home::allocate`]; those of [`Shape::close`] and [`Home::seal`] for a full page that this closes.
    pub fn take(self: &Arc<Self>, lengths: &[u64]) -> Result<SubPage> {
        loop {
            if let Some(sub) = self.grant(lengths) {
                return Ok(sub);
            }
            self.settle()?;
            let _refill = self.refill.lock();
            let number = {
                let state = self.state.lock();
                if state.pages.back().is_some_and(|page| !page.closed) {
                    continue;
                }
                state.begun
            };
            let (bytes, room) = self.shape.room(lengths, number)?;
            let fits = room.len() == lengths.len() && room.iter().zip(lengths).all(|(room, length)| room >= length);
            if !fits {
                return Err(Error::Invalid(format!("a page has room for {room:?}, and {lengths:?} was requested")));
            }
            let mut extents = self.using.home.allocate(self.using.set, &[bytes])?;
            let mut extent = extents.pop().ok_or_else(|| Error::Invalid("the store returned no extent".into()))?;
            let memory = extent.as_mut_slice().ok_or_else(|| Error::Invalid("the extent is read-only".into()))?;
            self.shape.prepare(memory, &room);
            let base = NonNull::from(memory).cast::<u8>();
            let used = vec![0; room.len()];
            let page = Page { number, base, extent, room, used, lost: Vec::new(), writing: 0, closed: false };
            let mut state = self.state.lock();
            state.begun += 1;
            state.pages.push_back(page);
        }
    }

    /// Grant a part of the open page; `None` if there is none, or if it lacks room and was closed for that.
    fn grant(self: &Arc<Self>, lengths: &[u64]) -> Option<SubPage> {
        let mut state = self.state.lock();
        let page = state.pages.back_mut().filter(|page| !page.closed)?;
        let ends: Option<Vec<u64>> =
            page.used.iter().zip(lengths).map(|(used, length)| used.checked_add(*length)).collect();
        let fits = |ends: &Vec<u64>| {
            ends.len() == page.room.len() && ends.iter().zip(&page.room).all(|(end, room)| end <= room)
        };
        let Some(ends) = ends.filter(fits) else {
            page.closed = true;
            return None;
        };
        let before = std::mem::replace(&mut page.used, ends);
        page.writing += 1;
        Some(SubPage {
            pages: Arc::clone(self),
            number: page.number,
            base: page.base,
            room: page.room.clone(),
            before,
            lengths: lengths.to_vec(),
            given_back: false,
        })
    }

    /// Close the open page. It is sealed now, or when the last of its sub-pages is returned.
    ///
    /// # Errors
    /// Those of [`Shape::close`] and [`Home::seal`].
    pub fn close(&self) -> Result<()> {
        if let Some(page) = self.state.lock().pages.back_mut() {
            page.closed = true;
        }
        self.settle()
    }

    /// Seal all pages. All sub-pages must have been returned.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a sub-page is still being written; those of [`close`](Self::close).
    pub fn finish(&self) -> Result<Vec<DataInfo>> {
        self.close()?;
        let mut state = self.state.lock();
        let writing: usize = state.pages.iter().map(|page| page.writing).sum();
        if writing > 0 {
            return Err(Error::Invalid(format!("{writing} sub-pages of the set are being written")));
        }
        Ok(std::mem::take(&mut state.sealed))
    }

    /// Seal closed pages in order, up to the first one that is still being written.
    fn settle(&self) -> Result<()> {
        let _sealing = self.sealing.lock();
        if let Some(error) = self.state.lock().failed.take() {
            return Err(error);
        }
        loop {
            let page = {
                let mut state = self.state.lock();
                if !state.pages.front().is_some_and(|page| page.closed && page.writing == 0) {
                    return Ok(());
                }
                state.pages.pop_front()
            };
            let Some(Page { extent, room, used, lost, .. }) = page else { return Ok(()) };
            if used.iter().all(|used| *used == 0) {
                continue;
            }
            let Use { home, set, .. } = &self.using;
            if let Some((spec, extents)) = self.shape.close(&**home, *set, Written { extent, room, used, lost })? {
                let info = home.seal(*set, spec, extents)?;
                self.state.lock().sealed.push(info);
            }
        }
    }

    /// Record that a sub-page was returned; returns whether its page can be sealed now.
    fn give_back(&self, sub: &SubPage, disposition: Disposition) -> bool {
        let mut state = self.state.lock();
        let first = state.pages.front().map_or(0, |page| page.number);
        let place = usize::try_from(sub.number.wrapping_sub(first)).unwrap_or(usize::MAX);
        // A page is in the list as long as it has sub-pages that are being written.
        let Some(page) = state.pages.get_mut(place) else { return false };
        page.writing -= 1;
        let last =
            page.used.iter().zip(&sub.before).zip(&sub.lengths).all(|((used, before), own)| *used == before + own);
        match disposition {
            Disposition::Written => {}
            Disposition::Untouched if last => page.used.clone_from(&sub.before),
            Disposition::Untouched | Disposition::Abandoned => {
                page.lost.push((sub.before.clone(), sub.lengths.clone()))
            }
        }
        page.closed && page.writing == 0
    }
}

/// How a sub-page is returned.
#[derive(Clone, Copy)]
enum Disposition {
    /// It was written completely.
    Written,
    /// Nothing was written to it, so it can be granted again.
    Untouched,
    /// It was dropped without being finished; its contents are undefined.
    Abandoned,
}

/// A part of a page that one writer fills. If it is dropped without being [finished](Self::finish), its contents are discarded.
pub struct SubPage {
    pages: Arc<SubPages>,
    number: u64,
    base: NonNull<u8>,
    room: Vec<u64>,
    before: Vec<u64>,
    lengths: Vec<u64>,
    given_back: bool,
}

// SAFETY: the memory behind `base` lives until the sub-page is returned, and `SubPages::take` grants disjoint ranges, whichever threads
// write to them.
unsafe impl Send for SubPage {}
// SAFETY: as above; a shared sub-page only exposes the pointer, whose use is unsafe.
unsafe impl Sync for SubPage {}

impl SubPage {
    /// The start of its page. The writer may write to the sub-page's part of each lane until it returns the sub-page.
    #[must_use]
    pub fn page(&self) -> NonNull<u8> {
        self.base
    }

    /// The room in the lanes of its page.
    #[must_use]
    pub fn room(&self) -> &[u64] {
        &self.room
    }

    /// Its start in each lane.
    #[must_use]
    pub fn before(&self) -> &[u64] {
        &self.before
    }

    /// Return it after writing all of it. The page is sealed if it is closed and this was the last of its sub-pages.
    ///
    /// # Errors
    /// Those of [`SubPages::close`].
    pub fn finish(mut self) -> Result<()> {
        self.give_back(Disposition::Written)
    }

    /// Return it without having written to it, so that it can be granted again.
    ///
    /// # Errors
    /// As for [`finish`](Self::finish).
    pub fn cancel(mut self) -> Result<()> {
        self.give_back(Disposition::Untouched)
    }

    fn give_back(&mut self, disposition: Disposition) -> Result<()> {
        self.given_back = true;
        if self.pages.give_back(self, disposition) { self.pages.settle() } else { Ok(()) }
    }
}

impl Drop for SubPage {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        // Other writers may lose rows by this error: the next call on `SubPages` returns it.
        if let Err(error) = self.give_back(Disposition::Abandoned) {
            self.pages.state.lock().failed = Some(error);
        }
    }
}
