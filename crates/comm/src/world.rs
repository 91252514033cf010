//! The whole of all ranks, as one of them has it: the engine, the watcher, and what a forked child must not use.

use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Mutex, MutexGuard};

use crate::bell::doorbell;
use crate::channel::{Channel, Local, Tcp};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::state::{Fault, State};
use crate::watcher::{Line, Lines, NoticeSocket, watch};

/// The connections to another rank.
pub(crate) enum Pair {
    Local { stream: UnixStream, local: Box<Local>, process: Option<OwnedFd> },
    Remote { control: TcpStream, data: TcpStream },
}

pub(crate) struct World {
    pub rank: usize,
    /// The number of each rank's machine.
    pub machines: Vec<usize>,
    pub state: Arc<State>,
    pub lines: Arc<Lines>,
    engine: Mutex<Engine>,
    watcher: Mutex<Option<JoinHandle<()>>>,
    /// The number of forks between the start of the program and this process, which a child has one more of.
    maker: u32,
    /// The sockets, which a forked child must give up.
    sockets: Vec<RawFd>,
}

impl World {
    /// Start watching the others. `machines` are the numbers of their machines, as far as they share memory; `neighbours` is the number of
    /// ranks on this machine.
    pub fn open(
        rank: usize,
        machines: Vec<usize>,
        neighbours: usize,
        state: Arc<State>,
        pairs: Vec<Option<Pair>>,
    ) -> Result<Arc<Self>> {
        let (mut lines, mut channels, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
        let failed = |e: std::io::Error| Error::system("a socket's options", e);
        for (other, pair) in pairs.into_iter().enumerate() {
            match pair {
                None => channels.push(None),
                Some(Pair::Local { stream, local, process }) => {
                    stream.set_nonblocking(true).map_err(failed)?;
                    sockets.push(stream.as_raw_fd());
                    let socket = NoticeSocket::Local(stream);
                    lines.push(Line { rank: other, socket, process, writing: Mutex::new(()) });
                    channels.push(Some(Channel::Local(*local)));
                }
                Some(Pair::Remote { control, data }) => {
                    for stream in [&control, &data] {
                        stream.set_nonblocking(true).map_err(failed)?;
                        sockets.push(stream.as_raw_fd());
                    }
                    let socket = NoticeSocket::Remote(control);
                    lines.push(Line { rank: other, socket, process: None, writing: Mutex::new(()) });
                    channels.push(Some(Channel::Tcp(Tcp::new(data))));
                }
            }
        }
        let (wake, waker) = doorbell()?;
        let lines = Arc::new(Lines { lines, state: state.clone(), wake, waker, stopping: AtomicBool::new(false) });
        let engine = Mutex::new(Engine::new(state.clone(), rank, channels, neighbours));
        let watcher = if lines.lines.is_empty() {
            None
        } else {
            let lines = lines.clone();
            let named = std::thread::Builder::new().name("craton-comm".into());
            let started = without_signals(|| named.spawn(move || watch(&lines)));
            Some(started.map_err(|e| Error::system("start a thread", e))?)
        };
        let watcher = Mutex::new(watcher);
        let maker = forks();
        Ok(Arc::new(Self { rank, machines, state, lines, engine, watcher, maker, sockets }))
    }

    /// Whether this process is the one that made it.
    pub fn is_ours(&self) -> bool {
        self.maker == FORKS.load(Ordering::Relaxed)
    }

    /// The engine, for one call.
    ///
    /// # Errors
    /// [`Error::Invalid`] in a forked child, and while another thread is in a call.
    pub fn engine(&self) -> Result<MutexGuard<'_, Engine>> {
        if !self.is_ours() {
            return Err(Error::Closed("a forked process cannot use the communicator of its parent".into()));
        }
        self.engine.try_lock().ok_or_else(|| {
            Error::Invalid(
                "another thread is in a call of this communicator or of one of its groups: use one thread at a time"
                    .into(),
            )
        })
    }

    /// Close everything in order. What was sent still arrives.
    pub fn close(&self) {
        if !self.is_ours() {
            return;
        }
        if self.state.fail(Fault::Closed) {
            self.lines.say_bye();
        } else if let Some(fault) = self.state.fault().filter(|fault| *fault != Fault::Closed) {
            // A rank that has not heard of the fault yet must not take the end of this connection for its cause.
            self.lines.pass_on(&fault);
        }
        self.lines.stop();
        if let Some(mut engine) = self.engine.try_lock() {
            engine.close();
        }
        if let Some(watcher) = self.watcher.lock().take() {
            let _ = watcher.join();
        }
        for line in &self.lines.lines {
            line.socket.shut();
        }
    }

    /// In a forked child: give up the sockets, so that other ranks notice the end of the parent. The descriptors stay open, for nothing.
    pub fn forget(&self) {
        if self.is_ours() {
            return;
        }
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        let Ok(nothing) = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()) else { return };
        for &socket in &self.sockets {
            // SAFETY: the descriptor is the copy of one of ours, and is replaced by one of another file; nobody uses it in this process.
            unsafe { libc::dup2(nothing.as_raw_fd(), socket) };
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.is_ours() {
            self.close();
        } else if let Some(watcher) = self.watcher.get_mut().take() {
            // The thread does not exist in a forked child.
            std::mem::forget(watcher);
        }
    }
}

static FORKS: AtomicU32 = AtomicU32::new(0);

/// The number of forks so far, which are counted from the first call on. Every call of a communicator compares it; the process's id would
/// take a system call.
fn forks() -> u32 {
    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static COUNTED: Once = Once::new();
    // SAFETY: the function lives as long as the program, and does what a child of a process with threads may do.
    COUNTED.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forked));
    });
    FORKS.load(Ordering::Relaxed)
}

/// Run something that starts a thread, in which all signals are blocked: they are for the interpreter's threads.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are initialised by the calls, and the thread's own mask is restored.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed::<libc::sigset_t>(), std::mem::zeroed::<libc::sigset_t>());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        started
    }
}
