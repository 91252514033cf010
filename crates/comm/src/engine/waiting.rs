//! Waiting: progress of all streams until requests are complete; first in a short loop, then asleep.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::{Engine, Request};
use crate::bell::Bell;
use crate::channel::Channel;
use crate::error::Error;
use crate::state::Fault;

/// The longest sleep; after it the caller's hook is called.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// How long a call sleeps in vain before it copies messages that nobody has asked for yet, whose senders may wait for something else.
const FETCH_AFTER: Duration = Duration::from_millis(10);
/// How long a collective waits before it sends the others what it waits in, and how long before it does so again.
const INQUIRE_AFTER: Duration = Duration::from_millis(250);
/// How long a call waits for the reason why a stream has ended.
const GRACE: Duration = Duration::from_millis(500);
/// Rounds of the loop before sleeping, in each of which other processes are let through.
const ROUNDS: u32 = 20;
/// Where every rank has a processor: rounds before that, in which none is let through, and how long the whole loop takes at most. Waking a
/// processor takes a good part of this; if other programs use the processors, one round of letting them through takes longer.
const ROUNDS_ALONE: u32 = 200;
const LOOP: Duration = Duration::from_micros(100);

/// Why waiting ended without a result.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The communicator has become unusable.
    Fault(Fault),
    /// The time is up.
    Late,
    /// The caller's hook said so.
    Interrupted,
    /// This process has no memory, or a system call failed.
    Failed(Error),
}

/// How long a call waits, and what it does meanwhile.
pub(crate) struct Patience<'a> {
    pub deadline: Option<Instant>,
    /// Called every 50 ms at most; ends the call by returning false.
    pub hook: &'a mut dyn FnMut() -> bool,
    /// Called when a collective has waited long.
    pub inquire: &'a dyn Fn(),
    /// When the hook and the inquiry were last called; at first, when the call began to sleep.
    called: Option<(Instant, Instant)>,
}

impl<'a> Patience<'a> {
    pub fn new(deadline: Option<Instant>, hook: &'a mut dyn FnMut() -> bool, inquire: &'a dyn Fn()) -> Self {
        Self { deadline, hook, inquire, called: None }
    }

    fn check(&mut self, now: Instant, signalled: bool) -> Result<(), Stop> {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(Stop::Late);
        }
        let (hooked, inquired) = self.called.get_or_insert((now, now));
        if signalled || now - *hooked >= LONGEST_SLEEP {
            *hooked = now;
            if !(self.hook)() {
                return Err(Stop::Interrupted);
            }
        }
        if now - *inquired >= INQUIRE_AFTER {
            *inquired = now;
            (self.inquire)();
        }
        Ok(())
    }
}

impl Engine {
    /// Wait until requests are complete.
    pub fn wait(&mut self, requests: &[Request], patience: &mut Patience<'_>) -> Result<(), Stop> {
        self.wait_until(patience, |engine| requests.iter().all(|&request| engine.is_complete(request)))
    }

    /// Wait until everything of this call is complete, and nothing is on its way out.
    pub fn wait_all(&mut self, patience: &mut Patience<'_>) -> Result<(), Stop> {
        self.wait_until(patience, |engine| engine.pending == 0 && !engine.has_outgoing())
    }

    fn wait_until(&mut self, patience: &mut Patience<'_>, done: impl Fn(&Self) -> bool) -> Result<(), Stop> {
        let result = self.wait_while_sound(patience, done);
        self.guarded(result)
    }

