//! A client's connections to its server.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::net::Shutdown;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use craton_slab::SegmentId;
use parking_lot::{Condvar, Mutex};

use super::Result;
use super::address::Address;
use super::descriptors::Channel;
use super::mapped::Mapped;
use super::protocol::{
    Answer, Broken, Call, Hello, MOST, MOST_HELLO, MOST_VALUES, Release, Reply, Request, Token, VERSION, Welcome,
};
use super::serving::ClientId;
use crate::error::Error;

// The most connections of one client, and so the most concurrent calls.
const MOST_CHANNELS: usize = 8;
// The error of calls on a closed link.
const CLOSED: &str = "this process has closed its connection to it";
// The timeout of the handshake.
const GREETING: Duration = Duration::from_secs(10);
// How long releases are delayed to be sent in batches, and how often an idle client polls for dropped segments.
const BATCH: Duration = Duration::from_millis(2);
const IDLE: Duration = Duration::from_secs(1);

/// A client's connections and state. It lives as long as any extent, pin or reservation received through it.
pub(super) struct Link {
    pub(super) address: Address,
    pub(super) client: ClientId,
    // The process that it belongs to. A forked child has a copy, which it must not use: threads that held its locks do not exist in the child,
    // and the sockets are the parent's.
    pid: u32,
    // Set once no new calls are allowed. A forked child reads only this and `pid` of its parent's link.
    closed: AtomicBool,
    own: ManuallyDrop<Own>,
}

struct Own {
    key: u64,
    // The number of live uses: calls under way, and extents, pins and reservations.
    uses: AtomicUsize,
    channels: Mutex<Channels>,
    free: Condvar,
    mapped: Mapped,
    queue: Arc<Queue>,
    // The extents that this client has not sealed yet, by segment and offset.
    unsealed: Mutex<HashMap<(SegmentId, usize), Token>>,
    flusher: Mutex<Option<JoinHandle<()>>>,
}

struct Channels {
    idle: Vec<Channel>,
    open: usize,
    // The most that may be open; reduced when the server or the system refused another one.
    most: usize,
    broken: Option<String>,
}

/// Releases that are sent with the next call, or after a short delay.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrival: Condvar,
    close: Condvar,
}

#[derive(Default)]
struct Waiting {
    releases: Vec<Release>,
    // How many releases were sent so far.
    taken: u64,
    closed: bool,
}

impl Queue {
    fn push(&self, release: Release) {
        let mut waiting = self.waiting.lock();
        waiting.releases.push(release);
        if waiting.releases.len() == 1 {
            self.arrival.notify_one();
        }
    }

    // Make a call of `request` that includes the waiting releases, as many as a call may have.
    fn call(&self, request: Request) -> Call {
        let mut waiting = self.waiting.lock();
        let rest = waiting.releases.len().min(MOST_VALUES);
        let rest = waiting.releases.split_off(rest);
        let releases = std::mem::replace(&mut waiting.releases, rest);
        let before = waiting.taken;
        waiting.taken += releases.len() as u64;
        Call { before, releases, request }
    }

    // Wait until there are releases and a short delay has passed. Returns `None` once the queue is shut, otherwise whether there are any.
    fn wait(&self) -> Option<bool> {
        let mut waiting = self.waiting.lock();
        if waiting.releases.is_empty() && !waiting.closed {
            self.arrival.wait_for(&mut waiting, IDLE);
        }
        if !waiting.releases.is_empty() && !waiting.closed {
            self.close.wait_for(&mut waiting, BATCH);
        }
        (!waiting.closed).then_some(!waiting.releases.is_empty())
    }

    fn shut(&self) {
        self.waiting.lock().closed = true;
        self.arrival.notify_one();
        self.close.notify_one();
    }
}

/// A use of a link: while one lives, the link's connections stay open.
pub(super) struct Using(Arc<Link>);

impl Using {
    /// Use a link of this process that is open.
    pub(super) fn new(link: Arc<Link>) -> Result<Self> {
        // Count the use before checking `closed`: a concurrent close then either sees the count, or is seen here.
        link.own.uses.fetch_add(1, Ordering::SeqCst);
        let using = Self(link);
        using.open().map(|()| using)
    }
}

impl Clone for Using {
    fn clone(&self) -> Self {
        if self.is_here() {
            self.own.uses.fetch_add(1, Ordering::SeqCst);
        }
        Self(Arc::clone(&self.0))
    }
}

