//! The operations of a pool for clients in other processes.

use craton_slab::Extent;

use crate::error::Result;
use crate::ids::SetId;
use crate::pool::Pool;
use crate::remote::{ClientId, Serving};

impl Serving for Pool {
    fn open_client(&self, _client: ClientId) {
        self.shared.tables.lock().counters.clients += 1;
    }

    fn allocate_for(&self, client: ClientId, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>> {
        let shared = &self.shared;
        shared.allocate(set, lengths, &shared.slabs.of_client(client))
    }

    fn close_client(&self, client: ClientId) {
        self.shared.slabs.close_client(client);
        let mut tables = self.shared.tables.lock();
        tables.counters.clients = tables.counters.clients.saturating_sub(1);
    }
}
