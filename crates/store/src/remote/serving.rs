//! The interface that a home must implement to be served to other processes.

use std::fmt;

use craton_slab::Extent;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::api::Home;
use crate::ids::SetId;

/// The id of a client of a server; not reused after the client has disconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientId(pub u64);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A server's view of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientInfo {
    /// The client.
    pub client: ClientId,
    /// Its process id in the server's process namespace; 0 if it is in another namespace.
    pub pid: u32,
    /// Its user id.
    pub uid: u32,
    /// Bytes that count towards its quota: unsealed extents, and pinned pages, each page once.
    pub bytes: u64,
    /// Its quota in bytes.
    pub quota: u64,
    /// Number of unsealed extents.
    pub extents: u64,
    /// Number of pins.
    pub pins: u64,
    /// Number of reservations.
    pub reservations: u64,
    /// Number of sets that it uses.
    pub sets: u64,
    /// Number of open connections.
    pub connections: u64,
}

/// A [`Home`] that serves other processes.
///
/// A server calls the methods of [`Home`] for its clients, and keeps the returned values until the client drops its copies or dies. The only
/// requirement beyond [`Home`] is that the memory that a client writes to is not shared with other clients:
///
/// * An extent of [`allocate_for`](Serving::allocate_for) is in a segment that belongs to one client. That segment has no extents of other
///   clients, and no page that this process itself is still writing. Pages that the client sealed stay in it, and after
///   [`close_client`](Serving::close_client) this process may use its free room.
/// * Such a segment was created for a client ([`SlabOptions::client`](craton_slab::SlabOptions::client)). The home must neither seal it nor
///   pass its descriptor on: the server sends the descriptor to the client, waits until the client has mapped it for writing, and then seals
///   it. A slab for each client, created when it connects or first allocates, fulfils this.
/// * Every other segment with pages may be shared for reading at any time.
/// * A segment lives as long as an `Arc` of it. After the last one is dropped, the server tells the clients to unmap it; until they do, they
///   keep its memory alive.
pub trait Serving: Home {
    /// Called when a client connects, before any other call for it.
    fn open_client(&self, client: ClientId) {
        let _ = client;
    }

    /// As [`Home::allocate`], in memory that this client may map for writing, with the same eviction, limit and errors. The server has checked
    /// the client's quota.
    ///
    /// # Errors
    /// [`Full`](crate::Error::Full), [`NoSet`](crate::Error::NoSet).
    fn allocate_for(&self, client: ClientId, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>>;

    /// Called once for each client when it has disconnected, after the last call for it has returned. Everything that it held was released
    /// before: extents, pins, reservations and uses of sets.
    fn close_client(&self, client: ClientId) {
        let _ = client;
    }
}
