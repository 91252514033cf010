//! Messages over the streams between this rank and all others: requests to send and to receive, and their progress.
//!
//! The engine runs in the calling thread, within calls. While a rank waits for anything, it takes in everything that arrives; what nobody
//! has asked for yet is kept until somebody does.

mod frames;
mod receiving;
mod sending;
mod waiting;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::channel::Channel;
use crate::memory::{Block, Piece};
use crate::state::{Fault, State};

pub(crate) use frames::Class;
use frames::{Head, Kind};
use receiving::Incoming;
use sending::Outgoing;
pub(crate) use waiting::{Patience, Stop};

/// A number that identifies a request until the call ends.
pub(crate) type Request = usize;

/// What a message is recognised by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label {
    pub class: Class,
    pub context: u64,
    pub tag: u64,
    pub signature: u32,
}

/// Where a message is to be received.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// A new block of its length.
    Block,
    /// This memory, which it must fill exactly.
    Memory(*mut u8, usize),
    /// Left with the sender if it can be copied from there later, otherwise a new block. It must have this length.
    Later(usize),
}

/// A message that has arrived.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// It was written to the memory that was given, or was sent.
    Done,
    /// In a block.
    Block(Block),
    /// Still in the memory of the sender, which waits until it is told that the message was copied.
    Offered(Offered),
}

/// A message in the memory of its sender.
#[derive(Debug)]
pub(crate) struct Offered {
    pub peer: usize,
    pub pieces: Vec<Piece>,
    id: u64,
}

struct Posted {
    label: Label,
    target: Target,
    request: Request,
}

struct Unexpected {
    head: Head,
    content: Arrived,
}

/// The messages from and to one rank.
#[derive(Default)]
pub(crate) struct Peer {
    channel: Option<Channel>,
    outbox: VecDeque<Outgoing>,
    incoming: Incoming,
    posted: Vec<Posted>,
    unexpected: VecDeque<Unexpected>,
    /// Why the stream has ended, and when that was noticed.
    ended: Option<(String, Instant)>,
}

impl Peer {
    fn end(&mut self, reason: &str) {
        self.ended.get_or_insert_with(|| (reason.to_owned(), Instant::now()));
    }
}

enum Status {
    Pending,
    Arrived(Arrived),
    Collected,
}

struct Offer {
    id: u64,
    peer: usize,
    request: Request,
}

/// All requests of a rank.
pub(crate) struct Engine {
    state: Arc<State>,
    rank: usize,
    peers: Vec<Peer>,
    requests: Vec<Status>,
    pending: usize,
    offers: Vec<Offer>,
    next_offer: u64,
    /// Copy offered messages that nobody has asked for yet at once, because their senders may wait for this rank's own sends.
    eager: bool,
    /// Whether there are fewer ranks on this machine than processors, so that waiting in a loop takes nothing from others.
    spare_processors: bool,
}

// SAFETY: the memory that targets and pieces refer to is used within calls only, by the thread that holds the engine's lock.
unsafe impl Send for Engine {}

impl Engine {
    /// `neighbours` are the ranks on this machine, this one included.
    pub fn new(state: Arc<State>, rank: usize, channels: Vec<Option<Channel>>, neighbours: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let peers = channels.into_iter().map(|channel| Peer { channel, ..Peer::default() }).collect();
        Self {
            state,
            rank,
            peers,
            requests: Vec::new(),
            pending: 0,
            offers: Vec::new(),
            next_offer: 1,
            eager: false,
            spare_processors: neighbours <= processors,
        }
    }

    /// Begin a call: no request of an earlier one is known any more.
    pub fn begin(&mut self, eager: bool) {
        debug_assert_eq!(self.pending, 0);
        self.requests.clear();
        self.eager = eager;
    }

    /// Give up all requests, after a fault. Nothing is sent or received any more.
    pub fn abandon(&mut self) {
        for peer in &mut self.peers {
            *peer = Peer::default();
        }
        self.requests.clear();
        self.offers.clear();
        self.pending = 0;
    }

    /// Pass a result on. After an error, memory that was offered may soon change: mark it before it does.
    fn guarded<T>(&self, result: Result<T, Stop>) -> Result<T, Stop> {
        if result.is_err() {
            self.state.bell.broken().store(1, std::sync::atomic::Ordering::SeqCst);
        }
        result
    }

    fn open(&mut self) -> Request {
        self.requests.push(Status::Pending);
        self.pending += 1;
        self.requests.len() - 1
    }

    fn complete(&mut self, request: Request, arrived: Arrived) {
        self.requests[request] = Status::Arrived(arrived);
        self.pending -= 1;
    }

    pub fn is_complete(&self, request: Request) -> bool {
        !matches!(self.requests[request], Status::Pending)
    }

    /// The message of a completed request to receive.
    pub fn take(&mut self, request: Request) -> Arrived {
        match std::mem::replace(&mut self.requests[request], Status::Collected) {
            Status::Arrived(arrived) => arrived,
            Status::Pending | Status::Collected => unreachable!("a request is collected once, after it was completed"),
        }
    }

    /// The block of a completed request to receive one.
    pub fn take_block(&mut self, request: Request) -> Block {
        match self.take(request) {
            Arrived::Block(block) => block,
            _ => unreachable!("the request was for a block"),
        }
    }

    /// Close all streams. What was written to them still arrives.
    pub fn close(&mut self) {
        for peer in &mut self.peers {
            if let Some(Channel::Tcp(tcp)) = &peer.channel {
                let _ = tcp.stream.shutdown(std::net::Shutdown::Write);
            }
            peer.channel = None;
        }
    }
}

/// Describe a signature: the name of the collective in its first eight bits.
pub(crate) fn call_name(signature: u32) -> &'static str {
    const NAMES: [&str; 10] = [
        "another call",
        "barrier",
        "broadcast",
        "gather",
        "allgather",
        "scatter",
        "alltoall",
        "reduce",
        "allreduce",
        "reduce_scatter",
    ];
    NAMES.get((signature >> 24) as usize).copied().unwrap_or(NAMES[0])
}

/// The fault of two calls that do not agree.
pub(crate) fn mismatch(ours: u32, other: usize, theirs: u32) -> Fault {
    let (ours, theirs) = (call_name(ours), call_name(theirs));
    Fault::Mismatch(if ours == theirs {
        format!(
            "the ranks called {ours} with arguments that do not agree (root, reduction, shape or dtype); rank {other}'s differ"
        )
    } else {
        format!("the ranks called different collectives: rank {other} called {theirs} where another rank called {ours}")
    })
}
