//! A minimal home in memory, without paging, for the tests of the server.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use craton_slab::{Extent, Slab, SlabOptions};
use craton_store::remote::{ClientId, Serving};
use craton_store::{
    Attributes, Counters, DataInfo, Error, Home, Location, PageBuffer, PageId, PageSpec, Pinned, Reservation, Result,
    SetId, SetInfo, SetOptions,
};
use parking_lot::{Condvar, Mutex};

const SEGMENT: u64 = 4 << 20;

#[derive(Default)]
struct State {
    next_set: u64,
    sets: BTreeMap<SetId, Set>,
    slabs: HashMap<Option<ClientId>, Arc<Slab>>,
    clients: usize,
    served: usize,
    prefetched: Vec<PageId>,
}

#[derive(Default)]
struct Set {
    info: Option<SetInfo>,
    next: u32,
    pages: BTreeMap<u32, Arc<Page>>,
}

struct Page {
    info: DataInfo,
    header: Arc<[u8]>,
    buffers: Vec<PageBuffer>,
    // The extents that were sealed with this page. The buffers keep other extents alive.
    _extents: Vec<Arc<Extent>>,
}

pub struct FakeHome {
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
    /// Bytes of live extents.
    pub used: Arc<AtomicU64>,
    /// The number of live pins.
    pub pins: Arc<AtomicU64>,
    /// The number of pages in each call of `pin_many`.
    pub asked: Mutex<Vec<usize>>,
    /// Reserved bytes.
    pub reserved: Arc<AtomicU64>,
}

impl FakeHome {
    pub fn new(limit: u64) -> Arc<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let (used, pins, reserved) = (Arc::default(), Arc::default(), Arc::default());
        Arc::new(Self { limit, state, changed, used, pins, asked: Mutex::default(), reserved })
    }

    /// Wait until exactly this many clients are connected.
    pub fn wait_clients(&self, clients: usize) {
        let mut state = self.state.lock();
        while state.clients != clients {
            let late = self.changed.wait_for(&mut state, std::time::Duration::from_secs(60)).timed_out();
            assert!(!late, "{} clients instead of {clients}", state.clients);
        }
    }

    /// The number of clients that have connected so far.
    pub fn served(&self) -> usize {
        self.state.lock().served
    }

    pub fn prefetched(&self) -> Vec<PageId> {
        self.state.lock().prefetched.clone()
    }

    /// Bytes of the extents of all pages.
    pub fn sealed_bytes(&self) -> u64 {
        let state = self.state.lock();
        let pages = state.sets.values().flat_map(|set| set.pages.values());
        pages.flat_map(|page| &page._extents).map(|extent| extent.len() as u64).sum()
    }

    pub fn set_count(&self) -> usize {
        self.state.lock().sets.len()
    }

    /// Drop the slabs, so that later extents are in new segments; segments without extents are unmapped.
    pub fn forget_slabs(&self) {
        self.state.lock().slabs.clear();
    }

    fn extents(&self, client: Option<ClientId>, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>> {
        let mut state = self.state.lock();
        if !state.sets.contains_key(&set) {
            return Err(Error::NoSet(set));
        }
        let asked = lengths.iter().fold(0u64, |sum, length| sum.saturating_add(*length as u64));
        let used = self.used.load(Ordering::SeqCst);
        if used.saturating_add(asked) > self.limit {
            return Err(Error::Full { asked, used, limit: self.limit });
        }
        lengths.iter().map(|length| self.extent(&mut state, client, *length)).collect()
    }

    fn extent(&self, state: &mut State, client: Option<ClientId>, length: usize) -> Result<Extent> {
        let options = SlabOptions { segment_bytes: SEGMENT, client: client.is_some(), ..SlabOptions::default() };
        let slab = state.slabs.entry(client).or_insert_with(|| Slab::new(options));
        let extent = slab.allocate(length).map_err(|e| Error::Invalid(e.to_string()))?;
        let used = Arc::clone(&self.used);
        used.fetch_add(length as u64, Ordering::SeqCst);
        let (segment, offset) = (Arc::clone(extent.segment()), extent.offset());
        let free = move || {
            drop(extent);
            used.fetch_sub(length as u64, Ordering::SeqCst);
        };
        Ok(Extent::new(segment, offset, length, Some(Box::new(free))))
    }

    fn with<T>(&self, set: SetId, work: impl FnOnce(&mut Set) -> T) -> Result<T> {
        self.state.lock().sets.get_mut(&set).map(work).ok_or(Error::NoSet(set))
    }

    fn page(&self, page: PageId) -> Result<Arc<Page>> {
        let found = self.with(page.set, |set| set.pages.get(&page.number).cloned());
        found.ok().flatten().ok_or(Error::NoPage(page))
    }
}