impl Deref for Using {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.0
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        if self.is_here() && self.own.uses.fetch_sub(1, Ordering::SeqCst) == 1 && self.open().is_err() {
            self.end();
        }
    }
}

// Why a call has no reply: the server returned an error, or the connection failed.
enum Failure {
    Refused(Error),
    Lost(String),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self::Lost(broken.to_string())
    }
}

impl Link {
    /// Connect to the server at `address`.
    pub(super) fn connect(address: &Address) -> Result<Arc<Self>> {
        let (channel, client, key) = greet(address, None)?;
        let channels = Mutex::new(Channels { idle: vec![channel], open: 1, most: MOST_CHANNELS, broken: None });
        let queue = Arc::new(Queue::default());
        let own = Own {
            key,
            uses: AtomicUsize::new(0),
            channels,
            free: Condvar::new(),
            mapped: Mapped::default(),
            queue: Arc::clone(&queue),
            unsealed: Mutex::default(),
            flusher: Mutex::default(),
        };
        let (address, pid) = (address.clone(), std::process::id());
        let link = Arc::new(Self { address, client, pid, closed: AtomicBool::new(false), own: ManuallyDrop::new(own) });
        let weak = Arc::downgrade(&link);
        let flusher = std::thread::Builder::new()
            .name("craton-store".into())
            .spawn(move || flush(&queue, &weak))
            .map_err(|e| link.address.error(format!("cannot start a thread: {e}")))?;
        *link.own.flusher.lock() = Some(flusher);
        Ok(link)
    }

    /// Whether it belongs to this process, and not to the parent that this process was forked from.
    pub(super) fn is_here(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Allow no new calls. The connections are closed as soon as the last pin, extent and reservation is released.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if self.is_here() && self.own.uses.load(Ordering::SeqCst) == 0 {
            self.end();
        }
    }

