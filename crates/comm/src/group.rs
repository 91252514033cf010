//! A group of ranks, and the frame of every call: who takes part, how long it may take, and what an error does to all ranks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Arrived, Class, Engine, Label, Offered, Patience, Request, Stop, Target, call_name};
use crate::error::{Error, Result};
use crate::memory::{Block, Piece};
use crate::state::{Called, Fault};
use crate::world::World;

/// How long a call may take, and what it calls while it waits.
pub struct Control<'a> {
    /// The longest time.
    pub timeout: Option<Duration>,
    /// Called every 50 ms at most while the call waits; ends it by returning false.
    pub hook: &'a mut dyn FnMut() -> bool,
}

/// The collectives, as signatures number them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collective {
    Barrier = 1,
    Broadcast = 2,
    Gather = 3,
    Allgather = 4,
    Scatter = 5,
    Alltoall = 6,
    Reduce = 7,
    Allreduce = 8,
    ReduceScatter = 9,
}

/// A group of ranks, which call its collectives together and in the same order.
pub struct Group {
    world: Arc<World>,
    context: u64,
    members: Vec<usize>,
    rank: usize,
    calls: AtomicU64,
    splits: AtomicU64,
    closed: AtomicBool,
}

impl Group {
    pub(crate) fn whole(world: Arc<World>, size: usize) -> Self {
        let rank = world.rank;
        Self::new(world, 0, (0..size).collect(), rank)
    }

    fn new(world: Arc<World>, context: u64, members: Vec<usize>, rank: usize) -> Self {
        let (calls, splits) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { world, context, members, rank, calls, splits, closed: AtomicBool::new(false) }
    }

    /// The number of this rank in the group.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The group of some of this one's ranks, in this order. All ranks call it as often; those of one group give it the same `color` and
    /// list. A rank that is in no group gives an empty list.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the list is not one of different ranks with this one among them.
    pub fn subgroup(&self, ranks: &[usize], color: u64) -> Result<Option<Group>> {
        let number = self.splits.fetch_add(1, Ordering::SeqCst);
        if ranks.is_empty() {
            return Ok(None);
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let place = ranks.iter().position(|&rank| rank == self.rank);
        let valid = sorted.len() == ranks.len() && sorted.last().is_some_and(|&last| last < self.size());
        let (true, Some(place)) = (valid, place) else {
            return Err(Error::Invalid(format!("{ranks:?} is no group of rank {} of {}", self.rank, self.size())));
        };
        let members = ranks.iter().map(|&rank| self.members[rank]).collect();
        let context = mix(mix(mix(self.context) ^ number) ^ color) | 1;
        Ok(Some(Self::new(self.world.clone(), context, members, place)))
    }

    /// End the communicator, with all its groups, on all ranks.
    pub fn abort(&self, reason: &str) {
        if self.world.is_ours() {
            self.world.lines.fail(Fault::Aborted(format!("rank {} has aborted it: {reason}", self.world.rank)));
        }
    }

    /// Whether calls will fail.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) || self.world.state.is_broken()
    }

