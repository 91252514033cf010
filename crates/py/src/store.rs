//! `craton._native.Store`: the Python class of a store, in this process or in another one.

mod buffers;
pub mod handles;
mod names;
mod seal;

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use craton_store::remote::{Address, Client, Server, ServerOptions, Serving};
use craton_store::services::SequentialReader;
use craton_store::{Attributes, Error, Home, Location, PageId, Pool, PoolOptions, SetId, SetOptions};
use craton_wire::Trim;
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::adopt;
use crate::arrow::{ArrowBatches, import_batches};
use crate::errors::{page_error, store_error};
use crate::page::{Page, PageInfo, batches};
use buffers::{exported, slices};
use handles::{HeldReservation, Reader, SetUse};
use names::{COMPRESSION, DURABILITY, OPERATION, READING, WRITING, chosen, counts, described};
use seal::{Extra, seal_encoded, seal_object};

/// A store: see the stub for the contract of each method.
#[pyclass(frozen, module = "craton._native", name = "Store")]
pub struct Store {
    home: Arc<dyn Home>,
    // The pool, if the store is in this process.
    pool: Option<Arc<Pool>>,
    // The server, while this process serves the store.
    server: Mutex<Option<Server>>,
    // The client and the store's address, if the store is in another process.
    connected: Option<(Arc<Client>, String)>,
}

/// The numbers of some pages, and the positions of the columns to read from them; `None` for all columns.
type Group = (Vec<u32>, Option<Vec<usize>>);

impl Store {
    /// The interface of the store: the pool, or the client of another process.
    pub fn home(&self) -> &Arc<dyn Home> {
        &self.home
    }
}

#[pymethods]
impl Store {
    #[staticmethod]
    #[pyo3(signature = (limit, directory, policy, compression, direct_io, io_threads))]
    fn open(
        py: Python<'_>,
        limit: u64,
        directory: Option<PathBuf>,
        policy: &str,
        compression: &str,
        direct_io: bool,
        io_threads: usize,
    ) -> PyResult<Self> {
        let compression = chosen("compression", compression, &COMPRESSION)?;
        let policy = names::policy(policy)?;
        let options =
            PoolOptions { limit, directory, policy, compression, direct_io, io_threads, ..PoolOptions::default() };
        let pool = py.detach(|| Pool::open(options)).map_err(store_error)?;
        let home: Arc<dyn Home> = Arc::<Pool>::clone(&pool);
        Ok(Self { home, pool: Some(pool), server: Mutex::new(None), connected: None })
    }

    #[staticmethod]
    fn connect(py: Python<'_>, address: &str) -> PyResult<Self> {
        let parsed: Address = address.parse().map_err(store_error)?;
        let client = py.detach(|| Client::connect(&parsed)).map_err(store_error)?;
        let client = Arc::new(client);
        let home: Arc<dyn Home> = Arc::<Client>::clone(&client);
        Ok(Self { home, pool: None, server: Mutex::new(None), connected: Some((client, address.to_owned())) })
    }

    #[pyo3(signature = (address=None, quota=None))]
    fn serve(&self, py: Python<'_>, address: Option<&str>, quota: Option<u64>) -> PyResult<String> {
        let Some(pool) = &self.pool else {
            return Err(PyValueError::new_err(
                "this process is a client of the store; only the store's own process can serve it",
            ));
        };
        let wanted = match address {
            Some(address) => address.parse().map_err(store_error)?,
            None => Address::unique(),
        };
        py.detach(|| {
            let mut server = self.server.lock();
            if let Some(server) = &*server {
                let there = server.address().to_string();
                if address.is_none_or(|address| address == there) {
                    return Ok(there);
                }
                return Err(Error::Invalid(format!("the store is already served at {there}")));
            }
            let options = ServerOptions { quota: quota.unwrap_or(u64::MAX), ..ServerOptions::default() };
            let serving: Arc<dyn Serving> = Arc::<Pool>::clone(pool);
            let made = Server::start(serving, wanted, options)?;
            let there = made.address().to_string();
            *server = Some(made);
            Ok(there)
        })
        .map_err(store_error)
    }

