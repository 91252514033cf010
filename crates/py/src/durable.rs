//! Durable sets: folders of versions. Descriptions of files and versions are passed as JSON.

use std::path::PathBuf;

use craton_store::durable::{DataFile, Disk, Error, Files, Manifest, SetFolder, Writer};
use parking_lot::Mutex;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Map, Value};

use crate::errors::set_error;

fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn written<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The folder of a durable set.
#[pyclass(frozen, module = "craton._native", name = "SetFolder")]
pub struct DurableFolder {
    set: SetFolder<Files>,
}

#[pymethods]
impl DurableFolder {
    #[new]
    fn new(path: PathBuf) -> Self {
        Self { set: SetFolder::new(&path, Files) }
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.set.path().to_owned()
    }

    fn data(&self, name: &str) -> PathBuf {
        self.set.data(name)
    }

    fn versions(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        py.detach(|| self.set.versions()).map_err(set_error)
    }

    #[pyo3(signature = (version = None))]
    fn read(&self, py: Python<'_>, version: Option<u64>) -> PyResult<Option<String>> {
        let found = py.detach(|| match version {
            Some(version) => self.set.read(version).map(Some),
            None => self.set.current(),
        });
        found.map_err(set_error)?.as_ref().map(written).transpose()
    }

    fn writer(&self, py: Python<'_>) -> PyResult<DurableWriter> {
        let writer = py.detach(|| self.set.writer()).map_err(set_error)?;
        Ok(DurableWriter { writer: Mutex::new(Some(writer)) })
    }

    fn expire(&self, py: Python<'_>, versions: Vec<u64>) -> PyResult<Vec<u64>> {
        py.detach(|| self.set.expire(&versions)).map_err(set_error)
    }

    fn repair(&self, py: Python<'_>) -> PyResult<Vec<PathBuf>> {
        py.detach(|| self.set.repair()).map_err(set_error)
    }

    fn verify(&self, py: Python<'_>, version: u64) -> PyResult<Vec<(String, String)>> {
        py.detach(|| self.set.verify(version)).map_err(set_error)
    }
}

/// A writer of one version of a durable set; what it has not published is removed when it is closed.
#[pyclass(frozen, module = "craton._native", name = "SetWriter")]
pub struct DurableWriter {
    writer: Mutex<Option<Writer<Files>>>,
}

impl DurableWriter {
    fn with<T>(&self, run: impl FnOnce(&mut Writer<Files>) -> Result<T, Error>) -> PyResult<T> {
        let mut writer = self.writer.lock();
        let open = writer.as_mut().ok_or_else(|| PyValueError::new_err("the writer is closed"))?;
        run(open).map_err(set_error)
    }
}

#[pymethods]
impl DurableWriter {
    #[pyo3(signature = (extension = "arrow"))]
    fn next_file(&self, extension: &str) -> PyResult<(String, PathBuf)> {
        self.with(|writer| writer.next_file(extension))
    }

    fn publish(&self, py: Python<'_>, base: u64, files: &str, about: &str) -> PyResult<String> {
        let (files, about): (Vec<DataFile>, Map<String, Value>) = (parsed(files)?, parsed(about)?);
        let manifest: Manifest = py.detach(|| self.with(|writer| writer.publish(base, files, about)))?;
        written(&manifest)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.writer.lock().take()));
    }
}

/// The CRC-32C of bytes that follow others, whose CRC-32C is given.
#[pyfunction]
#[pyo3(signature = (data, before = 0))]
pub fn checksum(py: Python<'_>, data: PyBuffer<u8>, before: u32) -> PyResult<u32> {
    if !data.is_c_contiguous() {
        return Err(PyValueError::new_err("the bytes must be contiguous"));
    }
    let (start, length) = (data.buf_ptr() as usize, data.len_bytes());
    if length == 0 {
        return Ok(before); // the pointer may be null
    }
    // SAFETY: `data` holds the memory until the call returns. Writers to it must not run meanwhile, as the caller guarantees.
    Ok(py.detach(|| crc32c::crc32c_append(before, unsafe { std::slice::from_raw_parts(start as *const u8, length) })))
}

/// The length of a file, and its CRC-32C.
#[pyfunction]
pub fn file_checksum(py: Python<'_>, path: PathBuf) -> PyResult<(u64, u32)> {
    Ok(py.detach(|| Files.checksum(&path))?)
}
