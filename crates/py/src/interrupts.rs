//! `craton._native`: Ctrl-C, counted where it arrives, so that one which is lost on its way can be told.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{SA_ONSTACK, SA_SIGINFO, SIG_DFL, SIG_IGN, SIGINT, c_int, c_void, sigaction, siginfo_t};
use pyo3::prelude::*;

/// The action that was kept: it is called first, and itself calls the interpreter's.
static KEPT: OnceLock<sigaction> = OnceLock::new();
/// Address of the interpreter's own handler; 0 while it is not known.
static INTERPRETERS: AtomicUsize = AtomicUsize::new(0);
/// Interrupts that have arrived.
static SEEN: AtomicU64 = AtomicU64::new(0);

type Plain = extern "C" fn(c_int);
type Told = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// The handler. It counts last: when an interrupt is counted, the interpreter knows of it.
extern "C" fn heard(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if let Some(kept) = KEPT.get() {
        if kept.sa_flags & SA_SIGINFO == 0 {
            // SAFETY: without the flag, what the system was given is the address of such a function.
            let call = unsafe { std::mem::transmute::<usize, Plain>(kept.sa_sigaction) };
            call(signal);
        } else {
            // SAFETY: with the flag, it is the address of one that is told more.
            let call = unsafe { std::mem::transmute::<usize, Told>(kept.sa_sigaction) };
            call(signal, info, context);
        }
    }
    SEEN.fetch_add(1, Ordering::SeqCst);
}

/// The action in place; `None` if the system does not say.
fn current() -> Option<sigaction> {
    let mut action = MaybeUninit::<sigaction>::uninit();
    // SAFETY: a null pointer sets nothing; the system fills the other.
    let answer = unsafe { libc::sigaction(SIGINT, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: it is filled where the answer is 0.
    (answer == 0).then(|| unsafe { action.assume_init() })
}

/// Whether an action is this module's.
fn ours(action: &sigaction) -> bool {
    action.sa_sigaction == heard as Told as usize
}

/// Keep the action that is in place; see the stub for the contract.
#[pyfunction]
pub fn keep_interrupt_action() -> bool {
    match current() {
        Some(action) if !ours(&action) && ![SIG_DFL, SIG_IGN].contains(&action.sa_sigaction) => {
            KEPT.set(action).is_ok()
        }
        _ => false,
    }
}

/// Count interrupts from now on; see the stub for the contract.
#[pyfunction]
pub fn watch_interrupts() -> bool {
    let (Some(_), Some(action)) = (KEPT.get(), current()) else {
        return false;
    };
    if ours(&action) {
        return true;
    }
    let known = INTERPRETERS.compare_exchange(0, action.sa_sigaction, Ordering::SeqCst, Ordering::SeqCst);
    if known.is_err_and(|address| address != action.sa_sigaction) {
        return false;
    }
    // SAFETY: all fields are numbers or none, for which zeros stand.
    let mut wanted = unsafe { MaybeUninit::<sigaction>::zeroed().assume_init() };
    wanted.sa_sigaction = heard as Told as usize;
    wanted.sa_flags = SA_SIGINFO | SA_ONSTACK;
    // SAFETY: the action is whole, and its function lives as long as the process.
    unsafe { libc::sigaction(SIGINT, &wanted, ptr::null_mut()) == 0 }
}

/// How many interrupts have arrived; see the stub for the contract.
#[pyfunction]
pub fn interrupts_seen() -> u64 {
    SEEN.load(Ordering::SeqCst)
}
