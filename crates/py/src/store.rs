//! `craton._native.Store`: a store in this process or in another one, as Python sees it.

use std::io;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use craton_store::policy::{self, Policy};
use craton_store::remote::{Address, Client, Server, ServerOptions, Serving};
use craton_store::services::SequentialReader;
use craton_store::{
    Attributes, Compression, Counters, DataInfo, Durability, Error, Home, Location, Operation, PageId, PageSpec, Pool,
    PoolOptions, Reading, Reservation, SetId, SetInfo, SetOptions, Writing,
};
use parking_lot::Mutex;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{
    PyBufferError, PyConnectionError, PyFileExistsError, PyKeyError, PyMemoryError, PyOSError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrow::{ArrowBatches, import_batches};
use crate::copy::Copies;
use crate::page::{Page, PageInfo, batches, invalid};
use crate::place::{Placed, place};
use craton_slab::Extent;
use craton_wire::object::encode_object;
use craton_wire::{Encoded, Trim};

pyo3::create_exception!(craton._native, CorruptPage, PyOSError, "A page on disk is not what was written.");

/// A store's error as the exception that fits it best.
pub fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::NoSet(_) | Error::NoPage(_) => PyKeyError::new_err(text),
        Error::Exists(_) => PyFileExistsError::new_err(text),
        Error::Full { .. } | Error::Quota { .. } => PyMemoryError::new_err(text),
        Error::Corrupt { .. } => CorruptPage::new_err(text),
        Error::Io { code, .. } if code != 0 => io::Error::from_raw_os_error(code).into_pyerr(&text),
        Error::Io { .. } => PyOSError::new_err(text),
        Error::Connection { .. } => PyConnectionError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

trait IntoPyErr {
    fn into_pyerr(self, text: &str) -> PyErr;
}

impl IntoPyErr for io::Error {
    fn into_pyerr(self, text: &str) -> PyErr {
        PyOSError::new_err((self.raw_os_error(), text.to_owned()))
    }
}

/// Memory kept free of pages until it is released.
#[pyclass(module = "craton._native", name = "Reservation")]
pub struct Held {
    held: Option<Reservation>,
}

#[pymethods]
impl Held {
    #[getter]
    fn nbytes(&self) -> u64 {
        self.held.as_ref().map_or(0, |held| held.bytes)
    }

    fn release(&mut self, py: Python<'_>) {
        let held = self.held.take();
        py.detach(|| drop(held));
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&mut self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.release(py);
    }
}

/// A store: see the stub for the contract of each method.
#[pyclass(frozen, module = "craton._native", name = "Store")]
pub struct Store {
    home: Arc<dyn Home>,
    // The pool, when it is in this process.
    pool: Option<Arc<Pool>>,
    // Who serves it to others; and, of a client, the client and where the store is.
    server: Mutex<Option<Server>>,
    connected: Option<(Arc<Client>, String)>,
}

/// A use of a set, given up when it is collected.
#[pyclass(frozen, module = "craton._native", name = "SetUse")]
pub struct SetUse {
    home: Arc<dyn Home>,
    set: SetId,
}

#[pymethods]
impl SetUse {
    #[getter]
    fn number(&self) -> u64 {
        self.set.0
    }
}

impl Drop for SetUse {
    fn drop(&mut self) {
        // Giving memory back to the system may take a while.
        match Python::try_attach(|py| py.detach(|| self.home.release_set(self.set))) {
            Some(()) => {}
            None => self.home.release_set(self.set),
        }
    }
}

/// Pages of a set, each once, to whichever thread asks next.
#[pyclass(frozen, module = "craton._native", name = "Reader")]
pub struct Reader {
    reader: Mutex<Option<Arc<SequentialReader>>>,
}

#[pymethods]
impl Reader {
    /// The next page, or none at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Page>> {
        let Some(reader) = self.reader.lock().clone() else { return Ok(None) };
        let pinned = py.detach(|| reader.next_page()).map_err(raised)?;
        Ok(pinned.map(Page::new))
    }

    /// Stop reading ahead.
    fn close(&self, py: Python<'_>) {
        let reader = self.reader.lock().take();
        py.detach(|| drop(reader));
    }
}

