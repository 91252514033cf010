//! Pinning pages, loading them from disk, and reading ahead of scans.

use std::sync::Arc;
use std::time::Instant;

use crate::api::Pinned;
use crate::error::{Error, Result};
use crate::ids::{PageId, SetId};
use crate::images::Image;
use crate::io::{self, Fault};
use crate::policy::Scene;
use crate::pool::Shared;
use crate::pool::jobs::Job;
use crate::pool::memory::{Charge, rounded};
use crate::pool::tables::{Activity, Evicted, Found, Garbage, Resident, Tables};

// Pages that were read ahead of a scan and not used yet have at most this fraction (1/4) of the limit.
const AHEAD: u64 = 4;

impl Shared {
    pub(crate) fn pin(self: &Arc<Self>, id: PageId) -> Result<Pinned> {
        let mut missed = false;
        let mut tables = self.tables.lock();
        loop {
            if let Some(Found { info, header, buffers, ahead }) = tables.pin(id)? {
                let set = tables.set(id.set)?;
                if missed {
                    set.misses += 1
                } else {
                    set.hits += 1
                }
                let scanned = missed || ahead || set.has_reader();
                let following = if scanned { self.following(&mut tables, id.set) } else { Vec::new() };
                if missed {
                    tables.counters.misses += 1
                } else {
                    tables.counters.hits += 1
                }
                drop(tables);
                self.jobs.push(following.into_iter().map(Job::Load));
                let shared = Arc::clone(self);
                let unpin = Box::new(move || shared.unpin(id));
                return Ok(Pinned { info, header, buffers, unpin: Some(unpin) });
            }
            missed = true;
            let page = tables.page(id)?;
            match (&page.activity, &page.image) {
                (Activity::Damaged(why), _) => return Err(self.corrupt(id, why.clone())),
                (Activity::Loading, _) => self.loaded.wait(&mut tables),
                (_, None) => return Err(Error::NoPage(id)),
                (_, Some(image)) => {
                    let image = Arc::clone(image);
                    page.activity = Activity::Loading;
                    drop(tables);
                    let read =
                        self.room_to_read(rounded(image.length)).and_then(|charge| self.read(id, &image, charge));
                    tables = self.tables.lock();
                    self.arrive(&mut tables, id, read, false)?;
                }
            }
        }
    }

    fn unpin(&self, id: PageId) {
        let mut tables = self.tables.lock();
        let evictable = tables.unpin(id);
        // Pages that a scan has passed can be evicted for the pages that it comes to next.
        let scanned = evictable && tables.sets.get(&id.set).is_some_and(|set| set.has_reader());
        let following = if scanned { self.following(&mut tables, id.set) } else { Vec::new() };
        drop(tables);
        if evictable {
            self.memory.nudge();
            self.pay_back();
        }
        self.jobs.push(following.into_iter().map(Job::Load));
    }

    /// The pages to read ahead in a set that is being scanned, if memory seems to be available.
    fn following(&self, tables: &mut Tables, set: SetId) -> Vec<PageId> {
        let Some(bytes) = tables.comes_next(set) else { return Vec::new() };
        let need = bytes.saturating_sub(self.memory.snapshot().free);
        if need == 0 || self.next_victim(tables, set, need).is_some() {
            tables.following(set, self.memory.limit() / AHEAD)
        } else {
            Vec::new()
        }
    }

    /// The policy's next victim, if it may be evicted for reading ahead in `set`.
    fn next_victim(&self, tables: &Tables, set: SetId, need: u64) -> Option<PageId> {
        let sets = tables.choice();
        if sets.is_empty() {
            return None;
        }
        let capacity = self.memory.limit();
        let scene = Scene { now: tables.now(), costs: tables.costs, need, capacity, single: true };
        let victim = *self.options.policy.victims(&sets, &scene).first()?;
        tables.makes_way(victim, set).then_some(victim)
    }

    fn corrupt(&self, page: PageId, why: String) -> Error {
        Error::Corrupt { page, path: self.path(page).display().to_string(), why }
    }

