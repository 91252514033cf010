//! Requests to send, and what is on its way out.

use super::frames::{HEAD, MOST_OFFERED};
use super::{Arrived, Class, Engine, Head, Kind, Label, Offer, Offered, Peer, Request, Stop, Unexpected};
use crate::channel::{Channel, Ended};
use crate::memory::{Block, Piece, total};

/// From this size on, a message to a process of this machine is offered, and copied once.
const OFFERED_FROM: usize = 256 << 10;

pub(super) struct Outgoing {
    head: [u8; HEAD],
    pieces: Vec<Piece>,
    /// Memory of the frame's own that a piece refers to.
    _owned: Vec<u8>,
    length: usize,
    sent: usize,
    request: Option<Request>,
}

impl Engine {
    /// Send pieces to a rank. They must stay valid and unchanged until the request is complete or the call fails.
    pub fn send(&mut self, to: usize, label: Label, pieces: &[Piece]) -> Result<Request, Stop> {
        let result = self.start_sending(to, label, pieces);
        self.guarded(result)
    }

    fn start_sending(&mut self, to: usize, label: Label, pieces: &[Piece]) -> Result<Request, Stop> {
        let request = self.open();
        let length = total(pieces);
        let head = Head {
            kind: Kind::Whole,
            class: label.class,
            signature: label.signature,
            context: label.context,
            tag: label.tag,
            length: length as u64,
            id: 0,
        };
        if to == self.rank {
            let content = Arrived::Block(Block::copy_of(pieces)?);
            self.arrived(to, Unexpected { head, content })?;
            self.complete(request, Arrived::Done);
            return Ok(request);
        }
        let readable = matches!(&self.peers[to].channel, Some(Channel::Local(local)) if local.reads_ours);
        if readable && length >= OFFERED_FROM && pieces.len() <= MOST_OFFERED {
            // The number of pieces in the highest bits says how long the frame's payload is.
            let id = (pieces.len() as u64) << 48 | self.next_offer;
            self.next_offer = (self.next_offer + 1) & ((1 << 48) - 1);
            self.offers.push(Offer { id, peer: to, request });
            let mut list = Vec::with_capacity(pieces.len() * 16);
            for piece in pieces {
                list.extend((piece.start.addr() as u64).to_le_bytes());
                list.extend((piece.length as u64).to_le_bytes());
            }
            self.post_out(to, Head { kind: Kind::Offer, id, ..head }, list, None)?;
        } else if self.peers[to].outbox.is_empty() {
            // The usual case of a small message: nothing is allocated.
            let bytes = head.encode();
            let sent = write(&mut self.peers[to], &bytes, pieces, 0)?;
            if sent == HEAD + length {
                self.complete(request, Arrived::Done);
            } else {
                let request = Some(request);
                let (pieces, length) = (pieces.to_vec(), HEAD + length);
                let out = Outgoing { head: bytes, pieces, _owned: Vec::new(), length, sent, request };
                self.peers[to].outbox.push_back(out);
            }
        } else {
            let (pieces, request) = (pieces.to_vec(), Some(request));
            let length = HEAD + length;
            let out = Outgoing { head: head.encode(), pieces, _owned: Vec::new(), length, sent: 0, request };
            self.peers[to].outbox.push_back(out);
        }
        Ok(request)
    }

    /// Tell the sender of an offer that it was copied.
    pub fn taken(&mut self, offered: &Offered) -> Result<(), Stop> {
        let head = Head {
            kind: Kind::Taken,
            class: Class::Point,
            signature: 0,
            context: 0,
            tag: 0,
            length: 0,
            id: offered.id,
        };
        self.post_out(offered.peer, head, Vec::new(), None)
    }

    fn post_out(&mut self, to: usize, head: Head, owned: Vec<u8>, request: Option<Request>) -> Result<(), Stop> {
        let pieces = if owned.is_empty() { Vec::new() } else { vec![Piece::of(&owned)] };
        let length = HEAD + owned.len();
        let mut out = Outgoing { head: head.encode(), pieces, _owned: owned, length, sent: 0, request };
        let peer = &mut self.peers[to];
        if peer.outbox.is_empty() {
            out.sent = write(peer, &out.head, &out.pieces, 0)?;
            if out.sent == out.length {
                return Ok(());
            }
        }
        peer.outbox.push_back(out);
        Ok(())
    }

    /// Write what there is room for; return whether anything was written.
    pub(super) fn push(&mut self, to: usize) -> Result<bool, Stop> {
        let mut moved = false;
        loop {
            let peer = &mut self.peers[to];
            let Some(mut out) = peer.outbox.pop_front() else { break };
            let count = write(peer, &out.head, &out.pieces, out.sent)?;
            out.sent += count;
            moved |= count > 0;
            if out.sent < out.length {
                peer.outbox.push_front(out);
                break;
            }
            if let Some(request) = out.request {
                self.complete(request, Arrived::Done);
            }
        }
        Ok(moved)
    }

    /// The offer with this id was copied by its receiver.
    pub(super) fn offer_taken(&mut self, peer: usize, id: u64) {
        if let Some(at) = self.offers.iter().position(|offer| (offer.id, offer.peer) == (id, peer)) {
            let offer = self.offers.swap_remove(at);
            self.complete(offer.request, Arrived::Done);
        }
    }

    pub(super) fn awaits_taking(&self, peer: usize) -> bool {
        self.offers.iter().any(|offer| offer.peer == peer)
    }

    /// Whether frames wait for room.
    pub fn has_outgoing(&self) -> bool {
        self.peers.iter().any(|peer| !peer.outbox.is_empty())
    }
}

/// Write a frame from its `sent`-th byte on. A stream that has ended accepts nothing; the waiting call notices it.
fn write(peer: &mut Peer, head: &[u8; HEAD], pieces: &[Piece], sent: usize) -> Result<usize, Stop> {
    let Some(channel) = &mut peer.channel else { return Ok(0) };
    // SAFETY: the pieces are valid until their request is complete: promised by the callers of `send`.
    match unsafe { channel.write(head, pieces, sent) } {
        Ok(0) => Ok(0),
        Ok(count) => {
            channel.flush();
            Ok(count)
        }
        Err(Ended::Closed) => Ok(0),
        Err(Ended::Broken(reason)) => {
            peer.end(&reason);
            Ok(0)
        }
    }
}
