//! `craton._native`: the endpoints and groups of communicators. Values are bytes here; `craton.comm` encodes and decodes them.

use std::time::Duration;

use craton_comm::{
    Array, Block, Control, Endpoint, EndpointOptions, Error, Group, Membership, Number, Op, Output, Piece, Reducer,
};
use parking_lot::Mutex;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

use crate::errors::comm_error;
use crate::memory::Memory;

/// The end of a rank to which others connect; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct CommEndpoint {
    address: Vec<u8>,
    endpoint: Mutex<Option<Endpoint>>,
}

/// A group of connected ranks; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct CommGroup {
    group: Group,
}

fn duration(seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let invalid =
        |seconds: f64| PyValueError::new_err(format!("timeout must be a number of seconds from 0 on, got {seconds}"));
    match seconds {
        None => Ok(None),
        Some(seconds) if seconds.is_nan() || seconds < 0.0 => Err(invalid(seconds)),
        // A time that cannot be expressed never passes.
        Some(seconds) => Ok(Duration::try_from_secs_f64(seconds).ok()),
    }
}

/// Run a call without the interpreter lock. While it waits, signal handlers run.
fn run<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    call: impl FnOnce(&mut Control<'_>) -> craton_comm::Result<T> + Send,
) -> PyResult<T> {
    let timeout = duration(timeout)?;
    let mut raised = None;
    let result = py.detach(|| {
        let mut hook = || match Python::attach(|py| py.check_signals()) {
            Ok(()) => true,
            Err(error) => {
                raised = Some(error);
                false
            }
        };
        call(&mut Control { timeout, hook: &mut hook })
    });
    result.map_err(|error| match (error, raised) {
        (Error::Interrupted, Some(raised)) => raised,
        (error, _) => comm_error(py, error),
    })
}

/// The memory of Python objects, which stays where it is while the value lives.
struct Held {
    pieces: Vec<Piece>,
    _buffers: Vec<PyUntypedBuffer>,
}

fn buffer(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object)?;
    if buffer.is_c_contiguous() {
        return Ok(buffer);
    }
    Err(PyBufferError::new_err("the memory is not contiguous; pass contiguous memory"))
}

fn piece(buffer: &PyUntypedBuffer) -> Piece {
    Piece { start: buffer.buf_ptr().cast::<u8>().cast_const(), length: buffer.len_bytes() }
}

