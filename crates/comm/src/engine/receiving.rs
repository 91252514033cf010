//! Requests to receive, and what arrives.

use super::frames::{HEAD, MOST_OFFERED};
use super::{Arrived, Class, Engine, Head, Kind, Label, Offered, Posted, Request, Stop, Target, Unexpected, mismatch};
use crate::channel::{Channel, Ended};
use crate::error::Error;
use crate::memory::{Block, Piece};
use crate::remote_memory;
use crate::state::Fault;

/// The frame that is being read.
pub(super) struct Incoming {
    bytes: [u8; HEAD],
    got: usize,
    payload: Option<Payload>,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { bytes: [0; HEAD], got: 0, payload: None }
    }
}

struct Payload {
    head: Head,
    place: Place,
    start: *mut u8,
    length: usize,
    got: usize,
}

enum Place {
    /// The memory of a request.
    Given(Request),
    /// A block; it is matched when it is complete.
    Block(Block),
    /// The list of an offer's pieces.
    List(Block),
}

impl Engine {
    /// Receive a message of a rank. The target's memory must stay valid until the request is complete or the call fails.
    pub fn receive(&mut self, from: usize, label: Label, target: Target) -> Result<Request, Stop> {
        let result = self.start_receiving(from, label, target);
        self.guarded(result)
    }

    fn start_receiving(&mut self, from: usize, label: Label, target: Target) -> Result<Request, Stop> {
        let request = self.open();
        let found = self.peers[from].unexpected.iter().position(|one| matches(&label, &one.head));
        // A message that is being read already goes to a block, and is matched when it is complete.
        if let Some(at) = found {
            let one = self.peers[from].unexpected.remove(at).expect("the position is valid");
            let posted = Posted { label, target, request };
            check(&posted, &one.head, from)?;
            self.deliver(&posted, one.content)?;
        } else {
            self.peers[from].posted.push(Posted { label, target, request });
        }
        Ok(request)
    }

    /// Take in what has arrived from a rank; return whether there was anything.
    pub(super) fn pull(&mut self, from: usize) -> Result<bool, Stop> {
        let mut moved = false;
        // Bounded, so that a rank that sends without end does not keep this one from its other work.
        for _ in 0..64 {
            let peer = &mut self.peers[from];
            let Some(channel) = &mut peer.channel else { break };
            let incoming = &mut peer.incoming;
            let (start, length) = match &mut incoming.payload {
                None => (incoming.bytes.as_mut_ptr().wrapping_add(incoming.got), HEAD - incoming.got),
                Some(payload) => (payload.start.wrapping_add(payload.got), payload.length - payload.got),
            };
            if length > 0 {
                // SAFETY: the head's buffer; or the memory of a request or a block, which has room for the rest of the payload.
                match unsafe { channel.read(start, length) } {
                    Ok(0) => break,
                    Ok(count) => {
                        channel.release();
                        moved = true;
                        match &mut incoming.payload {
                            None => incoming.got += count,
                            Some(payload) => payload.got += count,
                        }
                        if count < length {
                            continue;
                        }
                    }
                    Err(Ended::Closed) => {
                        peer.channel = None;
                        peer.end("it has closed its connection");
                        break;
                    }
                    Err(Ended::Broken(reason)) => {
                        peer.channel = None;
                        peer.end(&reason);
                        break;
                    }
                }
            }
            match incoming.payload.take() {
                None => self.begin_frame(from)?,
                Some(payload) => self.end_frame(from, payload)?,
            }
        }
        Ok(moved)
    }

    fn begin_frame(&mut self, from: usize) -> Result<(), Stop> {
        let incoming = &mut self.peers[from].incoming;
        incoming.got = 0;
        let head = Head::decode(&incoming.bytes).ok_or_else(|| malformed(from))?;
        let length = head.length as usize;
        let (place, length) = match head.kind {
            Kind::Taken => {
                self.offer_taken(from, head.id);
                return Ok(());
            }
            Kind::Offer => {
                // The number of pieces is not known before the list has been read: its length is in the first bytes.
                let count = head.id >> 48;
                if count == 0 || count > MOST_OFFERED as u64 {
                    return Err(malformed(from));
                }
                (Place::List(Block::new(count as usize * 16)?), count as usize * 16)
            }
            Kind::Whole => match self.given_memory(from, &head)? {
                Some((request, start)) => {
                    let payload = Payload { head, place: Place::Given(request), start, length, got: 0 };
                    return self.start_payload(from, payload);
                }
                None => (Place::Block(Block::new(length)?), length),
            },
        };
        let (Place::Block(block) | Place::List(block)) = &place else { unreachable!("memory that was given is above") };
        let start = block.pointer();
        self.start_payload(from, Payload { head, place, start, length, got: 0 })
    }

    fn start_payload(&mut self, from: usize, payload: Payload) -> Result<(), Stop> {
        if payload.length == 0 {
            return self.end_frame(from, payload);
        }
        self.peers[from].incoming.payload = Some(payload);
        Ok(())
    }

    /// The memory of the request that a message is for, if one was posted with memory.
    fn given_memory(&mut self, from: usize, head: &Head) -> Result<Option<(Request, *mut u8)>, Stop> {
        let posted = &mut self.peers[from].posted;
        let Some(at) = posted.iter().position(|one| matches(&one.label, head)) else { return Ok(None) };
        check(&posted[at], head, from)?;
        let Target::Memory(start, _) = posted[at].target else { return Ok(None) };
        let one = posted.remove(at);
        Ok(Some((one.request, start)))
    }

