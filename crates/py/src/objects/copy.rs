//! Copying many buffers at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// Below this many bytes a second thread costs more than it saves.
const SHARED_FROM: usize = 4 << 20;
/// Below this many bytes copying takes less time than letting go of the interpreter.
const DETACH_FROM: usize = 1 << 16;
/// What a thread takes at a time, in bytes.
const PIECE: usize = 1 << 20;
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

    /// Copy what the processor's caches will not hold anyway: written past them, memory needs not be read first.
    #[cfg(target_arch = "x86_64")]
    fn stream(self) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const LINE: usize = 64;
        let head = self.to.align_offset(LINE).min(self.length);
        let (head, rest) = self.split(head);
        let (body, tail) = rest.split(rest.length - rest.length % LINE);
        head.run();
        for at in (0..body.length).step_by(LINE) {
            // SAFETY: the line is within both buffers, and that of the target is aligned.
            unsafe {
                let (from, to) = (body.from.add(at).cast::<__m128i>(), body.to.add(at).cast::<__m128i>());
                let line = [0, 1, 2, 3].map(|part| _mm_loadu_si128(from.add(part)));
                for (part, value) in line.into_iter().enumerate() {
                    _mm_stream_si128(to.add(part), value);
                }
            }
        }
        // SAFETY: always there on this architecture; orders what was written past the caches before what is written next.
        unsafe { _mm_sfence() }
        tail.run();
    }

    /// Copy what the processor's caches will not hold anyway.
    #[cfg(not(target_arch = "x86_64"))]
    fn stream(self) {
        self.run();
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

/// Run all jobs, large ones on several threads. Each takes the next piece when it is done with one, so a thread that the system stops for
/// others holds up no more than a piece.
fn run(jobs: Vec<Job>, total: usize) {
    if total < SHARED_FROM {
        jobs.into_iter().for_each(Job::run);
        return;
    }
    let mut pieces = Vec::with_capacity(jobs.len() + total / PIECE);
    for mut job in jobs {
        while job.length > PIECE {
            let (piece, rest) = job.split(PIECE);
            pieces.push(piece);
            job = rest;
        }
        pieces.push(job);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            piece.stream();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads() {
            scope.spawn(work);
        }
        work();
    });
}

/// How many threads copy.
fn threads() -> usize {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => 1,
        cores => (2 * cores).min(MOST_THREADS),
    }
}
