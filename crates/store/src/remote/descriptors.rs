//! Sending and receiving frames with descriptors over a socket.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use craton_slab::Segment;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Result;
use super::protocol::{Broken, HEADER, MOST_DESCRIPTORS, decode, encode, frame_length};
use crate::error::Error;

// The initial size of a buffer in bytes, to which it shrinks again after a larger frame.
const ROOM: usize = 16 << 10;

/// Seal a segment, and return its descriptor for processes that only read it.
pub(super) fn readable(segment: &Segment) -> Result<BorrowedFd<'_>> {
    segment.share_fd().map_err(|e| refused("share a segment", &e))
}

/// The descriptor of a segment for the one client that writes to it.
pub(super) fn writable(segment: &Segment) -> Result<BorrowedFd<'_>> {
    segment.writable_fd().map_err(|e| refused("grant a segment to a client", &e))
}

pub(super) fn refused(what: &str, error: &craton_slab::Error) -> Error {
    Error::slab(what.into(), error)
}

/// One end of a connection: the socket, and the bytes and descriptors that were received and not consumed yet.
pub(super) struct Channel {
    socket: Arc<UnixStream>,
    incoming: Vec<u8>,
    filled: usize,
    descriptors: VecDeque<OwnedFd>,
    outgoing: Vec<u8>,
    // Whether descriptors are accepted; otherwise the kernel closes any that arrive.
    takes: bool,
    // The timeout of a frame.
    patience: Option<Duration>,
}

impl Channel {
    /// A connection. `takes` tells whether descriptors are accepted; `patience` is the timeout for the peer to read a frame, or to complete one
    /// that it has begun.
    pub(super) fn new(socket: Arc<UnixStream>, takes: bool, patience: Option<Duration>) -> std::io::Result<Self> {
        socket.set_read_timeout(patience)?;
        socket.set_write_timeout(patience)?;
        let (incoming, outgoing, descriptors) = (vec![0; ROOM], Vec::with_capacity(ROOM), VecDeque::new());
        Ok(Self { socket, incoming, filled: 0, descriptors, outgoing, takes, patience })
    }

    pub(super) fn socket(&self) -> &Arc<UnixStream> {
        &self.socket
    }

    /// Change the timeout.
    pub(super) fn set_patience(&mut self, patience: Option<Duration>) -> std::io::Result<()> {
        self.patience = patience;
        self.socket.set_read_timeout(patience)?;
        self.socket.set_write_timeout(patience)
    }

    /// Send a frame with descriptors. After [`Broken::Oversize`], nothing was sent.
    pub(super) fn send<T: Serialize>(
        &mut self,
        value: &T,
        descriptors: &[BorrowedFd<'_>],
        most: usize,
    ) -> Result<(), Broken> {
        encode(value, &mut self.outgoing, most)?;
        let begun = Instant::now();
        let mut sent = 0;
        while sent < self.outgoing.len() {
            let bytes = [IoSlice::new(&self.outgoing[sent..])];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if sent == 0 && !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(Broken::Descriptors { announced: descriptors.len(), arrived: 0 });
            }
            match rustix::net::sendmsg(&self.socket, &bytes, &mut control, SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(Broken::Stalled),
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Broken::Closed),
                Err(e) => return Err(Broken::System(e.into())),
            }
            if sent < self.outgoing.len() && self.patience.is_some_and(|patience| begun.elapsed() > patience) {
                return Err(Broken::Stalled);
            }
        }
        if self.outgoing.capacity() > 1 << 20 {
            self.outgoing = Vec::with_capacity(ROOM);
        }
        Ok(())
    }

    /// Receive the next frame's value. After [`Broken::Silent`], no frame has begun within the timeout, and the connection can still be used.
    pub(super) fn receive<T: DeserializeOwned>(&mut self, most: usize) -> Result<T, Broken> {
        let mut begun = None;
        let end = loop {
            let mut wanted = ROOM;
            if let Some((header, _)) = self.incoming[..self.filled].split_first_chunk::<HEADER>() {
                let end = HEADER + frame_length(*header, most)?;
                if self.filled >= end {
                    break end;
                }
                // The announced length is untrusted: memory grows only as bytes arrive.
                wanted = end.min(self.filled.saturating_mul(2)).max(ROOM);
            }
            if self.incoming.len() < wanted {
                self.incoming.resize(wanted, 0);
            }
            if self.filled > 0 {
                let begun = *begun.get_or_insert_with(Instant::now);
                if self.patience.is_some_and(|patience| begun.elapsed() > patience) {
                    return Err(Broken::Stalled);
                }
            }
            match self.fill() {
                Ok(0) => return Err(if self.filled == 0 { Broken::Closed } else { Broken::Truncated }),
                Ok(count) => self.filled += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(if self.filled == 0 { Broken::Silent } else { Broken::Stalled }),
                Err(Errno::CONNRESET) => return Err(Broken::Closed),
                Err(e) => return Err(Broken::System(e.into())),
            }
        };
        let value = decode(&self.incoming[HEADER..end]);
        self.incoming.copy_within(end..self.filled, 0);
        self.filled -= end;
        if self.incoming.len() > 1 << 20 && self.filled <= ROOM {
            self.incoming.truncate(ROOM);
            self.incoming.shrink_to_fit();
        }
        value
    }

    fn fill(&mut self) -> Result<usize, Errno> {
        let mut bytes = [IoSliceMut::new(&mut self.incoming[self.filled..])];
        if !self.takes {
            // Without space for control messages, the kernel closes arriving descriptors.
            let mut control = RecvAncillaryBuffer::default();
            return Ok(rustix::net::recvmsg(&self.socket, &mut bytes, &mut control, RecvFlags::empty())?.bytes);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let count = rustix::net::recvmsg(&self.socket, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        Ok(count)
    }

    /// Take the descriptors of the frame that was received last.
    pub(super) fn descriptors(&mut self, count: usize) -> Result<Vec<OwnedFd>, Broken> {
        if self.descriptors.len() < count {
            return Err(Broken::Descriptors { announced: count, arrived: self.descriptors.len() });
        }
        Ok(self.descriptors.drain(..count).collect())
    }
}
