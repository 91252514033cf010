//! The memory of this process, and that of each client, which only the client and this process may write to.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use craton_slab::{Extent, SegmentId, Slab, SlabOptions, SlabUsage};
use parking_lot::Mutex;

use crate::remote::ClientId;

/// Bytes of a segment that a client writes to, at the least and at the most: small ones become empty, which is when they can go back
/// to the system, sooner. There are about so many within the limit.
const CLIENT_SEGMENTS: (u64, u64) = (4 << 20, 64 << 20);
const SEGMENTS_OF_LIMIT: u64 = 64;

/// Up to this part of the limit is kept when it was freed; of large limits, as much as slabs keep of themselves.
const KEPT_OF_LIMIT: u64 = 4;

#[derive(Default)]
struct Clients {
    present: HashMap<ClientId, Arc<Slab>>,
    // Of clients that have gone, as long as a page lies there.
    gone: Vec<Weak<Slab>>,
}

/// All slabs that pages lie in.
pub(crate) struct Slabs {
    own: Arc<Slab>,
    clients: Mutex<Clients>,
    of_client: SlabOptions,
}

impl Slabs {
    /// Slabs of a pool that keeps to `limit` itself: it knows of reservations, and whom to evict.
    pub(crate) fn new(limit: u64, segment_bytes: u64) -> Self {
        // One extent is beyond the limit, of pages without bytes.
        let most = limit.saturating_add(craton_slab::ALIGNMENT as u64);
        let usual = SlabOptions { limit: most, segment_bytes, ..SlabOptions::default() };
        let kept = usual.watermark().min(limit / KEPT_OF_LIMIT);
        // What is read while the disk is full may be beyond the pool's limit: see `Memory::overdraw`.
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

    /// The memory that nobody but this process writes to.
    pub(crate) fn own(&self) -> &Arc<Slab> {
        &self.own
    }

    /// The memory that this client writes to.
    pub(crate) fn of_client(&self, client: ClientId) -> Arc<Slab> {
        let made = || Slab::new(self.of_client.clone());
        Arc::clone(self.clients.lock().present.entry(client).or_insert_with(made))
    }

    /// The client has gone: what it sealed stays, what is free goes back to the system.
    pub(crate) fn close_client(&self, client: ClientId) {
        let mut clients = self.clients.lock();
        clients.gone.retain(|slab| slab.strong_count() > 0);
        if let Some(slab) = clients.present.remove(&client) {
            clients.gone.push(Arc::downgrade(&slab));
            drop(clients);
            slab.trim(0);
        }
    }

    /// Share an extent of any of the slabs: from now on [`Slabs::find`] finds it.
    pub(crate) fn share(&self, extent: Extent) -> Arc<Extent> {
        let home = self.home_of(extent.segment().id());
        home.unwrap_or_else(|| Arc::clone(&self.own)).share(extent)
    }

    /// The shared extent that has the byte at `offset` of `segment`, if it is alive.
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

    /// Have at most `most` bytes of memory in all, beside what is in extents: what is idle beyond that goes back to the system.
    /// Nothing is done for no more than `slack` bytes. Returns what is beyond it still: idle memory in segments that are not empty.
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

    /// What all of them use together.
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
