//! Copying many buffers at once.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// Below this many bytes a second thread costs more than it saves.
const SHARED_FROM: usize = 4 << 20;
/// Below this many bytes copying takes less time than letting go of the interpreter.
const DETACH_FROM: usize = 1 << 16;
/// More threads than these do not copy faster: memory is what they wait for.
const MOST_THREADS: usize = 4;

/// One copy.
#[derive(Clone, Copy)]
struct Job {
    from: *const u8,
    to: *mut u8,
    length: usize,
}

// SAFETY: the buffers behind the pointers are exported until all jobs are done, and no two jobs write to the same bytes.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    fn run(self) {
        // SAFETY: both sides were exported with this length; the target is writable, and not the source.
        unsafe { std::ptr::copy(self.from, self.to, self.length) }
    }

    fn split(self, at: usize) -> (Self, Self) {
        // SAFETY: `at` is within the length.
        let rest = unsafe { Self { from: self.from.add(at), to: self.to.add(at), length: self.length - at } };
        (Self { length: at, ..self }, rest)
    }
}

/// Copy buffers; see the stub for the contract.
#[pyfunction]
#[pyo3(signature = (targets, sources, /), text_signature = "(targets, sources, /)")]
pub fn copy_into(py: Python<'_>, targets: Vec<Bound<'_, PyAny>>, sources: Vec<Bound<'_, PyAny>>) -> PyResult<usize> {
    if targets.len() != sources.len() {
        return Err(PyValueError::new_err(format!("{} targets for {} sources", targets.len(), sources.len())));
    }
    let mut held = Vec::with_capacity(2 * targets.len());
    let mut jobs = Vec::with_capacity(targets.len());
    let mut total = 0;
    for (number, (target, source)) in targets.iter().zip(&sources).enumerate() {
        let (to, from) = (PyUntypedBuffer::get(target)?, PyUntypedBuffer::get(source)?);
        if to.readonly() || !to.is_c_contiguous() || !from.is_c_contiguous() {
            return Err(PyBufferError::new_err(format!(
                "copy {number}: both sides must be contiguous, and the target writable"
            )));
        }
        if to.len_bytes() != from.len_bytes() {
            return Err(PyValueError::new_err(format!(
                "copy {number}: {} bytes do not fill a target of {}",
                from.len_bytes(),
                to.len_bytes()
            )));
        }
        total += to.len_bytes();
        if to.len_bytes() > 0 {
            jobs.push(Job { from: from.buf_ptr().cast(), to: to.buf_ptr().cast(), length: to.len_bytes() });
        }
        held.push(to);
        held.push(from);
    }
    if total < DETACH_FROM {
        jobs.into_iter().for_each(Job::run);
    } else {
        py.detach(|| run(jobs, total));
    }
    Ok(total)
}

/// Run all jobs, large ones on several threads that copy the same number of bytes.
fn run(jobs: Vec<Job>, total: usize) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS).min(total / (SHARED_FROM / 2));
    if threads < 2 {
        jobs.into_iter().for_each(Job::run);
        return;
    }
    let share = total.div_ceil(threads);
    let mut shares: Vec<Vec<Job>> = vec![Vec::new()];
    let mut left = share;
    for mut job in jobs {
        while job.length > left {
            let (now, later) = job.split(left);
            shares.last_mut().map(|last| last.push(now));
            shares.push(Vec::new());
            (job, left) = (later, share);
        }
        left -= job.length;
        shares.last_mut().map(|last| last.push(job));
    }
    std::thread::scope(|scope| {
        for share in shares.drain(1..) {
            scope.spawn(move || share.into_iter().for_each(Job::run));
        }
        shares.pop().into_iter().flatten().for_each(Job::run);
    });
}
