//! `craton._native`: a SIGINT handler that counts interrupts (Ctrl-C), so that Python can detect an interrupt that some code swallowed.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{SA_ONSTACK, SA_SIGINFO, SIG_DFL, SIG_IGN, SIGINT, c_int, c_void, sigaction, siginfo_t};
use pyo3::prelude::*;

/// The signal action that was in place before, which the handler calls first; that action calls the interpreter's handler.
static KEPT: OnceLock<sigaction> = OnceLock::new();
/// The address of the interpreter's own handler; 0 while it is unknown.
static INTERPRETERS: AtomicUsize = AtomicUsize::new(0);
/// The number of interrupts that have arrived.
static SEEN: AtomicU64 = AtomicU64::new(0);

type Plain = extern "C" fn(c_int);
type Told = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

/// The handler. It increments the count last, so the interpreter has already recorded every interrupt that is counted.
extern "C" fn heard(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if let Some(kept) = KEPT.get() {
        if kept.sa_flags & SA_SIGINFO == 0 {
            // SAFETY: without SA_SIGINFO, the field is the address of a function of this type.
            let call = unsafe { std::mem::transmute::<usize, Plain>(kept.sa_sigaction) };
            call(signal);
        } else {
            // SAFETY: with SA_SIGINFO, the field is the address of a function of this type.
            let call = unsafe { std::mem::transmute::<usize, Told>(kept.sa_sigaction) };
            call(signal, info, context);
        }
    }
    SEEN.fetch_add(1, Ordering::SeqCst);
}

/// The current signal action; `None` if the system call fails.
fn current() -> Option<sigaction> {
    let mut action = MaybeUninit::<sigaction>::uninit();
    // SAFETY: with a null pointer the call changes nothing; it fills in `action`.
    let answer = unsafe { libc::sigaction(SIGINT, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call has filled it in if it returned 0.
    (answer == 0).then(|| unsafe { action.assume_init() })
}

/// Whether an action is this module's.
fn ours(action: &sigaction) -> bool {
    action.sa_sigaction == heard as Told as usize
}

/// Remember the current signal action; see the stub for the contract.
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
    // SAFETY: zeros are valid values of all fields.
    let mut wanted = unsafe { MaybeUninit::<sigaction>::zeroed().assume_init() };
    wanted.sa_sigaction = heard as Told as usize;
    wanted.sa_flags = SA_SIGINFO | SA_ONSTACK;
    // SAFETY: all fields of the action are set, and its function lives as long as the process.
    unsafe { libc::sigaction(SIGINT, &wanted, ptr::null_mut()) == 0 }
}

/// Return the number of interrupts that have arrived; see the stub for the contract.
#[pyfunction]
pub fn interrupts_seen() -> u64 {
    SEEN.load(Ordering::SeqCst)
}
