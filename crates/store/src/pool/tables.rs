//! The tables of sets and pages, and which pages are evictable. Nothing here blocks or does I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::api::{Attributes, Counters, DataInfo, Durability, Location, Operation, PageBuffer, SetInfo, SetOptions};
use crate::error::{Error, Result};
use crate::ids::{PageId, SetId};
use crate::images::Image;
use crate::policy::{Candidate, Costs, Members};

// The most pages of a scan that are being read ahead.
const AHEAD: usize = 4;

/// A page's buffers in memory.
pub(crate) struct Resident {
    pub(crate) buffers: Arc<[PageBuffer]>,
    // Bytes of the extents that were sealed with the page. Extents shared with other pages are counted for the page that they came with.
    pub(crate) charge: u64,
}

/// The I/O state of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Activity {
    None,
    /// An I/O thread is writing it; afterwards its memory is freed unless it was pinned meanwhile.
    Writing,
    /// It is being read from disk.
    Loading,
    /// Its image is damaged, for this reason.
    Damaged(String),
}

pub(crate) struct Page {
    pub(crate) key: Option<Arc<[u8]>>,
    pub(crate) header: Arc<[u8]>,
    pub(crate) statistics: Arc<[u8]>,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) rebuild: u64,
    pub(crate) memory: Option<Resident>,
    pub(crate) image: Option<Arc<Image>>,
    pub(crate) pins: u32,
    // The tick of its last use.
    pub(crate) tick: u64,
    pub(crate) activity: Activity,
    // It was read ahead and has not been used yet.
    pub(crate) ahead: bool,
    // A job to load it is queued.
    pub(crate) queued: bool,
}

impl Page {
    pub(crate) fn info(&self, page: PageId) -> DataInfo {
        DataInfo {
            page,
            key: self.key.as_ref().map(|key| key.to_vec()),
            rows: self.rows,
            bytes: self.bytes,
            location: match (&self.memory, &self.image) {
                (Some(_), None) => Location::Memory,
                (Some(_), Some(_)) => Location::Both,
                (None, _) => Location::Disk,
            },
            statistics: self.statistics.to_vec(),
        }
    }

    fn candidate(&self, number: u32) -> Option<Candidate> {
        let idle = self.pins == 0 && self.activity == Activity::None && !self.ahead;
        let memory = self.memory.as_ref().filter(|_| idle)?;
        Some(Candidate { number, bytes: memory.charge, dirty: self.image.is_none(), rebuild: self.rebuild })
    }
}

pub(crate) struct Set {
    pub(crate) options: SetOptions,
    pub(crate) users: u64,
    pub(crate) next: u32,
    pub(crate) pages: BTreeMap<u32, Page>,
    pub(crate) keys: HashMap<Arc<[u8]>, u32>,
    pub(crate) members: Members,
    // The pages that are not in memory.
    absent: BTreeSet<u32>,
    // The pages that were read ahead and not used yet, and their bytes of memory. They are not candidates for eviction.
    ahead: BTreeSet<u32>,
    ahead_bytes: u64,
    // The number of the page that was pinned last.
    cursor: u32,
    rows: u64,
    bytes: u64,
    memory: u64,
    disk: u64,
    pins: u64,
    recency: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// A page that was pinned and is in memory.
pub(crate) struct Found {
    pub(crate) info: DataInfo,
    pub(crate) header: Arc<[u8]>,
    pub(crate) buffers: Arc<[PageBuffer]>,
    /// It was read ahead, and this is its first use.
    pub(crate) ahead: bool,
}

/// Memory and files removed from the tables, to be dropped after the lock is released.
#[derive(Default)]
pub(crate) struct Garbage {
    pub(crate) memory: Vec<Resident>,
    /// Pages whose files are to be removed.
    pub(crate) files: Vec<PageId>,
}

/// The result of [`Tables::evict`].
pub(crate) enum Evicted {
    /// The page is not a candidate any more.
    Not,
    /// Its memory was moved to the garbage.
    Freed,
    /// It has to be written first.
    Write(Arc<[u8]>, Arc<[PageBuffer]>),
}

#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) closed: bool,
    pub(crate) sets: HashMap<SetId, Set>,
    pub(crate) names: HashMap<String, SetId>,
    next_set: u64,
    clock: u64,
    // The sets that have evictable pages.
    candidates: BTreeSet<SetId>,
    // The sets that have pages that were read ahead and not used yet.
    ahead: BTreeSet<SetId>,
    pub(crate) counters: Counters,
    pub(crate) costs: Costs,
    // Bytes of memory that the writes under way will free.
    pub(crate) evicting: u64,
    // The number of failed writes, and the last error.
    pub(crate) failures: u64,
    pub(crate) failure: Option<Error>,
}

