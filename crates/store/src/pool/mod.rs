//! The buffer pool: the memory budget, and the pages in memory and on disk.
//!
//! One lock guards the tables of sets and pages. It is never held while bytes are copied, or while a thread waits for a disk or another
//! thread. Slow operations run without the lock, and their results are entered afterwards; a page is marked while it is being read or written.

mod adopt;
mod evict;
mod jobs;
mod load;
mod memory;
mod seal;
mod serving;
mod slabs;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use craton_slab::{Extent, Slab, SlabOptions};
use parking_lot::{Condvar, Mutex};

use crate::api::{Attributes, Counters, DataInfo, Home, PageSpec, Pinned, Reservation, SetInfo, SetOptions};
use crate::bounce::Bounces;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::ids::{PageId, SetId};
use crate::images::Compression;
use crate::io::Access;
use crate::policy::{DataAware, Policy};
pub use adopt::HandedOver;
use jobs::{Job, Jobs};
use memory::{Memory, rounded};
use slabs::Slabs;
use tables::{Garbage, Tables};

/// The options of a pool.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Bytes of memory that extents and reservations may have together.
    pub limit: u64,
    /// The parent of the store's folder, which is created when the first page is written; by default the system's folder for temporary files.
    /// Folders of dead stores in it are removed.
    pub directory: Option<PathBuf>,
    /// The eviction policy.
    pub policy: Arc<dyn Policy>,
    /// Number of threads that write victims and read ahead; at least one.
    pub io_threads: usize,
    /// The compression of page images.
    pub compression: Compression,
    /// Whether to read and write images by direct I/O, if the file system supports it; otherwise through the system's page cache.
    pub direct_io: bool,
    /// Bytes of a segment of shared memory; a larger extent gets its own segment.
    pub segment_bytes: u64,
    /// The most bytes of unsealed extents and pinned pages that one client of a server over this pool may have; by default the limit.
    pub client_quota: Option<u64>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            limit: 1 << 30,
            directory: None,
            policy: Arc::new(DataAware),
            io_threads: 2,
            compression: Compression::None,
            direct_io: true,
            segment_bytes: SlabOptions::default().segment_bytes,
            client_quota: None,
        }
    }
}

// Memory that is idle in one client's segments may exceed the limit by this fraction (1/32) of it, while another client allocates.
const SLACK: u64 = 32;
// Idle memory between extents that cannot be freed is subtracted from the memory of pages, up to this fraction (1/4) of the limit.
const MOST_IDLE: u64 = 4;

/// The state shared by the pool, its I/O threads and pinned pages.
struct Shared {
    options: PoolOptions,
    slabs: Slabs,
    memory: Arc<Memory>,
    tables: Mutex<Tables>,
    // Signalled when the loading of a page has succeeded or failed.
    loaded: Condvar,
    jobs: Jobs,
    folder: Folder,
    bounces: Bounces,
    nothing: Mutex<Option<Arc<Extent>>>,
}

impl Shared {
    fn path(&self, page: PageId) -> PathBuf {
        self.folder.path().join(page.set.to_string()).join(format!("{}.arrow", page.number))
    }

    fn access(&self) -> Access<'_> {
        if self.options.direct_io { Access::Direct(&self.bounces) } else { Access::Buffered }
    }

    /// Allocate extents in `slab` for pages of `set`; evicts pages if necessary.
    fn allocate(&self, set: SetId, lengths: &[usize], slab: &Arc<Slab>) -> Result<Vec<Extent>> {
        self.tables.lock().set(set)?;
        let bytes = lengths.iter().map(|length| rounded(*length)).try_fold(0u64, u64::checked_add);
        let bytes = bytes.unwrap_or(u64::MAX);
        let mut charge = self.room(bytes)?;
        self.write_ahead(bytes);
        let extents = lengths.iter().map(|length| charge.extent(slab, *length)).collect();
        // Idle memory in the slabs of other clients may exceed the limit now.
        self.give_back(self.memory.limit() / SLACK);
        extents
    }

    /// Return idle memory to the system if extents, idle memory and reservations exceed the limit by more than `slack` bytes.
    fn give_back(&self, slack: u64) {
        let (_, reserved) = self.memory.usage();
        let limit = self.memory.limit();
        let beyond = self.slabs.give_back(limit.saturating_sub(reserved), slack);
        self.memory.set_idle(if beyond <= slack { 0 } else { beyond.min(limit / MOST_IDLE) });
    }

    fn drop_set(&self, set: SetId) -> Result<()> {
        let mut garbage = Garbage::default();
        let result = self.tables.lock().drop_set(set, &mut garbage);
        self.discard(garbage);
        // Remove the set's folder even if its pages were dropped one by one before.
        if self.folder.is_made() {
            let _ = std::fs::remove_dir(self.folder.path().join(set.to_string()));
        }
        self.memory.nudge();
        result
    }

    fn work(&self) {
        while let Some(job) = self.jobs.next() {
            match job {
                Job::Write(write) => self.write_back(write),
                Job::Load(page) => self.load_ahead(page),
            }
        }
    }
}

/// A store in this process. It is closed when it is dropped; pinned pages stay readable.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    // The process of the I/O threads: a forked child has no such threads, and must not wait for them.
    process: u32,
}

