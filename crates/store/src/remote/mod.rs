//! Serving a store in one process to other processes.
//!
//! [`Server`] offers any [`Serving`] home over a Unix stream socket; [`Client`] is a [`Home`](crate::Home) that sends requests to it. Only small
//! messages and, once for each segment, its descriptor are sent: a client maps the segment, and so shares the server's memory.
//!
//! * **Authentication**: only processes of the server's own user may connect (`SO_PEERCRED`, checked by both sides).
//! * **Write access**: a client writes only to segments that were created for it. It gets the only writable mapping besides the server's, and
//!   then the segment is sealed. It maps all other segments read-only.
//! * **Death of a client**: the server releases its pins, unsealed extents, reservations and uses of sets. Sealed pages stay.
//! * **Death of a server**: every call fails immediately with [`Error::Connection`](crate::Error::Connection). Mapped memory stays readable.

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
