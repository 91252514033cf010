//! `craton._native`: task graphs and their assignment to bands.

use craton_schedule::{Bands, Bytes, Error, Graph, Input, assign, policy};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::rows::{items, items_mut};

fn raise(error: Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A graph of tasks; see the stub for the contract.
#[pyclass(frozen, module = "craton._native")]
pub struct TaskGraph {
    graph: Graph,
}

#[pymethods]
impl TaskGraph {
    #[new]
    #[pyo3(signature = (tasks, producers, consumers, nbytes, output_nbytes, costs, preferred, /))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        tasks: usize,
        producers: PyBuffer<i64>,
        consumers: PyBuffer<i64>,
        nbytes: Option<PyBuffer<i64>>,
        output_nbytes: Option<PyBuffer<i64>>,
        costs: Option<PyBuffer<f64>>,
        preferred: Option<PyBuffer<i64>>,
    ) -> PyResult<Self> {
        // SAFETY: by the contract, the buffers are not written to until the constructor returns; the same holds for those below.
        let (producers, consumers) = unsafe { (items(&producers)?, items(&consumers)?) };
        let bytes = match (&nbytes, &output_nbytes) {
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("both nbytes and output_nbytes were given: give one"));
            }
            // SAFETY: as above.
            (Some(edges), None) => Bytes::Edges(unsafe { items(edges)? }),
            // SAFETY: as above.
            (None, Some(outputs)) => Bytes::Outputs(unsafe { items(outputs)? }),
            (None, None) => Bytes::Unknown,
        };
        // SAFETY: as above.
        let costs = costs.as_ref().map(|costs| unsafe { items(costs) }).transpose()?;
        // SAFETY: as above.
        let preferred = preferred.as_ref().map(|preferred| unsafe { items(preferred) }).transpose()?;
        let input = Input { tasks, producers, consumers, bytes, costs, preferred };
        Ok(Self { graph: py.detach(|| Graph::new(&input)).map_err(raise)? })
    }

    #[pyo3(signature = (capacities, policy, seed, bands, output, order, starts, /))]
    #[allow(clippy::too_many_arguments)]
    fn assign(
        &self,
        py: Python<'_>,
        capacities: Vec<f64>,
        policy: &str,
        seed: u64,
        bands: PyBuffer<i32>,
        output: PyBuffer<i32>,
        order: PyBuffer<i32>,
        starts: PyBuffer<i32>,
    ) -> PyResult<()> {
        let policy = self::policy(policy, seed).map_err(raise)?;
        // SAFETY: by the contract, the buffers are not accessed elsewhere until the call returns, and they are different buffers.
        let (bands, output) = unsafe { (items_mut(&bands)?, items_mut(&output)?) };
        // SAFETY: as above.
        let (order, starts) = unsafe { (items_mut(&order)?, items_mut(&starts)?) };
        let tasks = self.graph.len();
        for (room, expected) in
            [(bands.len(), tasks), (output.len(), tasks), (order.len(), tasks), (starts.len(), capacities.len() + 1)]
        {
            if room != expected {
                return Err(PyValueError::new_err(format!(
                    "assign() has room for {room} numbers, expected {expected}"
                )));
            }
        }
        py.detach(|| {
            let found = assign(&self.graph, &Bands::new(&capacities)?, policy.as_ref())?;
            write(&found.bands, bands);
            write(&found.output, output);
            write(&found.order, order);
            write(&found.starts, starts);
            Ok(())
        })
        .map_err(raise)
    }

    #[pyo3(signature = (bands, /))]
    fn moved_bytes(&self, py: Python<'_>, bands: PyBuffer<i32>) -> PyResult<u64> {
        if bands.item_count() != self.graph.len() {
            let (given, tasks) = (bands.item_count(), self.graph.len());
            return Err(PyValueError::new_err(format!(
                "moved_bytes() has the bands of {given} tasks, expected {tasks}"
            )));
        }
        // SAFETY: by the contract, the buffer is not written to until the call returns.
        let bands = unsafe { items(&bands)? };
        if let Some(task) = bands.iter().position(|band| *band < 0) {
            return Err(PyValueError::new_err(format!("task {task} has the band {}, expected 0 or more", bands[task])));
        }
        Ok(py.detach(|| {
            let bands: Vec<u32> = bands.iter().map(|band| band.unsigned_abs()).collect();
            self.graph.moved_bytes(&bands)
        }))
    }
}

/// Write numbers of tasks or bands, all of which are below 2**31.
fn write(numbers: &[u32], out: &mut [i32]) {
    for (out, &number) in out.iter_mut().zip(numbers) {
        *out = i32::try_from(number).unwrap_or(i32::MAX);
    }
}
