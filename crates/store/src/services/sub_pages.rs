//! Pages that many writers append to at the same time, so that all data of a partition lies in few large pages.
//!
//! A page has *lanes*: rows, and whatever else is counted apart from them, such as the bytes of a column of strings. A writer is
//! given a sub-page: a range of each lane, all at once, so that what it writes lies side by side in all of them. It fills the
//! sub-page without a lock. A page without room is closed, and sealed when the last of its sub-pages is written; pages are
//! sealed in the order in which they were begun, so what one thread wrote later is never in an earlier page.
//!
//! What the lanes mean is a [`Shape`]'s to say.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use craton_slab::Extent;
use parking_lot::Mutex;

use super::{SequentialWriter, Use};
use crate::api::{DataInfo, Home, PageSpec, SetId};
use crate::error::{Error, Result};

/// What pages are made of.
pub trait Shape: Send + Sync {
    /// Bytes of a page, and the room in each of its lanes, which is `least` or more. It is the `number`-th of its set that is made
    /// here, from 0.
    ///
    /// # Errors
    /// When no page can have that much.
    fn room(&self, least: &[u64], number: u64) -> Result<(usize, Vec<u64>)>;

    /// Write what writers of sub-pages do not.
    fn prepare(&self, memory: &mut [u8], room: &[u64]);

    /// Make a page of what was written: what it consists of, and its extents; `None` where nothing is worth a page.
    ///
    /// # Errors
    /// Whatever stands against it. What was written is lost then.
    fn close(&self, home: &dyn Home, set: SetId, written: Written) -> Result<Option<(PageSpec, Vec<Extent>)>>;
}

/// A page that nobody writes to any more.
pub struct Written {
    /// Its memory.
    pub extent: Extent,
    /// The room in each lane.
    pub room: Vec<u64>,
    /// How much of each lane was given out.
    pub used: Vec<u64>,
    /// Sub-pages that were given up, so that their bytes are anything: for each, what comes before it in the lanes, and its length in
    /// each.
    pub lost: Vec<(Vec<u64>, Vec<u64>)>,
}

/// The shared end of a set that many threads append to.
pub struct SubPages {
    using: Use,
    shape: Arc<dyn Shape>,
    state: Mutex<State>,
    // Held by the one who gets the next page from the store, so that the others wait for that one instead of getting their own.
    refill: Mutex<()>,
    // Held while pages are sealed, so that this happens in their order.
    sealing: Mutex<()>,
}

#[derive(Default)]
struct State {
    // In the order in which they were begun; all but the last one are closed.
    pages: VecDeque<Page>,
    begun: u64,
    sealed: Vec<DataInfo>,
    // Why a page was lost when there was nobody to be told.
    failed: Option<Error>,
}

struct Page {
    number: u64,
    // Where the extent's bytes are; they are written through this.
    base: NonNull<u8>,
    extent: Extent,
    room: Vec<u64>,
    used: Vec<u64>,
    lost: Vec<(Vec<u64>, Vec<u64>)>,
    // Sub-pages that are being written.
    writing: usize,
    // No more is given out.
    closed: bool,
}

// SAFETY: `base` points into `extent`, which may be sent; each byte is written by the one writer that its sub-page was given to, and read
// once all of them have given theirs back, which the lock around the page orders after their writes.
unsafe impl Send for Page {}

impl SubPages {
    /// Pages of that shape for that set.
    ///
    /// # Errors
    /// [`NoSet`](Error::NoSet).
    pub fn new(home: &Arc<dyn Home>, set: SetId, shape: Arc<dyn Shape>) -> Result<Self> {
        Ok(Self::within(SequentialWriter::beside_others(home, set)?, shape))
    }

    /// The same for a set of which there is a writer already.
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