fn chosen<T: Copy>(what: &str, name: &str, known: &[(&str, T)]) -> PyResult<T> {
    known.iter().find(|(text, _)| *text == name).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(text, _)| *text).collect();
        PyValueError::new_err(format!("{what} is one of {names:?}, not {name:?}"))
    })
}

const DURABILITY: [(&str, Durability); 3] = [
    ("write-back", Durability::WriteBack),
    ("write-through", Durability::WriteThrough),
    ("discard", Durability::Discard),
];
const WRITING: [(&str, Writing); 3] =
    [("sequential", Writing::Sequential), ("concurrent", Writing::Concurrent), ("random", Writing::RandomMutable)];
const READING: [(&str, Reading); 2] = [("sequential", Reading::Sequential), ("random", Reading::Random)];
const COMPRESSION: [(&str, Compression); 2] = [("none", Compression::None), ("lz4", Compression::Lz4)];
const OPERATION: [(&str, Operation); 4] = [
    ("none", Operation::None),
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("read-write", Operation::ReadWrite),
];

fn name_of<T: Copy + PartialEq>(value: T, known: &[(&'static str, T)]) -> &'static str {
    known.iter().find(|(_, other)| *other == value).map_or("?", |(text, _)| text)
}

/// What a page has beside its data: key, statistics, and nanoseconds to make it again.
type Extra = (Option<Vec<u8>>, Vec<u8>, u64);

/// The numbers of some pages, and the columns that are wanted of them, all if there is no list.
type Group = (Vec<u32>, Option<Vec<usize>>);

/// Memory that Python objects export, contiguous, for the time of a call.
fn exported(objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<PyUntypedBuffer>> {
    let one = |object: &Bound<'_, PyAny>| {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.is_c_contiguous() {
            return Ok(buffer);
        }
        let kind = object.get_type().qualname()?;
        Err(PyBufferError::new_err(format!("the memory of a {kind} is not contiguous: pass one that is")))
    };
    objects.iter().map(one).collect()
}

/// The bytes of each; they may be used as long as the exports live.
fn slices(exports: &[PyUntypedBuffer]) -> Vec<&[u8]> {
    let one = |export: &PyUntypedBuffer| -> &[u8] {
        if export.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: exported, contiguous, and of that length, until the export is released.
        unsafe { std::slice::from_raw_parts(export.buf_ptr().cast(), export.len_bytes()) }
    };
    exports.iter().map(one).collect()
}

impl Store {
    /// What does the work, here or elsewhere.
    pub fn home(&self) -> &Arc<dyn Home> {
        &self.home
    }

    fn sealed(&self, set: SetId, encoded: Encoded, extra: Extra) -> craton_store::Result<DataInfo> {
        let (key, statistics, rebuild) = extra;
        let Encoded { header, buffers, rows } = encoded;
        let Placed { references, extents } = place(self.home.as_ref(), set, &buffers, Vec::new(), true)?;
        let spec = PageSpec { key, header, buffers: references, rows, statistics, rebuild };
        match self.home.seal(set, spec.clone(), extents) {
            // Memory of a segment that is no page's (somebody's unsealed extent, or a page that was dropped): copy it.
            Err(Error::Invalid(_)) => {
                let Placed { references, extents } = place(self.home.as_ref(), set, &buffers, Vec::new(), false)?;
                self.home.seal(set, PageSpec { buffers: references, ..spec }, extents)
            }
            other => other,
        }
    }

    /// A page with a pickled object, whose metadata may be in several pieces.
    fn seal_object(
        &self,
        set: SetId,
        meta: &[&[u8]],
        buffers: &[&[u8]],
        extra: Extra,
    ) -> craton_store::Result<DataInfo> {
        let buffers: Vec<Buffer> = buffers.iter().map(|bytes| borrowed(bytes)).collect();
        let encode = |meta, buffers| encode_object(meta, buffers).map_err(|e| Error::Invalid(e.to_string()));
        if let [meta] = meta {
            return self.sealed(set, encode(borrowed(meta), buffers)?, extra);
        }
        let once = |share| {
            // The pieces are put together where the page will be.
            let mut granted = self.home.allocate(set, &[meta.iter().map(|piece| piece.len()).sum()])?;
            let target = granted.first_mut().and_then(Extent::as_mut_slice);
            let target = target.ok_or_else(|| Error::Invalid("no extent was granted that can be written".into()))?;
            let mut copies = Copies::default();
            let mut rest = target;
            for piece in meta {
                let (own, others) = rest.split_at_mut(piece.len());
                copies.push(own, piece);
                rest = others;
            }
            copies.run();
            let joined = borrowed(granted.first().map_or(&[], Extent::as_slice));
            let Encoded { header, buffers, rows } = encode(joined, buffers.clone())?;
            let Placed { references, extents } = place(self.home.as_ref(), set, &buffers, granted, share)?;
            let (key, statistics, rebuild) = extra.clone();
            let spec = PageSpec { key, header, buffers: references, rows, statistics, rebuild };
            self.home.seal(set, spec, extents)
        };
        match once(true) {
            Err(Error::Invalid(_)) => once(false),
            other => other,
        }
    }
}

/// Memory that somebody else keeps until the call that uses the buffer has returned.
fn borrowed(bytes: &[u8]) -> Buffer {
    let Some(start) = NonNull::new(bytes.as_ptr().cast_mut()).filter(|_| !bytes.is_empty()) else {
        return Buffer::from_vec(Vec::<u8>::new());
    };
    // SAFETY: the caller keeps the memory for as long as the buffer, which does not leave the call, lives.
    unsafe { Buffer::from_custom_allocation(start, bytes.len(), Arc::new(())) }
}

fn policy(name: &str) -> PyResult<Arc<dyn Policy>> {
    policy::by_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("policy is one of {:?}, not {name:?}", policy::NAMES)))
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
        let policy = self::policy(policy)?;
        let options =
            PoolOptions { limit, directory, policy, compression, direct_io, io_threads, ..PoolOptions::default() };
        let pool = py.detach(|| Pool::open(options)).map_err(raised)?;
        let home: Arc<dyn Home> = Arc::<Pool>::clone(&pool);
        Ok(Self { home, pool: Some(pool), server: Mutex::new(None), connected: None })
    }

    #[staticmethod]
    fn connect(py: Python<'_>, address: &str) -> PyResult<Self> {
        let parsed: Address = address.parse().map_err(raised)?;
        let client = py.detach(|| Client::connect(&parsed)).map_err(raised)?;
        let client = Arc::new(client);
        let home: Arc<dyn Home> = Arc::<Client>::clone(&client);
        Ok(Self { home, pool: None, server: Mutex::new(None), connected: Some((client, address.to_owned())) })
    }

    #[pyo3(signature = (address=None, quota=None))]
    fn serve(&self, py: Python<'_>, address: Option<&str>, quota: Option<u64>) -> PyResult<String> {
        let Some(pool) = &self.pool else {
            return Err(PyValueError::new_err(
                "this process is a client of the store; the process that has it serves it",
            ));
        };
        let wanted = match address {
            Some(address) => address.parse().map_err(raised)?,
            None => Address::unique(),
        };
        py.detach(|| {
            let mut server = self.server.lock();
            if let Some(server) = &*server {
                let there = server.address().to_string();
                if address.is_none_or(|address| address == there) {
                    return Ok(there);
                }
                return Err(Error::Invalid(format!("the store is served at {there} already")));
            }
            let options = ServerOptions { quota: quota.unwrap_or(u64::MAX), ..ServerOptions::default() };
            let serving: Arc<dyn Serving> = Arc::<Pool>::clone(pool);
            let made = Server::start(serving, wanted, options)?;
            let there = made.address().to_string();
            *server = Some(made);
            Ok(there)
        })
        .map_err(raised)
    }

    #[getter]
    fn address(&self, py: Python<'_>) -> Option<String> {
        if let Some((_, address)) = &self.connected {
            return Some(address.clone());
        }
        py.detach(|| self.server.lock().as_ref().map(|server| server.address().to_string()))
    }

    /// Whether the store is another process's.
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
        let reader = py.detach(|| SequentialReader::new(&self.home, SetId(set), workers)).map_err(raised)?;
        Ok(Reader { reader: Mutex::new(Some(Arc::new(reader))) })
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
        py.detach(|| self.home.create_set(options)).map(|set| set.0).map_err(raised)
    }

    fn find_set(&self, py: Python<'_>, name: &str) -> PyResult<Option<u64>> {
        py.detach(|| self.home.find_set(name)).map(|set| set.map(|set| set.0)).map_err(raised)
    }

    fn retain_set(&self, py: Python<'_>, set: u64) -> PyResult<()> {
        py.detach(|| self.home.retain_set(SetId(set))).map_err(raised)
    }

    fn release_set(&self, py: Python<'_>, set: u64) {
        py.detach(|| self.home.release_set(SetId(set)));
    }

    fn drop_set(&self, py: Python<'_>, set: u64) -> PyResult<()> {
        py.detach(|| self.home.drop_set(SetId(set))).map_err(raised)
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
        py.detach(|| self.home.set_attributes(SetId(set), attributes)).map_err(raised)
    }

    /// A page a record batch; an empty list for a stream without batches.
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
            let encoded = craton_wire::encode_batch(batch, Trim::Unless(&shared)).map_err(invalid)?;
            let extra: Extra = (key.clone(), statistics.to_vec(), rebuild);
            let info = self.sealed(SetId(set), encoded, extra).map_err(raised)?;
            Ok(PageInfo { info })
        };
        py.detach(|| batches.iter().map(one).collect())
    }

    /// A page with a pickled object's parts.
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
        let info = py.detach(|| self.seal_object(SetId(set), &meta, &buffers, extra)).map_err(raised)?;
        Ok(PageInfo { info })
    }

    /// A new set of one page, with a pickled object's parts.
    #[pyo3(signature = (meta, buffers, /), text_signature = "($self, meta, buffers, /)")]
    fn put(&self, py: Python<'_>, meta: Vec<Bound<'_, PyAny>>, buffers: Vec<Bound<'_, PyAny>>) -> PyResult<SetUse> {
        let (meta, buffers) = (exported(&meta)?, exported(&buffers)?);
        let (meta, buffers) = (slices(&meta), slices(&buffers));
        py.detach(|| {
            let set = self.home.create_set(SetOptions::default())?;
            let using = SetUse { home: Arc::clone(&self.home), set };
            self.seal_object(set, &meta, &buffers, Extra::default())?;
            Ok(using)
        })
        .map_err(raised)
    }

    /// What gives up one use of the set, which the caller has, when it is collected.
    #[pyo3(signature = (set, /), text_signature = "($self, set, /)")]
    fn hold(&self, set: u64) -> SetUse {
        SetUse { home: Arc::clone(&self.home), set: SetId(set) }
    }

    fn pin(&self, py: Python<'_>, set: u64, number: u32) -> PyResult<Page> {
        let pinned = py.detach(|| self.home.pin(PageId { set: SetId(set), number })).map_err(raised)?;
        Ok(Page::new(pinned))
    }

    /// Pages of a set as Arrow data, pinned together: for each group of pages the streams of [`batches`].
    #[pyo3(signature = (set, groups, /), text_signature = "($self, set, groups, /)")]
    fn read(&self, py: Python<'_>, set: u64, groups: Vec<Group>) -> PyResult<Vec<Vec<ArrowBatches>>> {
        py.detach(|| {
            let pages = groups.iter().flat_map(|(numbers, _)| numbers);
            let pages: Vec<PageId> = pages.map(|number| PageId { set: SetId(set), number: *number }).collect();
            let mut pinned = self.home.pin_many(&pages).map_err(raised)?.into_iter();
            let one = |(numbers, columns): &Group| {
                batches(pinned.by_ref().take(numbers.len()), columns.as_deref()).map_err(invalid)
            };
            groups.iter().map(one).collect()
        })
    }

    /// All pages of a set as Arrow data, pinned together, when all are in memory.
    #[pyo3(signature = (set, columns=None), text_signature = "($self, set, columns=None)")]
    fn read_all(&self, py: Python<'_>, set: u64, columns: Option<Vec<usize>>) -> PyResult<Option<Vec<ArrowBatches>>> {
        py.detach(|| {
            let pages = self.home.pages(SetId(set)).map_err(raised)?;
            if pages.iter().any(|info| info.location == Location::Disk) {
                return Ok(None);
            }
            let pages: Vec<PageId> = pages.into_iter().map(|info| info.page).collect();
            let pinned = self.home.pin_many(&pages).map_err(raised)?;
            batches(pinned.into_iter(), columns.as_deref()).map(Some).map_err(invalid)
        })
    }

    fn prefetch(&self, py: Python<'_>, pages: Vec<(u64, u32)>) {
        let pages: Vec<PageId> = pages.into_iter().map(|(set, number)| PageId { set: SetId(set), number }).collect();
        py.detach(|| self.home.prefetch(&pages));
    }

    fn pages(&self, py: Python<'_>, set: u64) -> PyResult<Vec<PageInfo>> {
        let pages = py.detach(|| self.home.pages(SetId(set))).map_err(raised)?;
        Ok(pages.into_iter().map(|info| PageInfo { info }).collect())
    }

    fn find_pages(&self, py: Python<'_>, set: u64, keys: Vec<Vec<u8>>) -> PyResult<Vec<Option<PageInfo>>> {
        let pages = py.detach(|| self.home.find_pages(SetId(set), &keys)).map_err(raised)?;
        Ok(pages.into_iter().map(|info| info.map(|info| PageInfo { info })).collect())
    }

    fn drop_page(&self, py: Python<'_>, set: u64, number: u32) -> PyResult<()> {
        py.detach(|| self.home.drop_page(PageId { set: SetId(set), number })).map_err(raised)
    }

    fn reserve(&self, py: Python<'_>, least: u64, most: u64) -> PyResult<Held> {
        let held = py.detach(|| self.home.reserve(least, most)).map_err(raised)?;
        Ok(Held { held: Some(held) })
    }

    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let sets = py.detach(|| self.home.describe()).map_err(raised)?;
        sets.iter().map(|info| described(py, info)).collect()
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counted = py.detach(|| self.home.counters()).map_err(raised)?;
        counts(py, &counted)
    }

    fn prometheus(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| craton_store::prometheus(self.home.as_ref())).map_err(raised)
    }
}

