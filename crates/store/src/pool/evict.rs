//! Eviction: a thread that needs memory evicts pages until it has enough.

use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, Result};
use crate::images::{Image, Layout};
use crate::io;
use crate::policy::Scene;
use crate::pool::Shared;
use crate::pool::jobs::{Job, Write};
use crate::pool::memory::{Charge, Memory, Waited};
use crate::pool::tables::{Evicted, Garbage};

// Memory is freed ahead of demand for allocations of at most this fraction (1/8) of the limit.
const SMALL: u64 = 8;

impl Shared {
    /// Charge `bytes` of extents to the limit; evicts pages if necessary.
    pub(crate) fn room(&self, bytes: u64) -> Result<Charge> {
        self.seek(bytes, |memory| memory.charge(bytes))
    }

    /// Charge `bytes` for a page that is read from disk. If the memory is full of pages that cannot be written, the limit may be exceeded.
    pub(crate) fn room_to_read(&self, bytes: u64) -> Result<Charge> {
        self.room(bytes).or_else(|error| match error {
            Error::Io { .. } => self.memory.overdraw(bytes).ok_or(error),
            other => Err(other),
        })
    }

    /// Evict clean pages to get back below the limit.
    pub(crate) fn pay_back(&self) {
        let bytes = self.memory.overdrawn();
        if bytes > 0 {
            let demand = self.memory.demand(bytes);
            let _ = self.evict(true); // fails only when the pool is closed
            drop(demand);
        }
    }

    /// Evict pages until `take` succeeds in taking `bytes`.
    pub(crate) fn seek<T>(&self, bytes: u64, take: impl Fn(&Arc<Memory>) -> Option<T>) -> Result<T> {
        if let Some(taken) = take(&self.memory) {
            return Ok(taken);
        }
        let full = |used| Error::Full { asked: bytes, used, limit: self.memory.limit() };
        if bytes > self.memory.limit() {
            return Err(full(self.memory.snapshot().used));
        }
        let demand = self.memory.demand(bytes);
        let failures = self.tables.lock().failures;
        let mut failed: Option<Error> = None;
        let found = loop {
            let snapshot = self.memory.snapshot();
            if let Some(taken) = take(&self.memory) {
                break Ok(taken);
            }
            if self.evict(failed.is_some())? {
                continue;
            }
            if let Waited::Idle = self.memory.wait(&snapshot) {
                if self.memory.set_idle(0) {
                    continue; // evicting too much is better than failing
                }
                break Err(failed.unwrap_or_else(|| full(snapshot.used)));
            }
            if failed.is_none() {
                // Pages that cannot be written stay in memory; evicting clean pages may still free enough.
                let tables = self.tables.lock();
                if tables.failures != failures {
                    failed.clone_from(&tables.failure);
                }
            }
        };
        drop(demand);
        found
    }

    /// Start writing the next victims while the caller fills the `bytes` that it was given, if another allocation of that size would have to
    /// wait for memory.
    pub(crate) fn write_ahead(&self, bytes: u64) {
        if bytes > self.memory.limit() / SMALL || self.memory.snapshot().free >= bytes {
            return;
        }
        let demand = self.memory.demand(bytes);
        // Errors are ignored here: the allocation that needs the memory reports them.
        let _ = self.evict(false);
        drop(demand);
    }

    /// Evict as much as is demanded beyond the writes under way; returns whether memory was freed immediately.
    fn evict(&self, only_clean: bool) -> Result<bool> {
        let mut garbage = Garbage::default();
        let mut jobs = Vec::new();
        let mut freed = 0;
        let mut tables = self.tables.lock();
        tables.open()?;
        loop {
            let on_its_way = self.memory.snapshot().free + tables.evicting + freed;
            let need = self.memory.demanded().saturating_sub(on_its_way);
            if need == 0 {
                break;
            }
            let victims = if only_clean {
                tables.clean(need)
            } else {
                let scene = Scene {
                    now: tables.now(),
                    costs: tables.costs,
                    need,
                    capacity: self.memory.limit(),
                    single: false,
                };
                let sets = tables.choice();
                if sets.is_empty() { Vec::new() } else { self.options.policy.victims(&sets, &scene) }
            };
            if victims.is_empty() && tables.give_up_all_ahead() {
                continue;
            }
            let before = (garbage.memory.len(), jobs.len());
            for page in victims {
                match tables.evict(page, &mut garbage) {
                    Evicted::Not => {}
                    Evicted::Freed => freed += garbage.memory.last().map_or(0, |memory| memory.charge),
                    Evicted::Write(header, buffers) => {
                        jobs.push(Job::Write(Write { page, header, buffers, pending: self.memory.pending() }));
                    }
                }
            }
            if before == (garbage.memory.len(), jobs.len()) {
                break;
            }
        }
        let freed = !garbage.memory.is_empty();
        let pending = freed.then(|| self.memory.pending());
        drop(tables);
        self.jobs.push(jobs);
        self.discard(garbage);
        drop(pending);
        Ok(freed)
    }

    /// Drop the memory and files of pages that were removed from the tables.
    pub(crate) fn discard(&self, garbage: Garbage) {
        drop(garbage.memory);
        for page in garbage.files {
            let _ = std::fs::remove_file(self.path(page));
        }
    }

    /// Write a page's image.
    pub(crate) fn write_image(&self, write: &Write) -> Result<Image> {
        let span = tracing::debug_span!("write", page = %write.page);
        let _entered = span.enter();
        self.folder.make()?;
        let layout = Layout::new(&write.header, &write.buffers, self.options.compression)?;
        io::write(&self.path(write.page), &layout, &write.buffers, self.access())
    }

    /// Write a victim, and free its memory unless it was pinned meanwhile.
    pub(crate) fn write_back(&self, write: Write) {
        let started = Instant::now();
        let result = self.write_image(&write);
        let took = started.elapsed().as_nanos() as u64;
        let mut garbage = Garbage::default();
        let mut orphan = false;
        let id = write.page;
        let mut tables = self.tables.lock();
        match result {
            Ok(image) => {
                tables.counters.written += image.total;
                tables.costs.wrote(image.total, took);
                match tables.written(id).map(|page| page.pins) {
                    None => orphan = true,
                    Some(pins) => {
                        tables.imaged(id, Arc::new(image));
                        let stays = pins > 0 || tables.sets.get(&id.set).is_some_and(|set| set.options.pinned);
                        if stays {
                            tables.settle(id);
                        } else {
                            tables.left(id, &mut garbage);
                            tables.counters.evicted_written += 1;
                        }
                    }
                }
            }
            Err(error) => {
                tracing::warn!(page = %id, %error, "a page could not be written and stays in memory");
                tables.failures += 1;
                tables.failure = Some(error);
                if tables.written(id).is_some() {
                    tables.settle(id);
                }
            }
        }
        drop(tables);
        if orphan {
            self.remove_orphan(id);
        }
        self.discard(garbage);
        // Dropping `pending` wakes the threads that wait for memory, so the buffers must be dropped before it.
        let Write { buffers, pending, .. } = write;
        drop(buffers);
        drop(pending);
    }

    /// Remove the file of a page that was dropped while it was being written, and its set's folder if that is empty now.
    pub(crate) fn remove_orphan(&self, id: crate::ids::PageId) {
        let path = self.path(id);
        let _ = std::fs::remove_file(&path);
        if let Some(folder) = path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