    /// A sub-page of these lengths, one a lane.
    ///
    /// # Errors
    /// Those of [`Shape::room`], [`Home::allocate`], and of [`Shape::close`] and [`Home::seal`] for pages that this finds full.
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
                return Err(Error::Invalid(format!("a page has room for {room:?}, and {lengths:?} was asked for")));
            }
            let mut extents = self.using.home.allocate(self.using.set, &[bytes])?;
            let mut extent = extents.pop().ok_or_else(|| Error::Invalid("the store gave no extent".into()))?;
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

    /// A part of the open page; `None` if there is none, or it has no room, upon which it is closed.
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

    /// Give out no more of the open page. It is sealed now, or when the last of its sub-pages is given back.
    ///
    /// # Errors
    /// Those of [`Shape::close`] and [`Home::seal`].
    pub fn close(&self) -> Result<()> {
        if let Some(page) = self.state.lock().pages.back_mut() {
            page.closed = true;
        }
        self.settle()
    }

    /// Seal what was written. All sub-pages have to be given back.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a sub-page is not; those of [`close`](Self::close).
    pub fn finish(&self) -> Result<Vec<DataInfo>> {
        self.close()?;
        let mut state = self.state.lock();
        let writing: usize = state.pages.iter().map(|page| page.writing).sum();
        if writing > 0 {
            return Err(Error::Invalid(format!("{writing} sub-pages of the set are being written")));
        }
        Ok(std::mem::take(&mut state.sealed))
    }

    /// Seal the closed pages that nobody writes to, up to the first one that somebody does.
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

    /// Take a sub-page back. Whether its page has to be sealed now.
    fn give_back(&self, sub: &SubPage, as_it: AsIt) -> bool {
        let mut state = self.state.lock();
        let first = state.pages.front().map_or(0, |page| page.number);
        let place = usize::try_from(sub.number.wrapping_sub(first)).unwrap_or(usize::MAX);
        // A page with sub-pages that are being written is there.
        let Some(page) = state.pages.get_mut(place) else { return false };
        page.writing -= 1;
        let last =
            page.used.iter().zip(&sub.before).zip(&sub.lengths).all(|((used, before), own)| *used == before + own);
        match as_it {
            AsIt::IsWritten => {}
            AsIt::WasTaken if last => page.used.clone_from(&sub.before),
            AsIt::WasTaken | AsIt::Is => page.lost.push((sub.before.clone(), sub.lengths.clone())),
        }
        page.closed && page.writing == 0
    }
}

/// How a sub-page is given back.
#[derive(Clone, Copy)]
enum AsIt {
    /// All of it is written.
    IsWritten,
    /// Nothing of it is.
    WasTaken,
    /// Nobody knows.
    Is,
}

/// A part of a page that one writer fills. What it was dropped without being [finished](Self::finish) is in no page.
pub struct SubPage {
    pages: Arc<SubPages>,
    number: u64,
    base: NonNull<u8>,
    room: Vec<u64>,
    before: Vec<u64>,
    lengths: Vec<u64>,
    given_back: bool,
}

// SAFETY: the memory behind `base` lives until the sub-page is given back, and who writes where in it is agreed on by `SubPages::take`,
// whichever thread that is.
unsafe impl Send for SubPage {}
// SAFETY: as above; a shared sub-page gives out the pointer, whose use is unsafe.
unsafe impl Sync for SubPage {}

impl SubPage {
    /// Where its page begins. The writer may write to the sub-page's part of each lane, until it gives it back.
    #[must_use]
    pub fn page(&self) -> NonNull<u8> {
        self.base
    }

    /// The room in the lanes of its page.
    #[must_use]
    pub fn room(&self) -> &[u64] {
        &self.room
    }

    /// What comes before it in each lane.
    #[must_use]
    pub fn before(&self) -> &[u64] {
        &self.before
    }

    /// Have what was written in the page, which is sealed when it is closed and this was the last of its sub-pages.
    ///
    /// # Errors
    /// Those of [`SubPages::close`].
    pub fn finish(mut self) -> Result<()> {
        self.give_back(AsIt::IsWritten)
    }

    /// Give it back without having written to it, so that others may.
    ///
    /// # Errors
    /// As for [`finish`](Self::finish).
    pub fn cancel(mut self) -> Result<()> {
        self.give_back(AsIt::WasTaken)
    }

    fn give_back(&mut self, as_it: AsIt) -> Result<()> {
        self.given_back = true;
        if self.pages.give_back(self, as_it) { self.pages.settle() } else { Ok(()) }
    }
}

impl Drop for SubPage {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        // Others may have written to the page: who seals the next one is told.
        if let Err(error) = self.give_back(AsIt::Is) {
            self.pages.state.lock().failed = Some(error);
        }
    }
}
