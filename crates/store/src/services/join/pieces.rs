//! The keys of a table in pieces, and threads that work on one piece each.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::services::hash::Keys;

/// Rows of a piece.
pub const PIECE: usize = 1 << 16;

/// The keys of a table in pieces of rows, in the order of the table.
pub trait KeyPieces: Sync {
    /// The number of pieces.
    fn count(&self) -> usize;

    /// The rows of a piece: the number of the first, and how many there are.
    fn rows(&self, piece: usize) -> (u64, usize);

    /// Call a function with the keys of a piece, as many as it has rows.
    ///
    /// # Errors
    /// Those of the function, and of reading the keys.
    fn with<T>(&self, piece: usize, work: impl FnOnce(&Keys<'_>) -> Result<T>) -> Result<T>;
}

/// Work on pieces on all threads of the machine; the results are in the order of the pieces.
///
/// The threads are started here and end here, so this works in a forked process, in which the threads of a pool do not exist.
pub(super) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count.div_ceil(2));
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let some = || -> Result<Vec<(usize, T)>> {
        let mut done = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= count {
                break;
            }
            let result = work(piece).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            done.push((piece, result));
        }
        Ok(done)
    };
    let parts: Vec<Result<Vec<(usize, T)>>> = std::thread::scope(|scope| {
        let started: Vec<_> = (1..threads).map(|_| scope.spawn(some)).collect();
        let own = some();
        let others = started.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::Invalid("a thread that read keys has panicked".into())))
        });
        std::iter::once(own).chain(others).collect()
    });
    let mut done: Vec<(usize, T)> = parts.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(piece, _)| *piece);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for count in [0, 1, 2, 3, 1000] {
            let found = in_parallel(count, |piece| Ok(piece * 3)).unwrap();
            assert_eq!(found, (0..count).map(|piece| piece * 3).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let work = |piece| if piece == 70 { Err(Error::Closed) } else { Ok(()) };
        assert!(matches!(in_parallel(100, work), Err(Error::Closed)));
    }
}
