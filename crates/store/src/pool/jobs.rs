//! The job queue of the I/O threads. Writes come before reads, because allocations wait for the memory that writes free.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::api::PageBuffer;
use crate::ids::PageId;
use crate::pool::memory::Pending;

/// A page that is to be written.
pub(crate) struct Write {
    pub(crate) page: PageId,
    pub(crate) header: Arc<[u8]>,
    pub(crate) buffers: Arc<[PageBuffer]>,
    pub(crate) pending: Pending,
}

/// A job for an I/O thread.
pub(crate) enum Job {
    /// Write a page.
    Write(Write),
    /// Load a page ahead of its use.
    Load(PageId),
}

#[derive(Default)]
struct State {
    writes: VecDeque<Write>,
    loads: VecDeque<PageId>,
    closed: bool,
}

/// The queue of jobs that no thread has begun.
#[derive(Default)]
pub(crate) struct Jobs {
    state: Mutex<State>,
    ready: Condvar,
}

impl Jobs {
    pub(crate) fn push(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut state = self.state.lock();
        for job in jobs {
            if state.closed {
                continue;
            }
            match job {
                Job::Write(write) => state.writes.push_back(write),
                Job::Load(page) => state.loads.push_back(page),
            }
            self.ready.notify_one();
        }
    }

    /// Wait for the next job; `None` once the queue is closed.
    pub(crate) fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(write) = state.writes.pop_front() {
                return Some(Job::Write(write));
            }
            if let Some(page) = state.loads.pop_front() {
                return Some(Job::Load(page));
            }
            self.ready.wait(&mut state);
        }
    }

    /// Close the queue, and drop the jobs that no thread has begun.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = (std::mem::take(&mut state.writes), std::mem::take(&mut state.loads));
        self.ready.notify_all();
        drop(state);
        drop(dropped);
    }
}