impl Pool {
    /// Open a store without sets.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn open(options: PoolOptions) -> Result<Arc<Self>> {
        let parent = options.directory.clone().unwrap_or_else(std::env::temp_dir);
        let shared = Arc::new(Shared {
            slabs: Slabs::new(options.limit, options.segment_bytes),
            memory: Memory::new(options.limit),
            tables: Mutex::new(Tables::default()),
            loaded: Condvar::new(),
            jobs: Jobs::default(),
            folder: Folder::new(&parent),
            bounces: Bounces::new(options.io_threads.max(1) + 1),
            nothing: Mutex::new(None),
            options,
        });
        let pool = Arc::new(Self {
            shared: Arc::clone(&shared),
            threads: Mutex::new(Vec::new()),
            process: std::process::id(),
        });
        for number in 0..shared.options.io_threads.max(1) {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name(format!("craton-io-{number}"))
                .spawn(move || shared.work())
                .map_err(|error| Error::io("start an I/O thread".into(), &error))?;
            pool.threads.lock().push(thread);
        }
        Ok(pool)
    }

    /// Drop all sets, end the I/O threads and remove the folder. Later calls fail with [`Error::Closed`].
    pub fn close(&self) {
        let mut garbage = Garbage::default();
        let mut tables = self.shared.tables.lock();
        let sets: Vec<SetId> = tables.sets.keys().copied().collect();
        for set in sets {
            let _ = tables.drop_set(set, &mut garbage);
        }
        tables.closed = true;
        self.shared.loaded.notify_all();
        drop(tables);
        self.shared.jobs.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        if std::process::id() == self.process {
            for thread in threads {
                let _ = thread.join();
            }
        }
        drop(garbage.memory);
        self.shared.folder.close();
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> &PoolOptions {
        &self.shared.options
    }

    /// The slab of this process's pages.
    #[must_use]
    pub fn slab(&self) -> &Arc<Slab> {
        self.shared.slabs.own()
    }

    /// The folder of its page images; it exists once a page was written.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.shared.folder.path()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

impl Home for Pool {
    fn create_set(&self, options: SetOptions) -> Result<SetId> {
        self.shared.tables.lock().create(options)
    }

    fn find_set(&self, name: &str) -> Result<Option<SetId>> {
        let tables = self.shared.tables.lock();
        tables.open()?;
        Ok(tables.names.get(name).copied())
    }

    fn retain_set(&self, set: SetId) -> Result<()> {
        self.shared.tables.lock().set(set)?.users += 1;
        Ok(())
    }

    fn name_set(&self, set: SetId, name: &str) -> Result<()> {
        self.shared.tables.lock().name(set, name)
    }

    fn release_set(&self, set: SetId) {
        let last = self.shared.tables.lock().set(set).is_ok_and(|set| {
            set.users = set.users.saturating_sub(1);
            set.users == 0 && set.options.name.is_none()
        });
        if last {
            let _ = self.shared.drop_set(set);
        }
    }

    fn set_attributes(&self, set: SetId, attributes: Attributes) -> Result<()> {
        self.shared.tables.lock().change(set, attributes)?;
        self.shared.memory.nudge();
        Ok(())
    }

    fn drop_set(&self, set: SetId) -> Result<()> {
        self.shared.drop_set(set)
    }

    fn allocate(&self, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>> {
        self.shared.allocate(set, lengths, self.shared.slabs.own())
    }

    fn seal(&self, set: SetId, spec: PageSpec, extents: Vec<Extent>) -> Result<DataInfo> {
        self.shared.seal(set, spec, extents)
    }

    fn pin(&self, page: PageId) -> Result<Pinned> {
        self.shared.pin(page)
    }

    fn prefetch(&self, pages: &[PageId]) {
        self.shared.prefetch(pages);
    }

    fn pages(&self, id: SetId) -> Result<Vec<DataInfo>> {
        let mut tables = self.shared.tables.lock();
        let pages = &tables.set(id)?.pages;
        Ok(pages.iter().map(|(number, page)| page.info(PageId { set: id, number: *number })).collect())
    }

    fn find_pages(&self, id: SetId, keys: &[Vec<u8>]) -> Result<Vec<Option<DataInfo>>> {
        let mut tables = self.shared.tables.lock();
        let set = tables.set(id)?;
        let find = |key: &Vec<u8>| {
            let number = *set.keys.get(key.as_slice())?;
            Some(set.pages.get(&number)?.info(PageId { set: id, number }))
        };
        Ok(keys.iter().map(find).collect())
    }

    fn drop_page(&self, page: PageId) -> Result<()> {
        let mut garbage = Garbage::default();
        let result = self.shared.tables.lock().remove(page, &mut garbage);
        self.shared.discard(garbage);
        self.shared.memory.nudge();
        result
    }

    fn reserve(&self, least: u64, bytes: u64) -> Result<Reservation> {
        let shared = &self.shared;
        shared.tables.lock().open()?;
        let bytes = bytes.max(least);
        let wanted = bytes.min(shared.memory.limit()).max(least);
        let given = shared.seek(wanted, |memory| memory.reserve(wanted, wanted));
        let given = given.or_else(|error| shared.memory.reserve(least, bytes).ok_or(error))?;
        // The memory that pages lost is for the reservation, so it must not stay idle in the slabs.
        shared.give_back(0);
        let memory = Arc::clone(&shared.memory);
        Ok(Reservation { bytes: given, release: Some(Box::new(move || memory.unreserve(given))) })
    }

    fn describe(&self) -> Result<Vec<SetInfo>> {
        let tables = self.shared.tables.lock();
        tables.open()?;
        Ok(tables.describe())
    }

    fn counters(&self) -> Result<Counters> {
        let slab = self.shared.slabs.usage();
        let tables = self.shared.tables.lock();
        tables.open()?;
        let (_, reserved) = self.shared.memory.usage();
        Ok(Counters {
            slab_used: slab.used,
            slab_reserved: slab.reserved,
            reserved,
            limit: self.shared.memory.limit(),
            sets: tables.sets.len() as u64,
            ..tables.counters
        })
    }
}