impl Tables {
    pub(crate) fn open(&self) -> Result<()> {
        if self.closed { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn set(&mut self, set: SetId) -> Result<&mut Set> {
        self.open()?;
        self.sets.get_mut(&set).ok_or(Error::NoSet(set))
    }

    pub(crate) fn page(&mut self, page: PageId) -> Result<&mut Page> {
        self.open()?;
        let set = self.sets.get_mut(&page.set).ok_or(Error::NoPage(page))?;
        set.pages.get_mut(&page.number).ok_or(Error::NoPage(page))
    }

    pub(crate) fn name(&mut self, id: SetId, name: &str) -> Result<()> {
        let taken = self.names.contains_key(name);
        match &mut self.set(id)?.options.name {
            Some(other) => Err(Error::Invalid(format!("set {id} is named {other:?} already"))),
            None if taken => Err(Error::Exists(name.to_owned())),
            unnamed => {
                *unnamed = Some(name.to_owned());
                self.names.insert(name.to_owned(), id);
                Ok(())
            }
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock
    }

    pub(crate) fn create(&mut self, options: SetOptions) -> Result<SetId> {
        self.open()?;
        if let Some(name) = options.name.as_ref().filter(|name| self.names.contains_key(*name)) {
            return Err(Error::Exists(name.clone()));
        }
        self.next_set += 1;
        let id = SetId(self.next_set);
        if let Some(name) = &options.name {
            self.names.insert(name.clone(), id);
        }
        let members = Members::new(id, options.durability, options.writing, options.reading);
        let set = Set {
            options,
            users: 1,
            next: 0,
            pages: BTreeMap::new(),
            keys: HashMap::new(),
            members,
            absent: BTreeSet::new(),
            ahead: BTreeSet::new(),
            ahead_bytes: 0,
            cursor: 0,
            rows: 0,
            bytes: 0,
            memory: 0,
            disk: 0,
            pins: 0,
            recency: 0,
            hits: 0,
            misses: 0,
        };
        self.sets.insert(id, set);
        Ok(id)
    }

    pub(crate) fn change(&mut self, id: SetId, attributes: Attributes) -> Result<()> {
        let set = self.set(id)?;
        if let Some(writing) = attributes.writing {
            set.options.writing = writing;
            set.members.writing = writing;
        }
        if let Some(reading) = attributes.reading {
            set.options.reading = reading;
            set.members.reading = reading;
        }
        if let Some(operation) = attributes.operation {
            set.members.operation = operation;
        }
        let unread =
            attributes.operation.is_some_and(|operation| matches!(operation, Operation::None | Operation::Write));
        if let Some(ended) = attributes.ended {
            set.members.ended = ended;
        }
        if let Some(pinned) = attributes.pinned {
            set.options.pinned = pinned;
        }
        if unread {
            self.give_up_ahead(id);
        }
        self.list(id);
        Ok(())
    }

    /// Add the set to the candidates or remove it, according to its state.
    fn list(&mut self, id: SetId) {
        let candidate = self.sets.get(&id).is_some_and(|set| !set.options.pinned && !set.members.is_empty());
        if candidate {
            self.candidates.insert(id);
        } else {
            self.candidates.remove(&id);
        }
    }

    /// Add a new page to its set.
    pub(crate) fn add(&mut self, id: PageId, mut page: Page) -> Result<DataInfo> {
        self.clock += 1;
        page.tick = self.clock;
        let info = page.info(id);
        let set = self.set(id.set)?;
        set.recency = page.tick;
        set.rows += page.rows;
        set.bytes += page.bytes;
        set.members.pages += 1;
        if let Some(key) = &page.key {
            set.keys.insert(Arc::clone(key), id.number);
        }
        let (memory, image) = (page.memory.take(), page.image.take());
        set.pages.insert(id.number, page);
        self.counters.pages += 1;
        if let Some(image) = image {
            self.imaged(id, image);
        }
        if let Some(memory) = memory {
            self.arrived(id, memory);
        }
        self.settle(id);
        Ok(info)
    }

    /// Record that the page has an image now.
    pub(crate) fn imaged(&mut self, id: PageId, image: Arc<Image>) {
        let Some(set) = self.sets.get_mut(&id.set) else { return };
        let Some(page) = set.pages.get_mut(&id.number) else { return };
        set.disk += image.total;
        self.counters.page_disk += image.total;
        page.image = Some(image);
    }

    /// Record that the page is in memory now.
    pub(crate) fn arrived(&mut self, id: PageId, memory: Resident) {
        let Some(set) = self.sets.get_mut(&id.set) else { return };
        let Some(page) = set.pages.get_mut(&id.number) else { return };
        set.memory += page.bytes;
        set.members.resident += 1;
        self.counters.page_memory += page.bytes;
        if page.ahead {
            set.ahead.insert(id.number);
            set.ahead_bytes += memory.charge;
            self.ahead.insert(id.set);
        }
        page.memory = Some(memory);
        set.absent.remove(&id.number);
    }

    /// Treat a page that was read ahead like any other from now on; returns whether it was read ahead.
    fn not_ahead(&mut self, id: PageId) -> bool {
        let Some(set) = self.sets.get_mut(&id.set) else { return false };
        let Some(page) = set.pages.get_mut(&id.number) else { return false };
        page.ahead = false;
        let was = set.ahead.remove(&id.number);
        if was {
            set.ahead_bytes -= page.memory.as_ref().map_or(0, |memory| memory.charge);
            if set.ahead.is_empty() {
                self.ahead.remove(&id.set);
            }
        }
        was
    }

    /// Treat the pages of a set that were read ahead like any others, because no reader will come to them.
    fn give_up_ahead(&mut self, id: SetId) {
        let numbers = self.sets.get(&id).map(|set| set.ahead.iter().copied().collect::<Vec<u32>>());
        for number in numbers.unwrap_or_default() {
            let page = PageId { set: id, number };
            self.not_ahead(page);
            self.settle(page);
        }
    }

    /// Make all pages that were read ahead candidates, because there are no others; returns whether there were any.
    pub(crate) fn give_up_all_ahead(&mut self) -> bool {
        let sets: Vec<SetId> = self.ahead.iter().copied().collect();
        for set in &sets {
            self.give_up_ahead(*set);
        }
        !sets.is_empty()
    }

    /// Record that the page is not in memory any more.
    pub(crate) fn left(&mut self, id: PageId, garbage: &mut Garbage) {
        self.not_ahead(id);
        let Some(set) = self.sets.get_mut(&id.set) else { return };
        let Some(page) = set.pages.get_mut(&id.number) else { return };
        let Some(memory) = page.memory.take() else { return };
        set.members.remove(page.tick);
        set.memory -= page.bytes;
        set.members.resident -= 1;
        self.counters.page_memory -= page.bytes;
        set.absent.insert(id.number);
        garbage.memory.push(memory);
        self.list(id.set);
    }

    /// Add the page to the candidates or remove it, according to its state; returns whether it is a candidate.
    pub(crate) fn settle(&mut self, id: PageId) -> bool {
        let Some(set) = self.sets.get_mut(&id.set) else { return false };
        let Some(page) = set.pages.get(&id.number) else { return false };
        let Some(candidate) = page.candidate(id.number) else { return false };
        set.members.insert(page.tick, candidate);
        if !set.options.pinned {
            self.candidates.insert(id.set);
        }
        true
    }

    /// Pin a page if it is in memory; `None` if it is not.
    pub(crate) fn pin(&mut self, id: PageId) -> Result<Option<Found>> {
        self.open()?;
        let ahead = self.not_ahead(id);
        let set = self.sets.get_mut(&id.set).ok_or(Error::NoPage(id))?;
        let page = set.pages.get_mut(&id.number).ok_or(Error::NoPage(id))?;
        let Some(memory) = &page.memory else { return Ok(None) };
        let pinned = Found {
            info: page.info(id),
            header: Arc::clone(&page.header),
            buffers: Arc::clone(&memory.buffers),
            ahead,
        };
        let pins = page.pins.checked_add(1).ok_or_else(|| Error::Invalid(format!("page {id} has too many pins")))?;
        set.members.remove(page.tick);
        self.clock += 1;
        page.tick = self.clock;
        set.cursor = id.number;
        set.recency = self.clock;
        set.members.references += 1;
        if page.pins == 0 {
            set.pins += 1;
        }
        page.pins = pins;
        if set.members.is_empty() {
            self.candidates.remove(&id.set);
        }
        Ok(Some(pinned))
    }

    /// Undo one [`Tables::pin`]; returns whether the page is evictable now.
    pub(crate) fn unpin(&mut self, id: PageId) -> bool {
        let Some(set) = self.sets.get_mut(&id.set) else { return false };
        let Some(page) = set.pages.get_mut(&id.number) else { return false };
        page.pins = page.pins.saturating_sub(1);
        if page.pins > 0 {
            return false;
        }
        set.pins = set.pins.saturating_sub(1);
        self.settle(id)
    }

    /// The sets with evictable pages, which a policy chooses from.
    pub(crate) fn choice(&self) -> Vec<&Members> {
        self.candidates.iter().filter_map(|id| self.sets.get(id)).map(|set| &set.members).collect()
    }

    /// Clean candidates of at least `need` bytes in total, or all of them.
    pub(crate) fn clean(&self, need: u64) -> Vec<PageId> {
        let mut found = 0;
        let mut victims = Vec::new();
        for members in self.choice() {
            let free = members.ended || members.durability == Durability::Discard;
            for (_, candidate) in members.oldest() {
                if found >= need {
                    return victims;
                }
                if free || !candidate.dirty {
                    found += candidate.bytes;
                    victims.push(PageId { set: members.set, number: candidate.number });
                }
            }
        }
        victims
    }

    /// Free the memory of a candidate, or return what has to be written first.
    pub(crate) fn evict(&mut self, id: PageId, garbage: &mut Garbage) -> Evicted {
        let Some(set) = self.sets.get_mut(&id.set) else { return Evicted::Not };
        let Some(page) = set.pages.get_mut(&id.number) else { return Evicted::Not };
        if page.candidate(id.number).is_none() || set.options.pinned {
            return Evicted::Not;
        }
        let (ended, discarded) = (set.members.ended, set.members.durability == Durability::Discard);
        let Some(memory) = &page.memory else { return Evicted::Not };
        if page.image.is_none() && !ended && !discarded {
            page.activity = Activity::Writing;
            self.evicting += memory.charge;
            let write = Evicted::Write(Arc::clone(&page.header), Arc::clone(&memory.buffers));
            set.members.remove(page.tick);
            self.list(id.set);
            return write;
        }
        let gone = page.image.is_none();
        tracing::trace!(page = %id, ended, gone, "evict");
        if ended {
            self.counters.evicted_ended += 1;
        } else if gone {
            self.counters.evicted_discarded += 1;
        } else {
            self.counters.evicted_clean += 1;
        }
        if gone {
            let _ = self.remove(id, garbage);
        } else {
            self.left(id, garbage);
        }
        Evicted::Freed
    }

    /// Record that the write of the page has ended.
    pub(crate) fn written(&mut self, id: PageId) -> Option<&mut Page> {
        let page = self.sets.get_mut(&id.set)?.pages.get_mut(&id.number)?;
        if page.activity == Activity::Writing {
            page.activity = Activity::None;
            self.evicting -= page.memory.as_ref().map_or(0, |memory| memory.charge);
        }
        Some(page)
    }

    pub(crate) fn remove(&mut self, id: PageId, garbage: &mut Garbage) -> Result<()> {
        self.page(id)?;
        self.written(id);
        self.left(id, garbage);
        let set = self.set(id.set)?;
        let page = set.pages.remove(&id.number).ok_or(Error::NoPage(id))?;
        set.absent.remove(&id.number);
        set.rows -= page.rows;
        set.bytes -= page.bytes;
        set.members.pages -= 1;
        if page.pins > 0 {
            set.pins -= 1;
        }
        if let Some(key) = &page.key {
            set.keys.remove(key);
        }
        if let Some(image) = &page.image {
            set.disk -= image.total;
            garbage.files.push(id);
            self.counters.page_disk -= image.total;
        }
        self.counters.pages -= 1;
        Ok(())
    }

    pub(crate) fn drop_set(&mut self, id: SetId, garbage: &mut Garbage) -> Result<()> {
        let numbers: Vec<u32> = self.set(id)?.pages.keys().copied().collect();
        for number in numbers {
            self.remove(PageId { set: id, number }, garbage)?;
        }
        if let Some(name) = self.sets.remove(&id).and_then(|set| set.options.name) {
            self.names.remove(&name);
        }
        self.candidates.remove(&id);
        self.ahead.remove(&id);
        Ok(())
    }

    /// If the set is being scanned: the bytes of the first page after the last used one that is not in memory.
    pub(crate) fn comes_next(&self, id: SetId) -> Option<u64> {
        let set = self.sets.get(&id).filter(|set| set.is_scanned())?;
        let number = set.absent.range(set.cursor.saturating_add(1)..).next()?;
        set.pages.get(number).map(|page| page.bytes)
    }

    /// The pages that a scan of the set comes to next and that should be read ahead. At most [`AHEAD`] pages are being read at a time, and the
    /// pages that were read ahead and not used yet have at most `most` bytes. Without a reader, the pages are near the last used one.
    pub(crate) fn following(&mut self, id: SetId, most: u64) -> Vec<PageId> {
        let Some(set) = self.sets.get_mut(&id) else { return Vec::new() };
        let mut found = Vec::new();
        let last = match set.members.operation {
            Operation::Read | Operation::ReadWrite => u32::MAX,
            Operation::None | Operation::Write => set.cursor.saturating_add(2 * AHEAD as u32),
        };
        let mut bytes = set.ahead_bytes;
        for number in set.absent.range(set.cursor.saturating_add(1)..).take_while(|number| **number <= last).take(AHEAD)
        {
            let Some(page) = set.pages.get_mut(number) else { continue };
            bytes += page.bytes;
            if bytes > most {
                break;
            }
            if page.can_be_read() {
                page.queued = true;
                found.push(PageId { set: id, number: *number });
            }
        }
        found
    }

    pub(crate) fn describe(&self) -> Vec<SetInfo> {
        let mut all: Vec<SetInfo> = self.sets.iter().map(|(id, set)| set.describe(*id)).collect();
        all.sort_by_key(|info| info.set);
        all
    }

    /// Whether `victim` may be evicted for reading ahead in `set`: it must be clean, and no scan must be about to reach it.
    pub(crate) fn makes_way(&self, victim: PageId, set: SetId) -> bool {
        let Some(of) = self.sets.get(&victim.set) else { return false };
        let Some(page) = of.pages.get(&victim.number) else { return false };
        let passed = victim.set != set || victim.number <= of.cursor;
        let clean = page.image.is_some() || of.members.ended || of.members.durability == Durability::Discard;
        passed && clean
    }
}

impl Page {
    pub(crate) fn can_be_read(&self) -> bool {
        self.memory.is_none() && self.image.is_some() && self.activity == Activity::None && !self.queued
    }
}

impl Set {
    fn describe(&self, set: SetId) -> SetInfo {
        SetInfo {
            set,
            options: self.options.clone(),
            operation: self.members.operation,
            ended: self.members.ended,
            pages: self.pages.len() as u64,
            rows: self.rows,
            bytes: self.bytes,
            memory: self.memory,
            disk: self.disk,
            pins: self.pins,
            users: self.users,
            recency: self.recency,
            hits: self.hits,
            misses: self.misses,
        }
    }

    /// Whether a declared sequential reader is active.
    pub(crate) fn has_reader(&self) -> bool {
        self.is_scanned() && self.members.operation != Operation::None
    }

    /// Whether it is being read sequentially.
    pub(crate) fn is_scanned(&self) -> bool {
        self.members.reading == crate::api::Reading::Sequential && self.members.operation != Operation::Write
    }
}
