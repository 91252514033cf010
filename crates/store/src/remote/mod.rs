//! A store in one process, used by others.
//!
//! [`Server`] offers any [`Serving`] home over a Unix stream socket; [`Client`] is a [`Home`](crate::Home) that asks it. What travels are
//! small messages and, once for each segment, its descriptor: a client maps a segment and reads and writes the same memory as the server.
//!
//! * **Who may connect**: processes of the server's own user, and nobody else (`SO_PEERCRED`, checked by both sides).
//! * **Who may write where**: a client writes to segments that were made for it alone. It is given the only other writable mapping; then the
//!   segment is sealed. Everything else it maps for reading.
//! * **What dies with a client**: its pins, its extents that were not sealed, its reservations, its uses of sets. Sealed pages stay.
//! * **What dies with a server**: every call, at once, with [`Error::Connection`](crate::Error::Connection). Memory that is mapped stays
//!   readable.

mod address;
mod answer;
mod client;
mod descriptors;
mod link;
mod mapped;
pub mod protocol;
mod server;
mod serving;
mod session;

pub use address::Address;
pub use client::Client;
pub use server::{Server, ServerOptions};
pub use serving::{ClientId, ClientInfo, Serving};

type Result<T, E = crate::error::Error> = std::result::Result<T, E>;
