//! Python handles of a store that release what they hold when they are collected: a use of a set, a reader, a reservation.

use std::sync::Arc;

use craton_store::services::SequentialReader;
use craton_store::{Home, Reservation, SetId};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::errors::store_error;
use crate::page::Page;

/// Reserved memory, which pages do not use until it is released.
#[pyclass(module = "craton._native", name = "Reservation")]
pub struct HeldReservation {
    held: Option<Reservation>,
}

impl HeldReservation {
    pub fn new(reservation: Reservation) -> Self {
        Self { held: Some(reservation) }
    }
}

#[pymethods]
impl HeldReservation {
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

/// A use of a set, which ends when this object is collected.
#[pyclass(frozen, module = "craton._native", name = "SetUse")]
pub struct SetUse {
    home: Arc<dyn Home>,
    set: SetId,
}

impl SetUse {
    pub fn new(home: &Arc<dyn Home>, set: SetId) -> Self {
        Self { home: Arc::clone(home), set }
    }
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
        // Release the interpreter lock, because returning memory to the system may take long.
        match Python::try_attach(|py| py.detach(|| self.home.release_set(self.set))) {
            Some(()) => {}
            None => self.home.release_set(self.set),
        }
    }
}

/// An iterator over the pages of a set that threads may share; each page goes to one of them.
#[pyclass(frozen, module = "craton._native", name = "Reader")]
pub struct Reader {
    reader: Mutex<Option<Arc<SequentialReader>>>,
}

impl Reader {
    pub fn new(reader: SequentialReader) -> Self {
        Self { reader: Mutex::new(Some(Arc::new(reader))) }
    }
}

#[pymethods]
impl Reader {
    /// The next page; `None` at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Page>> {
        let Some(reader) = self.reader.lock().clone() else { return Ok(None) };
        let pinned = py.detach(|| reader.next_page()).map_err(store_error)?;
        Ok(pinned.map(Page::new))
    }

    /// Stop reading ahead.
    fn close(&self, py: Python<'_>) {
        let reader = self.reader.lock().take();
        py.detach(|| drop(reader));
    }
}
