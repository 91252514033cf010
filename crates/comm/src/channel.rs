//! The stream of bytes between this rank and another one: a pair of rings in shared memory, or a TCP connection.

use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use crate::bell::Bell;
use crate::memory::Piece;
use crate::ring::{Consumer, Producer};

/// Why a stream cannot be used any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The other side has closed it.
    Closed,
    /// An error of the system.
    Broken(String),
}

pub(crate) struct Local {
    pub outgoing: Producer,
    pub incoming: Consumer,
    /// The bell of the other process.
    pub bell: Bell,
    /// The other process, if it can read this one's memory.
    pub reads_ours: bool,
    /// The other process, if this one can read its memory.
    pub process: i32,
}

/// A connection, and bytes that were read ahead: a small message, its head included, takes one call of the system.
pub(crate) struct Tcp {
    pub stream: TcpStream,
    ahead: Box<[u8; AHEAD]>,
    start: usize,
    end: usize,
    /// Whether the last call of the system has read all that there was. The next one would be in vain.
    drained: bool,
}

const AHEAD: usize = 4096;

impl Tcp {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, ahead: Box::new([0; AHEAD]), start: 0, end: 0, drained: false }
    }

    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        if self.start == self.end {
            if std::mem::take(&mut self.drained) && !target.is_empty() {
                return Err(std::io::ErrorKind::WouldBlock.into());
            }
            if target.len() >= AHEAD {
                return self.stream.read(target);
            }
            let count = self.stream.read(&mut self.ahead[..])?;
            (self.start, self.end, self.drained) = (0, count, 0 < count && count < AHEAD);
        }
        let count = target.len().min(self.end - self.start);
        target[..count].copy_from_slice(&self.ahead[self.start..self.start + count]);
        self.start += count;
        Ok(count)
    }
}

#[allow(clippy::large_enum_variant)] // there are few, and they are used in place
pub(crate) enum Channel {
    Local(Local),
    Tcp(Tcp),
}

impl Channel {
    /// Write bytes of the head and then of the pieces, from the `sent`-th on; return how many were accepted. Call `flush` afterwards.
    ///
    /// # Safety
    /// The pieces must be readable.
    pub unsafe fn write(&mut self, head: &[u8], pieces: &[Piece], sent: usize) -> Result<usize, Ended> {
        let all = std::iter::once(Piece::of(head)).chain(pieces.iter().copied());
        let mut skip = sent;
        match self {
            Self::Local(local) => {
                let mut accepted = 0;
                for piece in all {
                    if skip >= piece.length {
                        skip -= piece.length;
                        continue;
                    }
                    let part = piece.part(skip, piece.length - skip);
                    skip = 0;
                    // SAFETY: promised by the caller.
                    let count = unsafe { local.outgoing.write(part.start, part.length) };
                    accepted += count;
                    if count < part.length {
                        break;
                    }
                }
                Ok(accepted)
            }
            Self::Tcp(tcp) => {
                let mut slices = Vec::new();
                for piece in all {
                    if skip >= piece.length {
                        skip -= piece.length;
                        continue;
                    }
                    let part = piece.part(skip, piece.length - skip);
                    skip = 0;
                    // SAFETY: promised by the caller.
                    slices.push(IoSlice::new(unsafe { std::slice::from_raw_parts(part.start, part.length) }));
                    if slices.len() == 64 {
                        break;
                    }
                }
                if slices.is_empty() {
                    return Ok(0);
                }
                match tcp.stream.write_vectored(&slices) {
                    Ok(count) => Ok(count),
                    Err(error) if is_temporary(&error) => Ok(0),
                    Err(error) => Err(Ended::Broken(error.to_string())),
                }
            }
        }
    }

    /// Make what was written visible to the other side.
    pub fn flush(&mut self) {
        if let Self::Local(local) = self {
            local.outgoing.publish();
            local.bell.ring();
        }
    }

    /// Read up to `length` bytes; return how many there were.
    ///
    /// # Safety
    /// `length` bytes at `target` must be writable.
    pub unsafe fn read(&mut self, target: *mut u8, length: usize) -> Result<usize, Ended> {
        match self {
            // SAFETY: promised by the caller.
            Self::Local(local) => Ok(unsafe { local.incoming.read(target, length) }),
            Self::Tcp(tcp) => {
                // SAFETY: promised by the caller; bytes of any value are initialised memory once the call has written them.
                let target = unsafe { std::slice::from_raw_parts_mut(target, length) };
                match tcp.read(target) {
                    Ok(0) if length > 0 => Err(Ended::Closed),
                    Ok(count) => Ok(count),
                    Err(error) if is_temporary(&error) => Ok(0),
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Err(Ended::Closed),
                    Err(error) => Err(Ended::Broken(error.to_string())),
                }
            }
        }
    }

    /// Give the room of what was read back to the other side.
    pub fn release(&mut self) {
        if let Self::Local(local) = self {
            local.incoming.release();
            if local.incoming.place.starved().swap(0, Ordering::SeqCst) != 0 {
                local.bell.ring();
            }
        }
    }

    /// The last step before sleeping. Whether there is still nothing to do: nothing to read and, if something waits to be written, no room.
    pub fn is_idle(&mut self, writing: bool) -> bool {
        match self {
            Self::Local(local) => {
                if writing {
                    local.outgoing.place.starved().store(1, Ordering::SeqCst);
                    if local.outgoing.room() > 0 {
                        return false;
                    }
                }
                local.incoming.is_empty()
            }
            Self::Tcp(tcp) => tcp.start == tcp.end,
        }
    }

    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Local(_) => None,
            Self::Tcp(tcp) => Some(tcp.stream.as_fd()),
        }
    }
}

fn is_temporary(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted)
}
