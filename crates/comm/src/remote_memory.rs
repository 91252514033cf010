//! Copies from the memory of another process of this machine: one copy instead of two through a ring.

use crate::memory::Piece;

/// Bytes that one system call copies; between two of them the caller can be interrupted.
const MOST_BYTES: usize = 64 << 20;
const MOST_PIECES: usize = 64;

/// Copy pieces of another process's memory, in order, to `target`; return whether all of them were copied.
///
/// # Safety
/// As many bytes as the pieces have together must be writable at `target`.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn copy(process: i32, pieces: &[Piece], target: *mut u8) -> bool {
    let mut done = 0;
    let (mut first, mut skip) = (0, 0);
    while first < pieces.len() {
        let mut remote = Vec::with_capacity((pieces.len() - first).min(MOST_PIECES));
        let mut length = 0;
        for (number, piece) in pieces[first..].iter().enumerate() {
            let part = if number == 0 { piece.part(skip, piece.length - skip) } else { *piece };
            let taken = part.length.min(MOST_BYTES - length);
            remote.push(libc::iovec { iov_base: part.start.cast_mut().cast(), iov_len: taken });
            length += taken;
            if length == MOST_BYTES || remote.len() == MOST_PIECES {
                break;
            }
        }
        let local = libc::iovec { iov_base: target.wrapping_add(done).cast(), iov_len: length };
        // SAFETY: the target is writable; addresses that the other process does not have make the call fail.
        let copied = unsafe {
            libc::process_vm_readv(process, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0)
        };
        let Ok(mut copied) = usize::try_from(copied) else { return false };
        if copied == 0 && length > 0 {
            return false;
        }
        done += copied;
        while first < pieces.len() && copied >= pieces[first].length - skip {
            copied -= pieces[first].length - skip;
            (first, skip) = (first + 1, 0);
        }
        skip += copied;
    }
    true
}

/// Other systems have no such call; ranks agree at the start not to use it.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn copy(_process: i32, _pieces: &[Piece], _target: *mut u8) -> bool {
    false
}

/// Allow processes of this user to read this process's memory, where only its ancestors may (Yama).
pub(crate) fn permit() {
    #[cfg(target_os = "linux")]
    // SAFETY: the call changes an attribute of this process; it fails where Yama is not in use.
    unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::memory::{Piece, slice};

    #[test]
    fn pieces_of_all_sizes() {
        let source: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
        let mut pieces = Vec::new();
        let mut at = 0;
        for step in 0.. {
            let length = (step * 37 % 6000).min(source.len() - at);
            pieces.extend(slice(&[Piece::of(&source)], at, length));
            if step % 5 == 0 {
                pieces.push(Piece::of(&[]));
            }
            at += length;
            if at == source.len() {
                break;
            }
        }
        let mut target = vec![0; source.len()];
        // SAFETY: the target is as long as the pieces together.
        assert!(unsafe { super::copy(std::process::id() as i32, &pieces, target.as_mut_ptr()) });
        assert_eq!(target, source);
        let nowhere = [Piece { start: 16 as *const u8, length: 8 }];
        // SAFETY: as above.
        assert!(!unsafe { super::copy(std::process::id() as i32, &nowhere, target.as_mut_ptr()) });
    }
}
