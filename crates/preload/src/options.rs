//! What the environment says.

use std::ffi::CStr;

/// The options, from the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Blocks of at least this many bytes lie in regions (`CRATON_PRELOAD_THRESHOLD`).
    pub threshold: usize,
    /// The most bytes of memory in regions (`CRATON_PRELOAD_LIMIT`): beyond it, `malloc` fails with `ENOMEM`.
    pub limit: usize,
    /// The most bytes of freed blocks that keep their memory (`CRATON_PRELOAD_KEEP`).
    pub keep: usize,
}

/// The least threshold: smaller blocks are frequent, and every block takes whole pages.
const LEAST_THRESHOLD: usize = 1 << 15;
const THRESHOLD: usize = 1 << 17;
const KEEP: usize = 128 << 20;

impl Options {
    /// The options; `None` unless the environment has `CRATON_PRELOAD`.
    pub fn from_environment() -> Option<Self> {
        text(c"CRATON_PRELOAD")?;
        let (threshold, limit) = (number(c"CRATON_PRELOAD_THRESHOLD"), number(c"CRATON_PRELOAD_LIMIT"));
        Some(Self::new(threshold, limit, number(c"CRATON_PRELOAD_KEEP")))
    }

    /// These options, with the usual ones for those that are not given.
    pub fn new(threshold: Option<usize>, limit: Option<usize>, keep: Option<usize>) -> Self {
        Self {
            threshold: threshold.unwrap_or(THRESHOLD).max(LEAST_THRESHOLD),
            limit: limit.unwrap_or(usize::MAX),
            keep: keep.unwrap_or(limit.map_or(KEEP, |limit| KEEP.max(limit / 16))),
        }
    }
}

fn text(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: called when the library is loaded, before the program can change its environment.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a value of the environment is a string that ends with a zero byte.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) })
}

fn number(name: &CStr) -> Option<usize> {
    text(name)?.to_str().ok()?.parse().ok()
}