    /// Read a page's buffers from its file into a new extent.
    fn read(&self, id: PageId, image: &Image, mut charge: Charge) -> Result<Resident> {
        let span = tracing::debug_span!("load", page = %id);
        let _entered = span.enter();
        let _pending = self.memory.pending();
        let started = Instant::now();
        let path = self.path(id);
        let mut extent = charge.extent(self.slabs.own(), image.length)?;
        io::read(&path, image, &mut extent, self.access()).map_err(|fault| match fault {
            Fault::Damaged(why) => self.corrupt(id, why),
            Fault::System(error) => Error::io(format!("read the page image {}", path.display()), &error),
        })?;
        let extent = self.slabs.share(extent);
        let resident = Resident { buffers: io::buffers(image, &extent).into(), charge: rounded(image.length) };
        let mut tables = self.tables.lock();
        tables.counters.read += image.total;
        tables.costs.read(image.total, started.elapsed().as_nanos() as u64);
        Ok(resident)
    }

    /// Enter the result of reading a page into the tables.
    fn arrive(&self, tables: &mut Tables, id: PageId, read: Result<Resident>, ahead: bool) -> Result<()> {
        self.loaded.notify_all();
        let page = tables.page(id)?;
        page.activity = Activity::None;
        match read {
            Ok(memory) => {
                page.ahead = ahead && page.pins == 0;
                tables.arrived(id, memory);
                tables.settle(id);
                Ok(())
            }
            Err(error) => {
                if let Error::Corrupt { why, path, .. } = &error {
                    tracing::error!(page = %id, %path, %why, "a page image is damaged");
                    page.activity = Activity::Damaged(why.clone());
                }
                Err(error)
            }
        }
    }

    /// Queue jobs that load these pages.
    pub(crate) fn prefetch(&self, pages: &[PageId]) {
        let mut jobs = Vec::new();
        let mut tables = self.tables.lock();
        for id in pages {
            if let Ok(page) = tables.page(*id) {
                if page.can_be_read() {
                    page.queued = true;
                    jobs.push(Job::Load(*id));
                }
            }
        }
        drop(tables);
        self.jobs.push(jobs);
    }

    /// Read a page ahead of its use, if there is memory for it.
    pub(crate) fn load_ahead(&self, id: PageId) {
        let mut tables = self.tables.lock();
        let Ok(page) = tables.page(id) else { return };
        page.queued = false;
        if !page.can_be_read() {
            return;
        }
        let Some(image) = page.image.clone() else { return };
        page.activity = Activity::Loading;
        drop(tables);
        let pending = self.memory.pending();
        let read = self.spare(id, rounded(image.length)).map(|charge| self.read(id, &image, charge));
        let mut tables = self.tables.lock();
        let mut following = Vec::new();
        match read {
            Some(read) => {
                if self.arrive(&mut tables, id, read, true).is_ok() {
                    following = self.following(&mut tables, id.set);
                }
            }
            None => {
                if let Ok(page) = tables.page(id) {
                    page.activity = Activity::None;
                }
                self.loaded.notify_all();
            }
        }
        drop(tables);
        drop(pending);
        self.jobs.push(following.into_iter().map(Job::Load));
    }

    /// Charge memory for reading ahead: free memory, or that of the policy's next victim if it is clean and the same scan does not come to it
    /// soon.
    fn spare(&self, id: PageId, bytes: u64) -> Option<Charge> {
        loop {
            if self.memory.demanded() > 0 {
                return None;
            }
            if let Some(charge) = self.memory.charge(bytes) {
                return Some(charge);
            }
            let mut garbage = Garbage::default();
            let mut tables = self.tables.lock();
            let need = bytes.saturating_sub(self.memory.snapshot().free);
            let victim = self.next_victim(&tables, id.set, need)?;
            let Evicted::Freed = tables.evict(victim, &mut garbage) else { return None };
            let pending = self.memory.pending();
            drop(tables);
            self.discard(garbage);
            drop(pending);
        }
    }
}