    /// Close it: the connections, if it is the whole; otherwise only the group.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if self.context == 0 {
            self.world.close();
        }
    }

    /// In a forked child: give up the parent's sockets.
    pub fn forget(&self) {
        self.world.forget();
    }

    /// Send a message. It may return before the message has arrived; the pieces may change then.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rank that does not exist, and those of all calls.
    pub fn send(&self, pieces: &[Piece], to: usize, tag: u64, control: &mut Control<'_>) -> Result<()> {
        self.check(to)?;
        self.run("send", None, true, control, |call| {
            let label = Label { class: Class::Point, context: call.context, tag, signature: 0 };
            call.engine.send(call.members[to], label, pieces)?;
            Ok(())
        })
    }

    /// Receive the next message of a rank with a tag.
    ///
    /// # Errors
    /// As for [`Group::send`].
    pub fn receive(&self, from: usize, tag: u64, control: &mut Control<'_>) -> Result<Block> {
        self.check(from)?;
        self.run("receive", None, false, control, |call| {
            let label = Label { class: Class::Point, context: call.context, tag, signature: 0 };
            let request = call.engine.receive(call.members[from], label, Target::Block)?;
            call.wait(&[request])?;
            Ok(call.engine.take_block(request))
        })
    }

    pub(crate) fn check(&self, rank: usize) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        Err(Error::Invalid(format!("rank {rank} does not exist: the ranks are 0 to {}", self.size() - 1)))
    }

    /// Run a collective. `agreed` are the arguments that must be equal on all ranks.
    pub(crate) fn collective<T>(
        &self,
        kind: Collective,
        agreed: &[u64],
        control: &mut Control<'_>,
        work: impl FnOnce(&mut Call<'_, '_>) -> std::result::Result<T, Stop>,
    ) -> Result<T> {
        let hash = agreed.iter().fold(0x9e37_79b9, |hash, &value| mix(hash ^ value));
        let signature = (kind as u32) << 24 | (hash as u32 & 0x00ff_ffff);
        self.run(call_name(signature), Some(signature), false, control, work)
    }

    fn run<T>(
        &self,
        name: &str,
        signature: Option<u32>,
        eager: bool,
        control: &mut Control<'_>,
        work: impl FnOnce(&mut Call<'_, '_>) -> std::result::Result<T, Stop>,
    ) -> Result<T> {
        let mut engine = self.world.engine()?;
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Closed("the communicator was closed".into()));
        }
        if self.world.state.is_broken() {
            return Err(self.raised(control.timeout.is_some()));
        }
        let number = if signature.is_some() { self.calls.fetch_add(1, Ordering::SeqCst) } else { 0 };
        let called = Called { context: self.context, number, signature: signature.unwrap_or(0) };
        if signature.is_some() {
            self.world.state.remember(called);
        }
        let inquire = || {
            if called.signature != 0 {
                self.world.lines.inquire(&self.members, &called);
            }
        };
        // A timeout beyond what the clock can express is none.
        let deadline = control.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let patience = Patience::new(deadline, &mut *control.hook, &inquire);
        engine.begin(eager);
        let mut call = Call {
            engine: &mut engine,
            members: &self.members,
            machines: &self.world.machines,
            rank: self.rank,
            context: self.context,
            number,
            signature: called.signature,
            patience,
        };
        let result = work(&mut call).and_then(|value| call.engine.wait_all(&mut call.patience).map(|()| value));
        result.map_err(|stop| {
            let error = self.stopped(name, stop, control.timeout);
            engine.abandon();
            error
        })
    }

    /// Make the communicator unusable on all ranks, and return the error of this one's call.
    fn stopped(&self, name: &str, stop: Stop, timeout: Option<Duration>) -> Error {
        let (lines, state, rank) = (&self.world.lines, &self.world.state, self.world.rank);
        match stop {
            Stop::Fault(fault) => {
                lines.fail(fault);
                self.raised(timeout.is_some())
            }
            Stop::Late => {
                let seconds = timeout.unwrap_or_default().as_secs_f64();
                lines.fail(Fault::Timeout(format!("{name} did not end within {seconds} s on rank {rank}")));
                state.raise();
                Error::Timeout(format!("{name} did not end within {seconds} s"))
            }
            Stop::Interrupted => {
                lines.fail(Fault::Aborted(format!("rank {rank} was interrupted in {name}")));
                state.raise();
                Error::Interrupted
            }
            Stop::Failed(error) => {
                lines.fail(Fault::Aborted(format!("{name} failed on rank {rank}: {error}")));
                state.raise();
                error
            }
        }
    }

    /// The error of a call of an unusable communicator: the first one says why.
    fn raised(&self, has_timeout: bool) -> Error {
        match self.world.state.raise() {
            Some((Fault::Closed, _)) | None => Error::Closed("the communicator was closed".into()),
            Some((Fault::Failed { rank, reason }, false)) => {
                match self.members.iter().position(|&member| member == rank) {
                    Some(rank) => Error::Failed { rank, reason },
                    None => Error::Closed(format!("rank {rank} of the whole communicator has failed: {reason}")),
                }
            }
            Some((Fault::Mismatch(text), false)) => Error::Mismatch(text),
            Some((Fault::Timeout(text), false)) if has_timeout => Error::Timeout(text),
            Some((fault, _)) => Error::Closed(format!("the communicator is unusable: {}", fault.text())),
        }
    }
}

/// A bijection of 64-bit numbers without visible pattern (the finaliser of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// One call: the messages of an algorithm, between members of its group.
pub(crate) struct Call<'a, 'p> {
    pub engine: &'a mut Engine,
    members: &'a [usize],
    machines: &'a [usize],
    pub rank: usize,
    context: u64,
    number: u64,
    signature: u32,
    patience: Patience<'p>,
}

impl Call<'_, '_> {
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// All other ranks, beginning with the one after this.
    pub fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, size) = (self.rank, self.size());
        (1..size).map(move |step| (rank + step) % size)
    }

    /// Whether all members are on one machine.
    pub fn is_local(&self) -> bool {
        self.members.iter().all(|&member| self.machines[member] == self.machines[self.members[0]])
    }

    fn label(&self, step: usize) -> Label {
        let tag = self.number << 16 | step as u64;
        Label { class: Class::Collective, context: self.context, tag, signature: self.signature }
    }

    pub fn send(&mut self, to: usize, step: usize, pieces: &[Piece]) -> std::result::Result<Request, Stop> {
        self.engine.send(self.members[to], self.label(step), pieces)
    }

    pub fn receive(&mut self, from: usize, step: usize, target: Target) -> std::result::Result<Request, Stop> {
        self.engine.receive(self.members[from], self.label(step), target)
    }

    pub fn wait(&mut self, requests: &[Request]) -> std::result::Result<(), Stop> {
        self.engine.wait(requests, &mut self.patience)
    }

    pub fn wait_all(&mut self) -> std::result::Result<(), Stop> {
        self.engine.wait_all(&mut self.patience)
    }

    /// Receive a block, now.
    pub fn receive_block(&mut self, from: usize, step: usize) -> std::result::Result<Block, Stop> {
        let request = self.receive(from, step, Target::Block)?;
        self.wait(&[request])?;
        Ok(self.engine.take_block(request))
    }

    pub fn take(&mut self, request: Request) -> Arrived {
        self.engine.take(request)
    }

    pub fn taken(&mut self, offered: &Offered) -> std::result::Result<(), Stop> {
        self.engine.taken(offered)
    }
}
