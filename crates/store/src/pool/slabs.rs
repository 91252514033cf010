//! The slabs of a pool: one for this process, and one for each client, to which only that client and this process may write.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use craton_slab::{Extent, SegmentId, Slab, SlabOptions, SlabUsage};
use parking_lot::Mutex;

use crate::remote::ClientId;

/// The least and the most bytes of a client's segment. Such a segment can be returned to the system only when it is empty, which happens
/// sooner if it is small.
const CLIENT_SEGMENTS: (u64, u64) = (4 << 20, 64 << 20);
const SEGMENTS_OF_LIMIT: u64 = 64;

/// Idle memory up to this fraction (1/4) of the limit is kept for reuse, but no more than a slab keeps by default.
const KEPT_OF_LIMIT: u64 = 4;

#[derive(Default)]
struct Clients {
    present: HashMap<ClientId, Arc<Slab>>,
    // The slabs of clients that have disconnected, as long as a page uses them.
    gone: Vec<Weak<Slab>>,
}

/// All slabs with memory of pages.
pub(crate) struct Slabs {
    own: Arc<Slab>,
    clients: Mutex<Clients>,
    of_client: SlabOptions,
}

impl Slabs {
    /// The slabs of a pool with that limit. The pool enforces the limit itself, because it can evict pages and accounts for reservations.
    pub(crate) fn new(limit: u64, segment_bytes: u64) -> Self {
        // One extent is not charged to the limit: the empty one that pages without bytes share.
        let most = limit.saturating_add(craton_slab::ALIGNMENT as u64);
        let usual = SlabOptions { limit: most, segment_bytes, ..SlabOptions::default() };
        let kept = usual.watermark().min(limit / KEPT_OF_LIMIT);
        // Pages that are read while the disk is full may exceed the pool's limit: see `Memory::overdraw`.
        let options = SlabOptions { keep_free: Some(kept), limit: most.saturating_add(limit), ..usual };
        let of_client = SlabOptions {
            limit: u64::MAX,
            segment_bytes: (limit / SEGMENTS_OF_LIMIT).clamp(CLIENT_SEGMENTS.0, CLIENT_SEGMENTS.1),
            keep_free: Some(kept),
            client: true,
            ..SlabOptions::default()
        };
        Self { own: Slab::new(options), clients: Mutex::default(), of_client }
    }

    /// The slab that only this process writes to.
    pub(crate) fn own(&self) -> &Arc<Slab> {
        &self.own
    }

    /// The slab that this client writes to.
    pub(crate) fn of_client(&self, client: ClientId) -> Arc<Slab> {
        let made = || Slab::new(self.of_client.clone());
        Arc::clone(self.clients.lock().present.entry(client).or_insert_with(made))
    }

    /// A client has disconnected: its sealed pages stay, and its free memory is returned to the system.
    pub(crate) fn close_client(&self, client: ClientId) {
        let mut clients = self.clients.lock();
        clients.gone.retain(|slab| slab.strong_count() > 0);
        if let Some(slab) = clients.present.remove(&client) {
            clients.gone.push(Arc::downgrade(&slab));
            drop(clients);
            slab.trim(0);
        }
    }

    /// Share an extent of any of the slabs, so that [`Slabs::find`] finds it.
    pub(crate) fn share(&self, extent: Extent) -> Arc<Extent> {
        let home = self.home_of(extent.segment().id());
        home.unwrap_or_else(|| Arc::clone(&self.own)).share(extent)
    }

    /// The live shared extent that contains the byte at `offset` of `segment`.
    pub(crate) fn find(&self, segment: SegmentId, offset: usize) -> Option<Arc<Extent>> {
        self.home_of(segment)?.find(segment, offset)
    }

    fn home_of(&self, segment: SegmentId) -> Option<Arc<Slab>> {
        if self.own.segment(segment).is_some() {
            return Some(Arc::clone(&self.own));
        }
        self.of_clients().into_iter().find(|slab| slab.segment(segment).is_some())
    }

    fn of_clients(&self) -> Vec<Arc<Slab>> {
        let clients = self.clients.lock();
        clients.present.values().cloned().chain(clients.gone.iter().filter_map(Weak::upgrade)).collect()
    }

    /// Return idle memory to the system, so that all slabs together have at most `most` idle bytes. Does nothing if they exceed that by at most
    /// `slack`. Returns the excess that remains: idle memory in segments that are not empty.
    pub(crate) fn give_back(&self, most: u64, slack: u64) -> u64 {
        let slabs: Vec<_> = std::iter::once(Arc::clone(&self.own)).chain(self.of_clients()).collect();
        let mut touched: u64 = slabs.iter().map(|slab| slab.touched()).sum();
        if touched <= most.saturating_add(slack) {
            return touched.saturating_sub(most);
        }
        for slab in slabs {
            let excess = touched.saturating_sub(most);
            if excess == 0 {
                break;
            }
            touched -= touched.min(slab.trim(slab.idle().saturating_sub(excess)));
        }
        touched.saturating_sub(most)
    }

    /// The total usage of all slabs.
    pub(crate) fn usage(&self) -> SlabUsage {
        let mut all = self.own.usage();
        for one in self.of_clients().iter().map(|slab| slab.usage()) {
            all.used += one.used;
            all.reserved += one.reserved;
            all.segments += one.segments;
            all.sealed += one.sealed;
            all.touched += one.touched;
            all.idle += one.idle;
            all.resident += one.resident;
        }
        all
    }
}