impl Serving for FakeHome {
    fn open_client(&self, _: ClientId) {
        let mut state = self.state.lock();
        state.clients += 1;
        state.served += 1;
        self.changed.notify_all();
    }

    fn allocate_for(&self, client: ClientId, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>> {
        self.extents(Some(client), set, lengths)
    }

    fn close_client(&self, client: ClientId) {
        let mut state = self.state.lock();
        state.clients -= 1;
        state.slabs.remove(&Some(client));
        self.changed.notify_all();
    }
}

impl Home for FakeHome {
    fn create_set(&self, options: SetOptions) -> Result<SetId> {
        if let Some(name) = options.name.clone() {
            if self.find_set(&name)?.is_some() {
                return Err(Error::Exists(name));
            }
        }
        let mut state = self.state.lock();
        state.next_set += 1;
        let set = SetId(state.next_set);
        let info = SetInfo {
            set,
            options,
            operation: craton_store::Operation::None,
            ended: false,
            pages: 0,
            rows: 0,
            bytes: 0,
            memory: 0,
            disk: 0,
            pins: 0,
            users: 1,
            recency: 0,
            hits: 0,
            misses: 0,
        };
        state.sets.insert(set, Set { info: Some(info), ..Set::default() });
        Ok(set)
    }

    fn find_set(&self, name: &str) -> Result<Option<SetId>> {
        let state = self.state.lock();
        let named = |set: &&Set| set.info.as_ref().is_some_and(|info| info.options.name.as_deref() == Some(name));
        Ok(state.sets.values().find(named).and_then(|set| set.info.as_ref().map(|info| info.set)))
    }

    fn retain_set(&self, set: SetId) -> Result<()> {
        self.with(set, |set| set.info.as_mut().expect("made with one").users += 1)
    }

    fn name_set(&self, set: SetId, name: &str) -> Result<()> {
        if self.find_set(name)?.is_some() {
            return Err(Error::Exists(name.into()));
        }
        self.with(set, |set| set.info.as_mut().expect("made with one").options.name = Some(name.into()))
    }

    fn release_set(&self, set: SetId) {
        let last = self.with(set, |set| {
            let info = set.info.as_mut().expect("made with one");
            info.users = info.users.checked_sub(1).expect("released more often than retained");
            info.users == 0 && info.options.name.is_none()
        });
        if matches!(last, Ok(true)) {
            let _ = self.drop_set(set);
        }
    }

    fn set_attributes(&self, set: SetId, attributes: Attributes) -> Result<()> {
        self.with(set, |set| {
            let info = set.info.as_mut().expect("made with one");
            info.ended = attributes.ended.unwrap_or(info.ended);
            info.operation = attributes.operation.unwrap_or(info.operation);
        })
    }

    fn drop_set(&self, set: SetId) -> Result<()> {
        let gone = self.state.lock().sets.remove(&set);
        gone.map(drop).ok_or(Error::NoSet(set))
    }

