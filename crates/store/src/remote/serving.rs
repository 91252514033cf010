//! What a home must do to be served to other processes.

use std::fmt;

use craton_slab::Extent;
use serde::{Deserialize, Serialize};

use super::Result;
use crate::api::{Home, SetId};

/// A client of a server; never used again after it has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientId(pub u64);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A client as its server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientInfo {
    /// The client.
    pub client: ClientId,
    /// Its process, as the server's process namespace numbers it; 0 when it is in another one.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Bytes that count for its quota: extents that are not sealed, and pages that are pinned, each page once.
    pub bytes: u64,
    /// Its quota in bytes.
    pub quota: u64,
    /// Extents that are not sealed.
    pub extents: u64,
    /// Pins.
    pub pins: u64,
    /// Reservations.
    pub reservations: u64,
    /// Sets that it is a user of.
    pub sets: u64,
    /// Connections that it has open.
    pub connections: u64,
}

/// A [`Home`] that serves other processes.
///
/// A server calls the methods of [`Home`] for its clients and keeps the values that they return until the client drops its own or dies. What
/// a client cannot share with anybody is the memory that it writes to; that is the only thing that is asked for beyond [`Home`]:
///
/// * An extent of [`allocate_for`](Serving::allocate_for) lies in a segment that belongs to one client. No extent of another client and no
///   page that this process itself still writes lies there. Pages that the client sealed stay in it, and after
///   [`close_client`](Serving::close_client) its free room may be used by this process.
/// * Such a segment was made for a client ([`SlabOptions::client`](craton_slab::SlabOptions::client)) and was not sealed, nor its descriptor
///   given away, by the home: the server sends the descriptor to the client, waits until the client has mapped it for writing, and then seals
///   it. A slab for each client, made when it comes or when it first allocates, is all that this takes.
/// * Every other segment that a page lies in may be shared for reading at any time.
/// * A segment lives as long as an `Arc` of it. When the last one is gone, the server tells the clients to unmap it; before, they keep its
///   memory alive.
pub trait Serving: Home {
    /// A client has come. It is called before any other method is called for it.
    fn open_client(&self, client: ClientId) {
        let _ = client;
    }

    /// [`Home::allocate`], in memory that this client may map for writing: the same eviction, the same limit, the same errors. The server has
    /// checked the client's quota.
    ///
    /// # Errors
    /// [`Full`](crate::Error::Full), [`NoSet`](crate::Error::NoSet).
    fn allocate_for(&self, client: ClientId, set: SetId, lengths: &[usize]) -> Result<Vec<Extent>>;

    /// The client has gone. Everything that it held was given back before: extents were dropped, pages unpinned, reservations released and
    /// sets released. It is called once for each client, after the last call for it has returned.
    fn close_client(&self, client: ClientId) {
        let _ = client;
    }
}