fn described<'py>(py: Python<'py>, info: &SetInfo) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("set", info.set.0)?;
    row.set_item("name", &info.options.name)?;
    row.set_item("tag", PyBytes::new(py, &info.options.tag))?;
    row.set_item("durability", name_of(info.options.durability, &DURABILITY))?;
    row.set_item("writing", name_of(info.options.writing, &WRITING))?;
    row.set_item("reading", name_of(info.options.reading, &READING))?;
    row.set_item("pinned", info.options.pinned)?;
    row.set_item("operation", name_of(info.operation, &OPERATION))?;
    row.set_item("ended", info.ended)?;
    for (name, value) in [
        ("pages", info.pages),
        ("rows", info.rows),
        ("nbytes", info.bytes),
        ("memory", info.memory),
        ("disk", info.disk),
        ("pins", info.pins),
        ("users", info.users),
        ("recency", info.recency),
        ("hits", info.hits),
        ("misses", info.misses),
    ] {
        row.set_item(name, value)?;
    }
    Ok(row)
}

fn counts<'py>(py: Python<'py>, counted: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    for (name, value) in [
        ("slab_used", counted.slab_used),
        ("slab_reserved", counted.slab_reserved),
        ("page_memory", counted.page_memory),
        ("page_disk", counted.page_disk),
        ("reserved", counted.reserved),
        ("limit", counted.limit),
        ("sets", counted.sets),
        ("pages", counted.pages),
        ("hits", counted.hits),
        ("misses", counted.misses),
        ("evicted_ended", counted.evicted_ended),
        ("evicted_clean", counted.evicted_clean),
        ("evicted_written", counted.evicted_written),
        ("evicted_discarded", counted.evicted_discarded),
        ("written", counted.written),
        ("read", counted.read),
        ("copied", counted.copied),
        ("shared", counted.shared),
        ("clients", counted.clients),
    ] {
        row.set_item(name, value)?;
    }
    Ok(row)
}

/// What is wrong with a page's file; nothing when it is sound.
#[pyfunction]
pub fn verify_page_file(py: Python<'_>, path: PathBuf) -> Option<String> {
    py.detach(|| craton_store::verify_file(&path)).err().map(|error| error.to_string())
}

/// Remove the folders that dead stores left; return their paths.
#[pyfunction]
#[pyo3(signature = (directory=None))]
pub fn remove_dead_stores(py: Python<'_>, directory: Option<PathBuf>) -> Vec<PathBuf> {
    py.detach(|| craton_store::remove_dead(&directory.unwrap_or_else(std::env::temp_dir)))
}
