//! The bell of a process: others ring it when they have done something that it may wait for.
//!
//! A bell is two words in shared memory: a count, and how its process sleeps. A process that waits for shared memory alone sleeps on the
//! count (a futex); one that also waits for sockets sleeps in `poll`, and others then write to its doorbell, an eventfd that they have.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use craton_slab::Segment;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Error, Result};

/// Bytes at the start of an inbox that are its bell's.
pub(crate) const BELL_BYTES: usize = 4096;

const AWAKE: u32 = 0;
const ON_COUNT: u32 = 1;
const IN_POLL: u32 = 2;

/// The bell of this process, or of another one.
pub(crate) struct Bell {
    segment: Arc<Segment>,
    doorbell: OwnedFd,
    ringer: OwnedFd,
}

impl Bell {
    pub fn own(segment: Arc<Segment>) -> Result<Self> {
        let (doorbell, ringer) = doorbell()?;
        Ok(Self { segment, doorbell, ringer })
    }

    /// The bell of another process, which has sent the descriptor that rings it.
    pub fn of_other(segment: Arc<Segment>, ringer: OwnedFd) -> Result<Self> {
        let doorbell = ringer.try_clone().map_err(|e| Error::system("dup a descriptor", e))?;
        Ok(Self { segment, doorbell, ringer })
    }

    /// The descriptor to send to others.
    pub fn ringer(&self) -> BorrowedFd<'_> {
        self.ringer.as_fd()
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the words are in the mapping, aligned, and accessed as atomics only.
        unsafe { AtomicU32::from_ptr(self.segment.as_ptr().cast_mut().add(at).cast()) }
    }

    fn count(&self) -> &AtomicU32 {
        self.word(0)
    }

    fn sleeping(&self) -> &AtomicU32 {
        self.word(64)
    }

    /// Not 0 once a call of its process has failed: memory that it has offered to others may have changed.
    pub fn broken(&self) -> &AtomicU32 {
        self.word(128)
    }

    /// Wake the process if it sleeps.
    pub fn ring(&self) {
        self.count().fetch_add(1, Ordering::SeqCst);
        match self.sleeping().load(Ordering::SeqCst) {
            ON_COUNT => wake(self.count()),
            IN_POLL => {
                let _ = rustix::io::write(&self.ringer, &1_u64.to_ne_bytes());
            }
            _ => {}
        }
    }

    /// The count, to be passed to `sleep` after another look at what is waited for.
    pub fn listen(&self) -> u32 {
        self.count().load(Ordering::SeqCst)
    }

    /// Announce how the process is going to sleep. From now on, others wake it.
    pub fn announce(&self, sockets: bool) {
        self.sleeping().store(if sockets { IN_POLL } else { ON_COUNT }, Ordering::SeqCst);
    }

    pub fn awake(&self) {
        self.sleeping().store(AWAKE, Ordering::SeqCst);
    }

    /// Sleep until the bell has rung since `listen`, a socket is ready, a signal arrives, or the time is up.
    pub fn sleep(&self, heard: u32, sockets: &mut Vec<PollFd<'_>>, most: Duration) {
        if sockets.is_empty() {
            wait(self.count(), heard, most);
            return;
        }
        if self.count().load(Ordering::SeqCst) != heard {
            return;
        }
        let nanoseconds = i64::from(most.subsec_nanos());
        let timeout = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: nanoseconds };
        // SAFETY: the descriptor is open for as long as `self`, which outlives the call.
        let doorbell = unsafe { BorrowedFd::borrow_raw(self.doorbell.as_raw_fd()) };
        sockets.push(PollFd::from_borrowed_fd(doorbell, PollFlags::IN));
        let _ = poll(sockets, Some(&timeout));
        let _ = rustix::io::read(&self.doorbell, &mut [0_u8; 8]);
    }
}

/// A descriptor to wait for, and one that wakes who waits: both neither block nor survive `exec`.
#[cfg(target_os = "linux")]
pub(crate) fn doorbell() -> Result<(OwnedFd, OwnedFd)> {
    use rustix::event::{EventfdFlags, eventfd};
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| Error::system("eventfd", e))?;
    let ringer = bell.try_clone().map_err(|e| Error::system("dup a descriptor", e))?;
    Ok((bell, ringer))
}

/// As above, on systems without eventfd.
#[cfg(not(target_os = "linux"))]
pub(crate) fn doorbell() -> Result<(OwnedFd, OwnedFd)> {
    let failed = |e: std::io::Error| Error::system("a pair of sockets", e);
    let (bell, ringer) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
    bell.set_nonblocking(true).map_err(failed)?;
    ringer.set_nonblocking(true).map_err(failed)?;
    Ok((bell.into(), ringer.into()))
}

#[cfg(target_os = "linux")]
fn wait(word: &AtomicU32, value: u32, most: Duration) {
    let timeout = libc::timespec { tv_sec: most.as_secs() as libc::time_t, tv_nsec: most.subsec_nanos().into() };
    // SAFETY: the word and the timeout live during the call, which returns at once if the word has another value.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const timeout) };
}

#[cfg(target_os = "linux")]
fn wake(word: &AtomicU32) {
    // SAFETY: the word lives during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

#[cfg(not(target_os = "linux"))]
fn wait(_word: &AtomicU32, _value: u32, most: Duration) {
    std::thread::sleep(most.min(Duration::from_millis(1)));
}

#[cfg(not(target_os = "linux"))]
fn wake(_word: &AtomicU32) {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use craton_slab::Segment;

    use super::{BELL_BYTES, Bell};

    #[test]
    fn a_ring_before_the_sleep_is_not_lost() {
        let bell = Bell::own(Segment::create(1, BELL_BYTES).unwrap()).unwrap();
        let started = Instant::now();
        let heard = bell.listen();
        bell.announce(false);
        bell.ring();
        bell.sleep(heard, &mut Vec::new(), Duration::from_secs(60));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_ring_wakes_a_sleeper() {
        let bell = Arc::new(Bell::own(Segment::create(1, BELL_BYTES).unwrap()).unwrap());
        let other = bell.clone();
        let started = Instant::now();
        let heard = bell.listen();
        bell.announce(false);
        let ringing = std::thread::spawn(move || other.ring());
        bell.sleep(heard, &mut Vec::new(), Duration::from_secs(60));
        ringing.join().unwrap();
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}