    /// Returns the error of calls after [`Link::close`].
    pub(super) fn open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) { Err(self.address.error(CLOSED)) } else { Ok(()) }
    }

    fn end(&self) {
        let _ = self.lost(CLOSED);
        self.own.queue.shut();
    }

    pub(super) fn mapped(&self) -> &Mapped {
        &self.own.mapped
    }

    /// Queue a release.
    pub(super) fn give_back(&self, release: Release) {
        if self.is_here() {
            self.own.queue.push(release);
        }
    }

    /// Record an unsealed extent.
    pub(super) fn hold_extent(&self, place: (SegmentId, usize), token: Token) {
        self.own.unsealed.lock().insert(place, token);
    }

    /// Remove an extent that is being sealed or released.
    pub(super) fn take_extent(&self, place: (SegmentId, usize)) -> Option<Token> {
        if self.is_here() { self.own.unsealed.lock().remove(&place) } else { None }
    }

    /// Call the server.
    pub(super) fn call(&self, request: Request) -> Result<Reply> {
        let mut channel = self.take_channel()?;
        let call = self.own.queue.call(request);
        match self.exchange(&mut channel, call) {
            Ok(Reply::Failed(e)) | Err(Failure::Refused(e)) => {
                self.back(channel);
                Err(e)
            }
            Ok(reply) => {
                self.back(channel);
                Ok(reply)
            }
            Err(Failure::Lost(why)) => Err(self.lost(&why)),
        }
    }

    /// Disconnect from a server that violated the protocol; returns the error.
    pub(super) fn lost(&self, why: &str) -> Error {
        let mut channels = self.own.channels.lock();
        let why = channels.broken.get_or_insert_with(|| why.to_owned()).clone();
        let idle = std::mem::take(&mut channels.idle);
        drop(channels);
        self.own.free.notify_all();
        idle.iter().for_each(hang_up);
        self.address.error(why)
    }

    fn take_channel(&self) -> Result<Channel> {
        let mut channels = self.own.channels.lock();
        loop {
            if let Some(why) = &channels.broken {
                return Err(self.address.error(why));
            }
            if let Some(channel) = channels.idle.pop() {
                return Ok(channel);
            }
            if channels.open >= channels.most {
                self.own.free.wait(&mut channels);
                continue;
            }
            channels.open += 1;
            drop(channels);
            let greeted = greet(&self.address, Some((self.client, self.own.key)));
            channels = self.own.channels.lock();
            match greeted {
                Ok((channel, ..)) => return Ok(channel),
                Err(e) => {
                    channels.open -= 1;
                    // Use the open connections only; if the server is gone, their calls fail.
                    channels.most = channels.open;
                    if channels.most == 0 {
                        return Err(e);
                    }
                }
            }
        }
    }

    fn back(&self, channel: Channel) {
        let mut channels = self.own.channels.lock();
        if channels.broken.is_some() {
            hang_up(&channel);
        } else {
            channels.idle.push(channel);
            self.own.free.notify_one();
        }
    }

    fn exchange(&self, channel: &mut Channel, call: Call) -> Result<Reply, Failure> {
        match channel.send(&call, &[], MOST) {
            Err(e @ Broken::Oversize { .. }) => {
                // The request was too large, so nothing was sent. Send its releases without it.
                self.exchange(channel, Call { request: Request::Nothing, ..call })?;
                return Err(Failure::Refused(Error::Invalid(e.to_string())));
            }
            outcome => outcome?,
        }
        let (mut pages, mut sets, mut pinned) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let answer: Answer = channel.receive(MOST)?;
            let descriptors = channel.descriptors(answer.segments.len())?;
            let mapping = answer.segments.iter().zip(descriptors).try_for_each(|(announced, descriptor)| {
                self.own.mapped.attach(*announced, descriptor, matches!(answer.reply, Reply::Grant))
            });
            self.own.mapped.forget(&answer.gone);
            if let Reply::Grant = answer.reply {
                let call = Call { before: 0, releases: Vec::new(), request: Request::Granted(mapping) };
                channel.send(&call, &[], MOST)?;
                continue;
            }
            mapping.map_err(|why| Failure::Lost(format!("a segment of the store cannot be mapped: {why}")))?;
            match answer.reply {
                Reply::More => {}
                Reply::Pages(part, more) => {
                    pages.extend(part);
                    if !more {
                        return Ok(Reply::Pages(pages, false));
                    }
                }
                Reply::Sets(part, more) => {
                    sets.extend(part);
                    if !more {
                        return Ok(Reply::Sets(sets, false));
                    }
                }
                Reply::Pinned(part, more) => {
                    pinned.extend(part);
                    if !more {
                        return Ok(Reply::Pinned(pinned, false));
                    }
                }
                reply => return Ok(reply),
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        self.own.queue.shut();
        // Shut the sockets down, and do not only close them: forked children may have inherited them.
        self.own.channels.get_mut().idle.iter().for_each(hang_up);
        if let Some(flusher) = self.own.flusher.get_mut().take() {
            if flusher.thread().id() != std::thread::current().id() {
                let _ = flusher.join();
            }
        }
        // SAFETY: it is dropped once, here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.own) };
    }
}

fn hang_up(channel: &Channel) {
    let _ = channel.socket().shutdown(Shutdown::Both);
}

// Send queued releases that no call has taken along, until the link is dropped.
fn flush(queue: &Queue, link: &Weak<Link>) {
    while let Some(any) = queue.wait() {
        let Some(link) = link.upgrade() else { return };
        if any || !link.own.mapped.is_empty() {
            // If the connection is lost, the server has released everything; the next call reports the error.
            let lost = matches!(link.call(Request::Nothing), Err(Error::Connection { .. }));
            if lost {
                return;
            }
        }
    }
}

fn greet(address: &Address, join: Option<(ClientId, u64)>) -> Result<(Channel, ClientId, u64)> {
    let socket = Arc::new(address.connect()?);
    let peer = rustix::net::sockopt::socket_peercred(&*socket).map_err(|e| address.error(e))?;
    let (server, own) = (peer.uid.as_raw(), rustix::process::geteuid().as_raw());
    if server != own {
        return Err(address.error(format!("it belongs to user {server}, and this process to user {own}")));
    }
    let greeting = || {
        let mut channel = Channel::new(socket, true, Some(GREETING))?;
        channel.send(&Hello { version: VERSION, join }, &[], MOST_HELLO)?;
        let welcome = channel.receive::<Welcome>(MOST_HELLO)?;
        channel.set_patience(None)?;
        Ok((channel, welcome))
    };
    match greeting().map_err(|e: Broken| address.error(e))? {
        (channel, Welcome::Accepted { client, key }) => Ok((channel, client, key)),
        (_, Welcome::Refused(why)) => Err(address.error(why)),
    }
}
