//! The server's record of a client: what it holds and its quota.

use std::collections::{HashMap, HashSet};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use craton_slab::{ALIGNMENT, Extent, Segment, SegmentId};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Result;
use super::protocol::{Release, Sealing, Token};
use super::serving::{ClientId, ClientInfo, Serving};
use crate::api::{DataInfo, Pinned, Reference, Reservation};
use crate::error::Error;
use crate::ids::{PageId, SetId};

/// A client. All of its connections end together.
pub(super) struct Session {
    pub(super) client: ClientId,
    /// The key that a further connection must present.
    pub(super) key: u64,
    pub(super) pid: u32,
    uid: u32,
    home: Arc<dyn Serving>,
    quota: AtomicU64,
    held: Mutex<Held>,
    // The number of releases performed, and the condition on which calls wait for more.
    released: AtomicU64,
    progress: Condvar,
    /// The segments that this client may write to. Locked while a segment is granted, so that grants do not overlap.
    pub(super) granted: Mutex<HashMap<SegmentId, Weak<Segment>>>,
}

#[derive(Default)]
struct Held {
    ended: bool,
    next: Token,
    bytes: u64,
    extents: HashMap<Token, Extent>,
    pins: HashMap<Token, Pinned>,
    // The number of pins of each page; its bytes count once.
    pages: HashMap<PageId, u64>,
    reservations: HashMap<Token, Reservation>,
    sets: HashMap<SetId, u64>,
    sockets: HashMap<u64, Arc<UnixStream>>,
}

impl Held {
    fn token(&mut self) -> Token {
        self.next += 1;
        self.next
    }

    fn charge(&mut self, asked: u64, quota: u64) -> Result<()> {
        let used = self.bytes;
        match used.checked_add(asked) {
            Some(bytes) if bytes <= quota => self.bytes = bytes,
            _ => return Err(Error::Quota { asked, used, quota }),
        }
        Ok(())
    }

    fn take_extent(&mut self, token: Token) -> Option<Extent> {
        let extent = self.extents.remove(&token)?;
        self.bytes = self.bytes.saturating_sub(weight(extent.len()));
        Some(extent)
    }

    fn take_pin(&mut self, token: Token) -> Option<Pinned> {
        let pinned = self.pins.remove(&token)?;
        let page = pinned.info.page;
        if let Some(pins) = self.pages.get_mut(&page) {
            *pins -= 1;
            if *pins == 0 {
                self.pages.remove(&page);
                self.bytes = self.bytes.saturating_sub(pinned.info.bytes);
            }
        }
        Some(pinned)
    }

    fn take_set(&mut self, set: SetId) -> Option<SetId> {
        let uses = self.sets.get_mut(&set)?;
        *uses -= 1;
        if *uses == 0 {
            self.sets.remove(&set);
        }
        Some(set)
    }
}

// The bytes that an extent of this length counts towards the quota.
fn weight(length: usize) -> u64 {
    (length.max(1) as u64).div_ceil(ALIGNMENT as u64).saturating_mul(ALIGNMENT as u64)
}

impl Session {
    pub(super) fn open(client: ClientId, key: u64, peer: (u32, u32), quota: u64, home: Arc<dyn Serving>) -> Arc<Self> {
        home.open_client(client);
        let (pid, uid) = peer;
        let (held, granted, quota) = (Mutex::default(), Mutex::default(), AtomicU64::new(quota));
        let (released, progress) = (AtomicU64::new(0), Condvar::new());
        Arc::new(Self { client, key, pid, uid, home, quota, held, released, progress, granted })
    }

    pub(super) fn home(&self) -> &dyn Serving {
        &*self.home
    }

    pub(super) fn set_quota(&self, bytes: u64) {
        self.quota.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn info(&self) -> ClientInfo {
        let held = self.held.lock();
        ClientInfo {
            client: self.client,
            pid: self.pid,
            uid: self.uid,
            bytes: held.bytes,
            quota: self.quota.load(Ordering::Relaxed),
            extents: held.extents.len() as u64,
            pins: held.pins.len() as u64,
            reservations: held.reservations.len() as u64,
            sets: held.sets.len() as u64,
            connections: held.sockets.len() as u64,
        }
    }

    // The client's held objects; an error if it has disconnected, because nothing may be added then.
    fn alive(&self) -> Result<MutexGuard<'_, Held>> {
        let held = self.held.lock();
        if held.ended { Err(Error::Closed) } else { Ok(held) }
    }

    /// Whether the client has disconnected.
    pub(super) fn ended(&self) -> bool {
        self.held.lock().ended
    }

    /// Add a connection.
    pub(super) fn join(&self, connection: u64, socket: &Arc<UnixStream>) -> Result<()> {
        self.alive()?.sockets.insert(connection, Arc::clone(socket));
        Ok(())
    }

    /// End the session: release what the client holds, and close its connections. A second call does nothing.
    pub(super) fn end(&self) {
        let gone = {
            let mut held = self.held.lock();
            if held.ended {
                return;
            }
            std::mem::replace(&mut *held, Held { ended: true, ..Held::default() })
        };
        self.progress.notify_all();
        for socket in gone.sockets.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        let Held { extents, pins, reservations, sets, .. } = gone;
        drop((extents, pins, reservations));
        for (set, uses) in sets {
            for _ in 0..uses {
                self.home.release_set(set);
            }
        }
    }

