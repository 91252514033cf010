//! Two ranks on one machine: each gives the other its inbox, a segment of shared memory with a ring for each of the others.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use craton_slab::Segment;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};

use crate::bell::{BELL_BYTES, Bell};
use crate::channel::Local;
use crate::error::{Error, Result};
use crate::memory::Piece;
use crate::remote_memory;
use crate::ring::{Consumer, Producer, RING_HEAD, RingPlace};

/// The memory of all rings of an inbox, and the least and the most of one.
const INBOX_BYTES: usize = 8 << 20;
const LEAST_RING: usize = 64 << 10;
const MOST_RING: usize = 1 << 20;
const INTRODUCTION: usize = 64;

/// This rank's inbox.
pub(crate) struct Inbox {
    pub segment: Arc<Segment>,
    capacity: usize,
    /// What others read to find out whether they can read this process's memory.
    probe: Box<[u8; 16]>,
}

#[derive(Serialize, Deserialize)]
struct Introduction {
    length: u64,
    capacity: u64,
    /// The ring for the other one.
    offset: u64,
    process: u32,
    probe_at: u64,
    probe: [u8; 16],
}

impl Inbox {
    /// An inbox with rings for this many other ranks.
    pub fn new(others: usize) -> Result<Self> {
        let share = (INBOX_BYTES / others.max(1)).clamp(LEAST_RING, MOST_RING);
        let capacity = if share.is_power_of_two() { share } else { share.next_power_of_two() / 2 };
        let length = BELL_BYTES + others * (RING_HEAD + capacity).next_multiple_of(4096);
        let segment = Segment::create_for_client(0, length.next_multiple_of(4096))
            .map_err(|e| Error::system("shared memory for messages", e))?;
        let mut probe = Box::new([0; 16]);
        let random = crate::auth::nonce().ok_or_else(|| Error::system("random numbers", "the system has none"))?;
        probe.copy_from_slice(&random[..16]);
        Ok(Self { segment, capacity, probe })
    }

    fn offset(&self, place: usize) -> usize {
        BELL_BYTES + place * (RING_HEAD + self.capacity).next_multiple_of(4096)
    }

    /// Exchange inboxes with another rank over an authenticated socket. `place` is the number of its ring in this inbox.
    ///
    /// # Errors
    /// If the socket or its memory cannot be used.
    pub fn exchange(
        &self,
        stream: &mut UnixStream,
        doorbell: BorrowedFd<'_>,
        place: usize,
    ) -> Result<(Local, Option<OwnedFd>)> {
        let own = Introduction {
            length: self.segment.len() as u64,
            capacity: self.capacity as u64,
            offset: self.offset(place) as u64,
            process: std::process::id(),
            probe_at: self.probe.as_ptr().addr() as u64,
            probe: *self.probe,
        };
        let inbox = self.segment.writable_fd().map_err(|e| Error::system("share memory for messages", e))?;
        send(stream, &own, &[inbox, doorbell])?;
        let (other, fds) = receive(stream)?;
        let [inbox, doorbell] = <[OwnedFd; 2]>::try_from(fds)
            .map_err(|_| Error::system("the exchange of shared memory", "descriptors are missing"))?;
        let segment = Segment::attach(0, inbox, other.length as usize, true)
            .map_err(|e| Error::system("map another rank's memory for messages", e))?;
        let invalid = || Error::system("the exchange of shared memory", "the places of rings are invalid");
        let outgoing =
            RingPlace::new(segment.clone(), other.offset as usize, other.capacity as usize).ok_or_else(invalid)?;
        let incoming = RingPlace::new(self.segment.clone(), self.offset(place), self.capacity).ok_or_else(invalid)?;
        let process = peer_process(stream).unwrap_or(0);
        let readable = process != 0 && u32::try_from(process) == Ok(other.process) && can_read(process, &other);
        let reads_ours = agree(stream, readable)?;
        let local = Local {
            outgoing: Producer::new(outgoing),
            incoming: Consumer::new(incoming),
            bell: Bell::of_other(segment, doorbell)?,
            reads_ours,
            process: if readable { process } else { 0 },
        };
        Ok((local, process_descriptor(process)))
    }
}

fn can_read(process: i32, other: &Introduction) -> bool {
    let mut found = [0_u8; 16];
    let probe = [Piece { start: other.probe_at as usize as *const u8, length: 16 }];
    // SAFETY: there is room for the 16 bytes.
    unsafe { remote_memory::copy(process, &probe, found.as_mut_ptr()) && found == other.probe }
}

/// Tell the other rank whether its memory can be read; return whether it can read ours.
fn agree(stream: &mut UnixStream, readable: bool) -> Result<bool> {
    let ended = |e: std::io::Error| Error::system("the exchange of shared memory", e);
    stream.write_all(&[u8::from(readable)]).map_err(ended)?;
    let mut answer = [0];
    stream.read_exact(&mut answer).map_err(ended)?;
    Ok(answer[0] == 1)
}

#[cfg(target_os = "linux")]
fn peer_process(stream: &UnixStream) -> Option<i32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.pid.as_raw_nonzero().get())
}

#[cfg(not(target_os = "linux"))]
fn peer_process(_stream: &UnixStream) -> Option<i32> {
    None
}

/// A descriptor that becomes readable when the process ends.
#[cfg(target_os = "linux")]
fn process_descriptor(process: i32) -> Option<OwnedFd> {
    let process = rustix::process::Pid::from_raw(process)?;
    rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn process_descriptor(_process: i32) -> Option<OwnedFd> {
    None
}

fn send(stream: &UnixStream, own: &Introduction, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    let mut bytes = postcard::to_stdvec(own).expect("numbers can be encoded");
    bytes.resize(INTRODUCTION, 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
    debug_assert!(fits, "there is space for two descriptors");
    let sent = rustix::net::sendmsg(stream.as_fd(), &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL);
    match sent {
        Ok(INTRODUCTION) => Ok(()),
        Ok(_) => Err(Error::system("the exchange of shared memory", "the socket has no room")),
        Err(e) => Err(Error::system("the exchange of shared memory", e)),
    }
}

fn receive(stream: &UnixStream) -> Result<(Introduction, Vec<OwnedFd>)> {
    let mut bytes = [0; INTRODUCTION];
    let (mut filled, mut found) = (0, Vec::new());
    while filled < INTRODUCTION {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut target = [IoSliceMut::new(&mut bytes[filled..])];
        let received = match rustix::net::recvmsg(stream.as_fd(), &mut target, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(Error::system("the exchange of shared memory", e)),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                found.extend(descriptors);
            }
        }
        if received == 0 {
            return Err(Error::system("the exchange of shared memory", "the connection ended"));
        }
        filled += received;
    }
    let other = postcard::from_bytes(&bytes).map_err(|e| Error::system("the exchange of shared memory", e))?;
    Ok((other, found))
}