fn held(objects: &[Bound<'_, PyAny>]) -> PyResult<Held> {
    let buffers = objects.iter().map(buffer).collect::<PyResult<Vec<_>>>()?;
    let pieces = buffers.iter().map(piece).filter(|piece| piece.length > 0).collect();
    Ok(Held { pieces, _buffers: buffers })
}

fn output(object: &Bound<'_, PyAny>) -> PyResult<(Output, PyUntypedBuffer)> {
    let buffer = buffer(object)?;
    if buffer.readonly() {
        return Err(PyBufferError::new_err("the memory for the result is read-only"));
    }
    Ok((Output { start: buffer.buf_ptr().cast::<u8>(), length: buffer.len_bytes() }, buffer))
}

fn memory(py: Python<'_>, block: Option<Block>) -> PyResult<Option<Py<Memory>>> {
    block.map(|block| Py::new(py, Memory::of_block(block))).transpose()
}

fn memories(py: Python<'_>, blocks: Vec<Option<Block>>) -> PyResult<Vec<Option<Py<Memory>>>> {
    blocks.into_iter().map(|block| memory(py, block)).collect()
}

fn reducer(py: Python<'_>, number: &str, op: &str) -> PyResult<Reducer> {
    let op = Op::parse(op).map_err(|error| comm_error(py, error))?;
    let number = Number::parse(number)
        .ok_or_else(|| PyValueError::new_err(format!("arrays of the type {number:?} are not reduced here")))?;
    number.check(op).map_err(|error| comm_error(py, error))?;
    Ok(Reducer { number, op })
}

#[pymethods]
impl CommEndpoint {
    #[new]
    #[pyo3(signature = (host=None, tcp=false))]
    fn new(py: Python<'_>, host: Option<String>, tcp: bool) -> PyResult<Self> {
        let endpoint = py.detach(|| Endpoint::bind(&EndpointOptions { host, tcp }));
        let endpoint = endpoint.map_err(|error| comm_error(py, error))?;
        Ok(Self { address: endpoint.address().to_vec(), endpoint: Mutex::new(Some(endpoint)) })
    }

    #[getter]
    fn address(&self) -> &[u8] {
        &self.address
    }

    fn connect(
        &self,
        py: Python<'_>,
        rank: usize,
        addresses: Vec<Vec<u8>>,
        key: Vec<u8>,
        timeout: f64,
    ) -> PyResult<CommGroup> {
        let patience = duration(Some(timeout))?.unwrap_or(Duration::from_secs(365 * 86_400));
        let endpoint = self.endpoint.lock().take();
        let endpoint = endpoint.ok_or_else(|| PyValueError::new_err("an endpoint connects once; bind another one"))?;
        let group = run(py, None, |control| {
            endpoint.connect(&Membership { rank, addresses: &addresses, key: &key, patience }, control.hook)
        })?;
        Ok(CommGroup { group })
    }

    fn close(&self) {
        self.endpoint.lock().take();
    }
}

#[pymethods]
impl CommGroup {
    #[getter]
    fn rank(&self) -> usize {
        self.group.rank()
    }

    #[getter]
    fn size(&self) -> usize {
        self.group.size()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.group.is_closed()
    }

    fn barrier(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        run(py, timeout, |control| self.group.barrier(control))
    }

    fn broadcast(
        &self,
        py: Python<'_>,
        pieces: Option<Vec<Bound<'_, PyAny>>>,
        root: usize,
        timeout: Option<f64>,
    ) -> PyResult<Option<Py<Memory>>> {
        let held = pieces.as_deref().map(held).transpose()?;
        let pieces = held.as_ref().map(|held| held.pieces.as_slice());
        let block = run(py, timeout, |control| self.group.broadcast(pieces, root, control))?;
        memory(py, block)
    }

    fn gather(
        &self,
        py: Python<'_>,
        pieces: Vec<Bound<'_, PyAny>>,
        root: usize,
        timeout: Option<f64>,
    ) -> PyResult<Option<Vec<Option<Py<Memory>>>>> {
        let held = held(&pieces)?;
        let pieces = held.pieces.as_slice();
        let blocks = run(py, timeout, |control| self.group.gather(pieces, root, control))?;
        blocks.map(|blocks| memories(py, blocks)).transpose()
    }

    fn allgather(
        &self,
        py: Python<'_>,
        pieces: Vec<Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Option<Py<Memory>>>> {
        let held = held(&pieces)?;
        let pieces = held.pieces.as_slice();
        let blocks = run(py, timeout, |control| self.group.allgather(pieces, control))?;
        memories(py, blocks)
    }

    fn scatter(
        &self,
        py: Python<'_>,
        values: Option<Vec<Vec<Bound<'_, PyAny>>>>,
        root: usize,
        timeout: Option<f64>,
    ) -> PyResult<Option<Py<Memory>>> {
        let held = values.iter().flatten().map(|pieces| held(pieces)).collect::<PyResult<Vec<_>>>()?;
        let lists = values.is_some().then(|| held.iter().map(|held| held.pieces.clone()).collect::<Vec<_>>());
        let block = run(py, timeout, |control| self.group.scatter(lists.as_deref(), root, control))?;
        memory(py, block)
    }

    fn alltoall(
        &self,
        py: Python<'_>,
        values: Vec<Vec<Bound<'_, PyAny>>>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Option<Py<Memory>>>> {
        let held = values.iter().map(|pieces| held(pieces)).collect::<PyResult<Vec<_>>>()?;
        let lists: Vec<Vec<Piece>> = held.iter().map(|held| held.pieces.clone()).collect();
        let blocks = run(py, timeout, |control| self.group.alltoall(&lists, control))?;
        memories(py, blocks)
    }

    #[allow(clippy::too_many_arguments)] // one for each of Python's
    fn allreduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        number: &str,
        op: &str,
        shape: u64,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let input = buffer(array)?;
        let (output, _buffer) = output(out)?;
        let array = Array { piece: piece(&input), reducer: reducer(py, number, op)?, shape };
        run(py, timeout, |control| self.group.allreduce(array, output, control))
    }

    #[allow(clippy::too_many_arguments)] // one for each of Python's
    fn reduce(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        number: &str,
        op: &str,
        shape: u64,
        root: usize,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let input = buffer(array)?;
        let out = out.map(output).transpose()?;
        let output = out.as_ref().map(|(output, _)| *output);
        let array = Array { piece: piece(&input), reducer: reducer(py, number, op)?, shape };
        run(py, timeout, |control| self.group.reduce(array, output, root, control))
    }

    #[allow(clippy::too_many_arguments)] // one for each of Python's
    fn reduce_scatter(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        number: &str,
        op: &str,
        shape: u64,
        bounds: Vec<usize>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let input = buffer(array)?;
        let (output, _buffer) = output(out)?;
        let array = Array { piece: piece(&input), reducer: reducer(py, number, op)?, shape };
        run(py, timeout, |control| self.group.reduce_scatter(array, &bounds, output, control))
    }

    fn send(
        &self,
        py: Python<'_>,
        pieces: Vec<Bound<'_, PyAny>>,
        to: usize,
        tag: i64,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let held = held(&pieces)?;
        let pieces = held.pieces.as_slice();
        run(py, timeout, |control| self.group.send(pieces, to, tag as u64, control))
    }

    fn receive(&self, py: Python<'_>, source: usize, tag: i64, timeout: Option<f64>) -> PyResult<Py<Memory>> {
        let block = run(py, timeout, |control| self.group.receive(source, tag as u64, control))?;
        Py::new(py, Memory::of_block(block))
    }

    fn subgroup(&self, py: Python<'_>, ranks: Vec<usize>, color: u64) -> PyResult<Option<CommGroup>> {
        let group = self.group.subgroup(&ranks, color).map_err(|error| comm_error(py, error))?;
        Ok(group.map(|group| CommGroup { group }))
    }

    fn abort(&self, py: Python<'_>, reason: &str) {
        py.detach(|| self.group.abort(reason));
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.group.close());
    }

    fn forget(&self) {
        self.group.forget();
    }
}