    /// Perform the client's releases.
    pub(super) fn release(&self, releases: &[Release]) {
        if !releases.is_empty() {
            self.give_back(releases);
            let held = self.held.lock();
            self.released.fetch_add(releases.len() as u64, Ordering::Release);
            drop(held);
            self.progress.notify_all();
        }
    }

    /// Wait until this many releases were performed, including those sent over the client's other connections; give up after `patience` if the
    /// client does not send them.
    pub(super) fn wait_released(&self, releases: u64, patience: Duration) {
        let done = || self.released.load(Ordering::Acquire) >= releases;
        if !done() {
            let mut held = self.held.lock();
            let others = |held: &Held| held.sockets.len() > 1;
            self.progress.wait_while_for(&mut held, |held| others(held) && !done(), patience);
        }
    }

    /// Perform releases, without counting them; releases of anything that the client does not hold are ignored.
    pub(super) fn give_back(&self, releases: &[Release]) {
        let (mut extents, mut pins, mut reservations, mut sets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        {
            let mut held = self.held.lock();
            for release in releases {
                match release {
                    Release::Extent(token) => extents.extend(held.take_extent(*token)),
                    Release::Pin(token) => pins.extend(held.take_pin(*token)),
                    Release::Reservation(token) => reservations.extend(held.reservations.remove(token)),
                    Release::Set(set) => sets.extend(held.take_set(*set)),
                }
            }
        }
        // The home takes its own locks, so none of the session's is held here.
        drop((extents, pins, reservations));
        for set in sets {
            self.home.release_set(set);
        }
    }

    /// Record a use of a set by the client.
    pub(super) fn hold_set(&self, set: SetId) -> Result<()> {
        match self.alive() {
            Ok(mut held) => {
                *held.sets.entry(set).or_default() += 1;
                Ok(())
            }
            Err(e) => {
                self.home.release_set(set);
                Err(e)
            }
        }
    }

    /// Allocate extents. They count towards the quota; [`Session::hold_extents`] or [`Session::waive`] must follow.
    pub(super) fn allocate(&self, set: SetId, lengths: &[u64]) -> Result<Vec<Extent>> {
        let quota = self.quota.load(Ordering::Relaxed);
        let mut sizes = Vec::with_capacity(lengths.len());
        let mut asked = 0u64;
        for length in lengths {
            let size = usize::try_from(*length).ok().filter(|size| isize::try_from(*size).is_ok());
            let size = size.ok_or_else(|| Error::Invalid(format!("an extent of {length} bytes")))?;
            asked = asked.saturating_add(weight(size));
            sizes.push(size);
        }
        self.alive()?.charge(asked, quota)?;
        self.home.allocate_for(self.client, set, &sizes).inspect_err(|_| {
            let mut held = self.held.lock();
            held.bytes = held.bytes.saturating_sub(asked);
        })
    }

    /// Record extents that the client has mapped and holds from now on.
    pub(super) fn hold_extents(&self, extents: Vec<Extent>) -> Result<Vec<(Token, Reference)>> {
        let mut held = self.alive()?;
        let hold = |extent: Extent| {
            let (token, reference) = (held.token(), Reference::from(extent.reference()));
            held.extents.insert(token, extent);
            (token, reference)
        };
        Ok(extents.into_iter().map(hold).collect())
    }

    /// Drop extents that the client did not receive, and uncharge its quota.
    pub(super) fn waive(&self, extents: Vec<Extent>) {
        let bytes = extents.iter().map(|extent| weight(extent.len())).sum();
        let mut held = self.held.lock();
        held.bytes = held.bytes.saturating_sub(bytes);
        drop(held);
        drop(extents);
    }

    /// Seal a page.
    pub(super) fn seal(&self, sealing: Sealing) -> Result<DataInfo> {
        let set = sealing.set;
        let (spec, tokens) = sealing.into_spec();
        let mut held = self.alive()?;
        let extents: Vec<Extent> = tokens.iter().filter_map(|token| held.take_extent(*token)).collect();
        drop(held);
        if extents.len() != tokens.len() {
            let strange = tokens.len() - extents.len();
            let why =
                format!("{strange} of the page's {} extents are not unsealed extents of this client", tokens.len());
            return Err(Error::Invalid(why));
        }
        self.home.seal(set, spec, extents)
    }

    /// Record pinned pages for the client: all of them, or none if together they exceed its quota.
    pub(super) fn hold_pins(&self, pinned: Vec<Pinned>) -> Result<Vec<Token>> {
        let quota = self.quota.load(Ordering::Relaxed);
        let mut held = self.alive()?;
        let mut seen = HashSet::new();
        let new = pinned.iter().map(|page| &page.info).filter(|info| !held.pages.contains_key(&info.page));
        let bytes = new.filter(|info| seen.insert(info.page)).fold(0u64, |sum, info| sum.saturating_add(info.bytes));
        held.charge(bytes, quota)?;
        let hold = |page: Pinned| {
            *held.pages.entry(page.info.page).or_default() += 1;
            let token = held.token();
            held.pins.insert(token, page);
            token
        };
        Ok(pinned.into_iter().map(hold).collect())
    }

    /// Record a reservation for the client.
    pub(super) fn hold_reservation(&self, reservation: Reservation) -> Result<Token> {
        let mut held = self.alive()?;
        let token = held.token();
        held.reservations.insert(token, reservation);
        Ok(token)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
        self.home.close_client(self.client);
    }
}