    fn end_frame(&mut self, from: usize, payload: Payload) -> Result<(), Stop> {
        let Payload { head, place, .. } = payload;
        let content = match place {
            Place::Given(request) => {
                self.complete(request, Arrived::Done);
                return Ok(());
            }
            Place::Block(block) => Arrived::Block(block),
            Place::List(list) => {
                let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes")) as usize;
                let pieces: Vec<Piece> = (list.bytes().chunks_exact(16))
                    .map(|entry| Piece { start: number(&entry[..8]) as *const u8, length: number(&entry[8..]) })
                    .collect();
                let sum = pieces.iter().try_fold(0_usize, |sum, piece| sum.checked_add(piece.length));
                if sum != Some(head.length as usize) {
                    return Err(malformed(from));
                }
                Arrived::Offered(Offered { peer: from, pieces, id: head.id })
            }
        };
        self.arrived(from, Unexpected { head, content })
    }

    /// Hand a complete message over to the request that it is for, or keep it.
    pub(super) fn arrived(&mut self, from: usize, one: Unexpected) -> Result<(), Stop> {
        let posted = &mut self.peers[from].posted;
        if let Some(at) = posted.iter().position(|posted| matches(&posted.label, &one.head)) {
            let posted = posted.remove(at);
            check(&posted, &one.head, from)?;
            return self.deliver(&posted, one.content);
        }
        let one = if self.eager { self.fetched(one)? } else { one };
        self.peers[from].unexpected.push_back(one);
        Ok(())
    }

    fn deliver(&mut self, posted: &Posted, content: Arrived) -> Result<(), Stop> {
        let arrived = match (posted.target, content) {
            (Target::Memory(start, _), Arrived::Offered(offered)) => {
                // SAFETY: the lengths were compared; the memory is valid until the request is complete.
                unsafe { self.copy_offered(&offered, &offered.pieces, start)? };
                self.taken(&offered)?;
                Arrived::Done
            }
            (Target::Memory(start, _), Arrived::Block(block)) => {
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(block.pointer(), start, block.length()) };
                Arrived::Done
            }
            (Target::Block, Arrived::Offered(offered)) => Arrived::Block(self.fetch(&offered)?),
            (_, content) => content,
        };
        self.complete(posted.request, arrived);
        Ok(())
    }

    fn fetch(&mut self, offered: &Offered) -> Result<Block, Stop> {
        let block = Block::new(crate::memory::total(&offered.pieces))?;
        // SAFETY: the block has the length of the pieces.
        unsafe { self.copy_offered(offered, &offered.pieces, block.pointer())? };
        self.taken(offered)?;
        Ok(block)
    }

    fn fetched(&mut self, one: Unexpected) -> Result<Unexpected, Stop> {
        match one.content {
            Arrived::Offered(offered) => {
                Ok(Unexpected { head: one.head, content: Arrived::Block(self.fetch(&offered)?) })
            }
            content => Ok(Unexpected { head: one.head, content }),
        }
    }

    /// Copy all offered messages that nobody has asked for yet, and let their senders go on.
    pub(super) fn fetch_unexpected(&mut self) -> Result<(), Stop> {
        for from in 0..self.peers.len() {
            if !self.peers[from].unexpected.iter().any(|one| matches!(one.content, Arrived::Offered(_))) {
                continue;
            }
            for one in std::mem::take(&mut self.peers[from].unexpected) {
                let one = self.fetched(one)?;
                self.peers[from].unexpected.push_back(one);
            }
        }
        Ok(())
    }

    /// Copy pieces of an offered message.
    ///
    /// # Safety
    /// As many bytes as the pieces have must be writable at `target`.
    pub unsafe fn copy_offered(&self, offered: &Offered, pieces: &[Piece], target: *mut u8) -> Result<(), Stop> {
        let Some(Channel::Local(local)) = &self.peers[offered.peer].channel else {
            return Err(malformed(offered.peer));
        };
        // SAFETY: promised by the caller.
        let copied = unsafe { remote_memory::copy(local.process, pieces, target) };
        // If its call has failed meanwhile, its memory may have changed before it was copied.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let broken = local.bell.broken().load(std::sync::atomic::Ordering::SeqCst) != 0;
        if copied && !broken {
            return Ok(());
        }
        // The notice that says why is on its way.
        for _ in 0..100 {
            if self.state.is_broken() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let reason = if broken { "its call has failed" } else { "its memory cannot be read" };
        Err(Stop::Fault(Fault::Failed { rank: offered.peer, reason: reason.into() }))
    }
}

fn matches(label: &Label, head: &Head) -> bool {
    label.class == head.class
        && label.context == head.context
        && (label.class == Class::Collective || label.tag == head.tag)
}

/// Check that a message is the one that a request expects.
fn check(posted: &Posted, head: &Head, from: usize) -> Result<(), Stop> {
    let label = &posted.label;
    if label.class == Class::Collective && (label.tag, label.signature) != (head.tag, head.signature) {
        return Err(Stop::Fault(mismatch(label.signature, from, head.signature)));
    }
    match posted.target {
        Target::Memory(_, length) | Target::Later(length) if length as u64 != head.length => {
            Err(Stop::Fault(mismatch(label.signature, from, head.signature)))
        }
        _ => Ok(()),
    }
}

fn malformed(from: usize) -> Stop {
    Stop::Fault(Fault::Failed { rank: from, reason: "it sent a malformed message".into() })
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}