    fn allocate(&self, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>> {
        self.extents(None, set, lengths)
    }

    fn seal(&self, set: SetId, spec: PageSpec, extents: Vec<Extent>) -> Result<DataInfo> {
        let extents: Vec<Arc<Extent>> = extents.into_iter().map(Arc::new).collect();
        let mut state = self.state.lock();
        let live = state.sets.values().flat_map(|set| set.pages.values()).flat_map(|page| &page.buffers);
        let known: Vec<Arc<Extent>> =
            extents.iter().cloned().chain(live.map(|buffer| Arc::clone(&buffer.extent))).collect();
        let mut buffers = Vec::new();
        for buffer in &spec.buffers {
            let found = known.iter().find_map(|extent| {
                let start = buffer.offset.checked_sub(extent.offset() as u64)?;
                let fits = extent.segment().id() == buffer.segment && start + buffer.length <= extent.len() as u64;
                fits.then(|| PageBuffer {
                    extent: Arc::clone(extent),
                    range: start as usize..(start + buffer.length) as usize,
                })
            });
            buffers.push(found.ok_or_else(|| Error::Invalid(format!("{buffer:?} is in no extent")))?);
        }
        let place = state.sets.get_mut(&set).ok_or(Error::NoSet(set))?;
        if let Some(key) = &spec.key {
            if let Some(page) = place.pages.values().find(|page| page.info.key.as_ref() == Some(key)) {
                return Ok(page.info.clone());
            }
        }
        let number = place.next;
        place.next += 1;
        let info = DataInfo {
            page: PageId { set, number },
            key: spec.key,
            rows: spec.rows,
            bytes: spec.buffers.iter().map(|buffer| buffer.length).sum(),
            location: Location::Memory,
            statistics: spec.statistics,
        };
        let page = Page { info: info.clone(), header: spec.header.into(), buffers, _extents: extents };
        place.pages.insert(number, Arc::new(page));
        Ok(info)
    }

    fn pin(&self, page: PageId) -> Result<Pinned> {
        let page = self.page(page)?;
        let (info, header, buffers) = (page.info.clone(), Arc::clone(&page.header), page.buffers.clone());
        let pins = Arc::clone(&self.pins);
        pins.fetch_add(1, Ordering::SeqCst);
        let unpin = move || drop((pins.fetch_sub(1, Ordering::SeqCst), page));
        Ok(Pinned { info, header, buffers: buffers.into(), unpin: Some(Box::new(unpin)) })
    }

    fn pin_many(&self, pages: &[PageId]) -> Result<Vec<Pinned>> {
        self.asked.lock().push(pages.len());
        pages.iter().map(|page| self.pin(*page)).collect()
    }

    fn prefetch(&self, pages: &[PageId]) {
        self.state.lock().prefetched.extend(pages);
    }

    fn pages(&self, set: SetId) -> Result<Vec<DataInfo>> {
        self.with(set, |set| set.pages.values().map(|page| page.info.clone()).collect())
    }

    fn find_pages(&self, set: SetId, keys: &[Vec<u8>]) -> Result<Vec<Option<DataInfo>>> {
        self.with(set, |set| {
            let by_key: HashMap<_, _> = set.pages.values().map(|page| (page.info.key.clone(), &page.info)).collect();
            keys.iter().map(|key| by_key.get(&Some(key.clone())).copied().cloned()).collect()
        })
    }

    fn drop_page(&self, page: PageId) -> Result<()> {
        let gone = self.with(page.set, |set| set.pages.remove(&page.number)).ok().flatten();
        gone.map(drop).ok_or(Error::NoPage(page))
    }

    fn reserve(&self, least: u64, bytes: u64) -> Result<Reservation> {
        let used = self.used.load(Ordering::SeqCst) + self.reserved.load(Ordering::SeqCst);
        let bytes = bytes.min(self.limit.saturating_sub(used));
        if bytes < least {
            return Err(Error::Full { asked: least, used, limit: self.limit });
        }
        self.reserved.fetch_add(bytes, Ordering::SeqCst);
        let reserved = Arc::clone(&self.reserved);
        Ok(Reservation { bytes, release: Some(Box::new(move || _ = reserved.fetch_sub(bytes, Ordering::SeqCst))) })
    }

    fn describe(&self) -> Result<Vec<SetInfo>> {
        let state = self.state.lock();
        let infos = state
            .sets
            .values()
            .map(|set| SetInfo { pages: set.pages.len() as u64, ..set.info.clone().expect("made with one") });
        Ok(infos.collect())
    }

    fn counters(&self) -> Result<Counters> {
        let state = self.state.lock();
        let slab_used = self.used.load(Ordering::SeqCst);
        let reserved = self.reserved.load(Ordering::SeqCst);
        Ok(Counters { slab_used, reserved, limit: self.limit, clients: state.clients as u64, ..Counters::default() })
    }
}