    #[getter]
    fn address(&self, py: Python<'_>) -> Option<String> {
        if let Some((_, address)) = &self.connected {
            return Some(address.clone());
        }
        py.detach(|| self.server.lock().as_ref().map(|server| server.address().to_string()))
    }

    /// Whether the store is in another process.
    #[getter]
    fn connected(&self) -> bool {
        self.connected.is_some()
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            drop(self.server.lock().take());
            if let Some((client, _)) = &self.connected {
                client.close();
            }
            if let Some(pool) = &self.pool {
                pool.close();
            }
        });
    }

    fn reader(&self, py: Python<'_>, set: u64, workers: usize) -> PyResult<Reader> {
        let reader = py.detach(|| SequentialReader::new(&self.home, SetId(set), workers)).map_err(store_error)?;
        Ok(Reader::new(reader))
    }

    #[pyo3(
        signature = (name=None, *, tag=b"".as_slice(), durability="write-back", writing="sequential", reading="sequential", pinned=false),
        text_signature = "($self, name=None, *, tag=b'', durability='write-back', writing='sequential', reading='sequential', pinned=False)"
    )]
    #[allow(clippy::too_many_arguments)]
    fn create_set(
        &self,
        py: Python<'_>,
        name: Option<String>,
        tag: &[u8],
        durability: &str,
        writing: &str,
        reading: &str,
        pinned: bool,
    ) -> PyResult<u64> {
        let options = SetOptions {
            name,
            tag: tag.to_vec(),
            durability: chosen("durability", durability, &DURABILITY)?,
            writing: chosen("writing", writing, &WRITING)?,
            reading: chosen("reading", reading, &READING)?,
            pinned,
        };
        py.detach(|| self.home.create_set(options)).map(|set| set.0).map_err(store_error)
    }

    fn find_set(&self, py: Python<'_>, name: &str) -> PyResult<Option<u64>> {
        py.detach(|| self.home.find_set(name)).map(|set| set.map(|set| set.0)).map_err(store_error)
    }

    fn retain_set(&self, py: Python<'_>, set: u64) -> PyResult<()> {
        py.detach(|| self.home.retain_set(SetId(set))).map_err(store_error)
    }

    fn name_set(&self, py: Python<'_>, set: u64, name: &str) -> PyResult<()> {
        py.detach(|| self.home.name_set(SetId(set), name)).map_err(store_error)
    }

    fn release_set(&self, py: Python<'_>, set: u64) {
        py.detach(|| self.home.release_set(SetId(set)));
    }

    fn drop_set(&self, py: Python<'_>, set: u64) -> PyResult<()> {
        py.detach(|| self.home.drop_set(SetId(set))).map_err(store_error)
    }

    #[pyo3(signature = (set, *, writing=None, reading=None, operation=None, pinned=None, ended=None))]
    #[allow(clippy::too_many_arguments)]
    fn set_attributes(
        &self,
        py: Python<'_>,
        set: u64,
        writing: Option<&str>,
        reading: Option<&str>,
        operation: Option<&str>,
        pinned: Option<bool>,
        ended: Option<bool>,
    ) -> PyResult<()> {
        let attributes = Attributes {
            writing: writing.map(|name| chosen("writing", name, &WRITING)).transpose()?,
            reading: reading.map(|name| chosen("reading", name, &READING)).transpose()?,
            operation: operation.map(|name| chosen("operation", name, &OPERATION)).transpose()?,
            pinned,
            ended,
        };
        py.detach(|| self.home.set_attributes(SetId(set), attributes)).map_err(store_error)
    }

    /// Append one page for each record batch; returns an empty list for a stream without batches.
    #[pyo3(
        signature = (set, data, *, key=None, statistics=b"".as_slice(), rebuild=0),
        text_signature = "($self, set, data, *, key=None, statistics=b'', rebuild=0)"
    )]
    fn write(
        &self,
        py: Python<'_>,
        set: u64,
        data: &Bound<'_, PyAny>,
        key: Option<Vec<u8>>,
        statistics: &[u8],
        rebuild: u64,
    ) -> PyResult<Vec<PageInfo>> {
        let (_, batches) = import_batches(data)?;
        if key.is_some() && batches.len() != 1 {
            return Err(PyValueError::new_err(format!(
                "a key names one page, and there are {} batches",
                batches.len()
            )));
        }
        let one = |batch: &RecordBatch| -> PyResult<PageInfo> {
            let shared = |buffer: &Buffer| craton_slab::locate(buffer.as_ptr(), buffer.len()).is_some();
            let encoded = craton_wire::encode_batch(batch, Trim::Unless(&shared)).map_err(page_error)?;
            let extra: Extra = (key.clone(), statistics.to_vec(), rebuild);
            let info = seal_encoded(self.home.as_ref(), SetId(set), encoded, extra).map_err(store_error)?;
            Ok(PageInfo { info })
        };
        py.detach(|| batches.iter().map(one).collect())
    }

    /// Append pages whose buffers lie in memory that another process hands over.
    #[pyo3(signature = (set, memfds, pages, /), text_signature = "($self, set, memfds, pages, /)")]
    fn adopt(
        &self,
        py: Python<'_>,
        set: u64,
        memfds: Vec<adopt::Memfd>,
        pages: Vec<adopt::Described>,
    ) -> PyResult<Vec<PageInfo>> {
        let Some(pool) = &self.pool else {
            return Err(PyValueError::new_err("only a store in this process can take over memory"));
        };
        let (memfds, pages) = (adopt::memfds(memfds)?, adopt::pages(pages));
        let sealed = py.detach(|| pool.adopt(SetId(set), memfds, pages)).map_err(store_error)?;
        Ok(sealed.into_iter().map(|info| PageInfo { info }).collect())
    }

    /// Append a page with the parts of a pickled object.
    #[pyo3(
        signature = (set, meta, buffers, *, statistics=b"".as_slice()),
        text_signature = "($self, set, meta, buffers, *, statistics=b'')"
    )]
    fn write_object(
        &self,
        py: Python<'_>,
        set: u64,
        meta: Vec<Bound<'_, PyAny>>,
        buffers: Vec<Bound<'_, PyAny>>,
        statistics: &[u8],
    ) -> PyResult<PageInfo> {
        let (meta, buffers) = (exported(&meta)?, exported(&buffers)?);
        let (meta, buffers) = (slices(&meta), slices(&buffers));
        let extra: Extra = (None, statistics.to_vec(), 0);
        let info =
            py.detach(|| seal_object(self.home.as_ref(), SetId(set), &meta, &buffers, extra)).map_err(store_error)?;
        Ok(PageInfo { info })
    }

    /// Create a set of one page, with the parts of a pickled object.
    #[pyo3(signature = (meta, buffers, /), text_signature = "($self, meta, buffers, /)")]
    fn put(&self, py: Python<'_>, meta: Vec<Bound<'_, PyAny>>, buffers: Vec<Bound<'_, PyAny>>) -> PyResult<SetUse> {
        let (meta, buffers) = (exported(&meta)?, exported(&buffers)?);
        let (meta, buffers) = (slices(&meta), slices(&buffers));
        py.detach(|| {
            let set = self.home.create_set(SetOptions::default())?;
            let using = SetUse::new(&self.home, set);
            seal_object(self.home.as_ref(), set, &meta, &buffers, Extra::default())?;
            Ok(using)
        })
        .map_err(store_error)
    }

    /// An object that takes over one of the caller's uses of the set, and ends it when it is collected.
    #[pyo3(signature = (set, /), text_signature = "($self, set, /)")]
    fn hold(&self, set: u64) -> SetUse {
        SetUse::new(&self.home, SetId(set))
    }

    fn pin(&self, py: Python<'_>, set: u64, number: u32) -> PyResult<Page> {
        let pinned = py.detach(|| self.home.pin(PageId { set: SetId(set), number })).map_err(store_error)?;
        Ok(Page::new(pinned))
    }

    /// Pages of a set as Arrow data, pinned together: for each group, the streams that [`batches`] returns.
    #[pyo3(signature = (set, groups, /), text_signature = "($self, set, groups, /)")]
    fn read(&self, py: Python<'_>, set: u64, groups: Vec<Group>) -> PyResult<Vec<Vec<ArrowBatches>>> {
        py.detach(|| {
            let pages = groups.iter().flat_map(|(numbers, _)| numbers);
            let pages: Vec<PageId> = pages.map(|number| PageId { set: SetId(set), number: *number }).collect();
            let mut pinned = self.home.pin_many(&pages).map_err(store_error)?.into_iter();
            let one = |(numbers, columns): &Group| {
                batches(pinned.by_ref().take(numbers.len()), columns.as_deref()).map_err(page_error)
            };
            groups.iter().map(one).collect()
        })
    }

    /// All pages of a set as Arrow data, pinned together, if all are in memory; otherwise `None`.
    #[pyo3(signature = (set, columns=None), text_signature = "($self, set, columns=None)")]
    fn read_all(&self, py: Python<'_>, set: u64, columns: Option<Vec<usize>>) -> PyResult<Option<Vec<ArrowBatches>>> {
        py.detach(|| {
            let pages = self.home.pages(SetId(set)).map_err(store_error)?;
            if pages.iter().any(|info| info.location == Location::Disk) {
                return Ok(None);
            }
            let pages: Vec<PageId> = pages.into_iter().map(|info| info.page).collect();
            let pinned = self.home.pin_many(&pages).map_err(store_error)?;
            batches(pinned.into_iter(), columns.as_deref()).map(Some).map_err(page_error)
        })
    }

    fn prefetch(&self, py: Python<'_>, pages: Vec<(u64, u32)>) {
        let pages: Vec<PageId> = pages.into_iter().map(|(set, number)| PageId { set: SetId(set), number }).collect();
        py.detach(|| self.home.prefetch(&pages));
    }

    fn pages(&self, py: Python<'_>, set: u64) -> PyResult<Vec<PageInfo>> {
        let pages = py.detach(|| self.home.pages(SetId(set))).map_err(store_error)?;
        Ok(pages.into_iter().map(|info| PageInfo { info }).collect())
    }

    fn find_pages(&self, py: Python<'_>, set: u64, keys: Vec<Vec<u8>>) -> PyResult<Vec<Option<PageInfo>>> {
        let pages = py.detach(|| self.home.find_pages(SetId(set), &keys)).map_err(store_error)?;
        Ok(pages.into_iter().map(|info| info.map(|info| PageInfo { info })).collect())
    }

    fn drop_page(&self, py: Python<'_>, set: u64, number: u32) -> PyResult<()> {
        py.detach(|| self.home.drop_page(PageId { set: SetId(set), number })).map_err(store_error)
    }

    fn reserve(&self, py: Python<'_>, least: u64, most: u64) -> PyResult<HeldReservation> {
        let held = py.detach(|| self.home.reserve(least, most)).map_err(store_error)?;
        Ok(HeldReservation::new(held))
    }

    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let sets = py.detach(|| self.home.describe()).map_err(store_error)?;
        sets.iter().map(|info| described(py, info)).collect()
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counted = py.detach(|| self.home.counters()).map_err(store_error)?;
        counts(py, &counted)
    }

    fn prometheus(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| craton_store::prometheus(self.home.as_ref())).map_err(store_error)
    }
}

/// Verify the checksum of a page's file; returns the error as text, or `None` if the file is intact.
#[pyfunction]
pub fn verify_page_file(py: Python<'_>, path: PathBuf) -> Option<String> {
    py.detach(|| craton_store::verify_file(&path)).err().map(|error| error.to_string())
}

/// Remove the folders of dead stores; return their paths.
#[pyfunction]
#[pyo3(signature = (directory=None))]
pub fn remove_dead_stores(py: Python<'_>, directory: Option<PathBuf>) -> Vec<PathBuf> {
    py.detach(|| craton_store::remove_dead(&directory.unwrap_or_else(std::env::temp_dir)))
}
