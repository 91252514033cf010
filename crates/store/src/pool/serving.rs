//! A pool that serves other processes.

use std::sync::atomic::Ordering;

use craton_slab::Extent;

use crate::api::SetId;
use crate::error::Result;
use crate::pool::Pool;
use crate::remote::{ClientId, Serving};

impl Serving for Pool {
    fn open_client(&self, _: ClientId) {
        self.shared.clients.fetch_add(1, Ordering::Relaxed);
    }

    fn allocate_for(&self, client: ClientId, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>> {
        let shared = &self.shared;
        shared.allocate(set, lengths, &shared.slabs.of_client(client))
    }

    fn close_client(&self, client: ClientId) {
        self.shared.slabs.close_client(client);
        self.shared.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