    fn wait_while_sound(&mut self, patience: &mut Patience<'_>, done: impl Fn(&Self) -> bool) -> Result<(), Stop> {
        if self.eager {
            self.fetch_unexpected()?;
        }
        let (mut idle, mut slept) = (0_u32, Duration::ZERO);
        let mut since = None;
        loop {
            if done(self) {
                return Ok(());
            }
            if self.state.is_broken() {
                return Err(Stop::Fault(self.state.fault().unwrap_or(Fault::Closed)));
            }
            if self.progress()? {
                (idle, slept, since) = (0, Duration::ZERO, None);
                continue;
            }
            self.check_ended()?;
            idle += 1;
            if slept.is_zero() && self.spare_processors {
                if idle < ROUNDS_ALONE {
                    std::hint::spin_loop();
                    continue;
                }
                if Instant::now() < *since.get_or_insert_with(|| Instant::now() + LOOP) {
                    std::thread::yield_now();
                    continue;
                }
            } else if idle < ROUNDS {
                std::thread::yield_now();
                continue;
            }
            let started = Instant::now();
            patience.check(started, false)?;
            let left = patience.deadline.map_or(LONGEST_SLEEP, |deadline| deadline.saturating_duration_since(started));
            let most = left.min(LONGEST_SLEEP).min(if slept < FETCH_AFTER { FETCH_AFTER } else { LONGEST_SLEEP });
            self.sleep(most);
            let now = Instant::now();
            // Shorter than asked, and the bell may not have rung: perhaps a signal.
            patience.check(now, now - started < most)?;
            slept += now - started;
            if slept >= FETCH_AFTER {
                self.fetch_unexpected()?;
            }
            // Not the whole loop again: this rank has waited long, and others need the processor.
            idle = ROUNDS - 2;
        }
    }

    fn progress(&mut self) -> Result<bool, Stop> {
        let mut moved = false;
        for number in 0..self.peers.len() {
            if self.peers[number].channel.is_some() {
                if !self.peers[number].outbox.is_empty() {
                    moved |= self.push(number)?;
                }
                moved |= self.pull(number)?;
            }
        }
        Ok(moved)
    }

    /// Fail if something is awaited of a rank that has ended or has closed its communicator.
    fn check_ended(&mut self) -> Result<(), Stop> {
        for number in 0..self.peers.len() {
            if number == self.rank {
                continue;
            }
            let peer = &self.peers[number];
            let awaited = !peer.posted.is_empty() || !peer.outbox.is_empty() || self.awaits_taking(number);
            if !awaited {
                continue;
            }
            let left = self.state.has_left(number);
            // Its last messages may have arrived after the stream was read, but before it left.
            if left && self.pull(number)? {
                continue;
            }
            let peer = &self.peers[number];
            let gone = match &peer.channel {
                Some(Channel::Local(local)) => left && local.incoming.is_empty(),
                Some(Channel::Tcp(_)) => false,
                None => true,
            };
            let still = !peer.posted.is_empty() || !peer.outbox.is_empty() || self.awaits_taking(number);
            if still && (gone || peer.ended.is_some()) {
                let reason = match &peer.ended {
                    // The notice that says why it ended comes by another socket.
                    Some((_, noticed)) if !left && noticed.elapsed() < GRACE => continue,
                    Some((reason, _)) if !left => reason.clone(),
                    _ => "it has closed its communicator".into(),
                };
                return Err(Stop::Fault(Fault::Failed { rank: number, reason }));
            }
        }
        Ok(())
    }

    fn sleep(&mut self, most: Duration) {
        let state = self.state.clone();
        let bell: &Bell = &state.bell;
        let heard = bell.listen();
        let sockets = self.peers.iter().any(|peer| matches!(peer.channel, Some(Channel::Tcp(_))));
        bell.announce(sockets);
        let idle = self.peers.iter_mut().all(|peer| {
            let writing = !peer.outbox.is_empty();
            peer.channel.as_mut().is_none_or(|channel| channel.is_idle(writing))
        });
        if idle && !state.is_broken() {
            let mut watched = Vec::new();
            if sockets {
                for peer in &self.peers {
                    let flags = if peer.outbox.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
                    if let Some(socket) = peer.channel.as_ref().and_then(Channel::socket) {
                        watched.push(PollFd::from_borrowed_fd(socket, flags));
                    }
                }
            }
            bell.sleep(heard, &mut watched, most);
        }
        bell.awake();
    }
}
