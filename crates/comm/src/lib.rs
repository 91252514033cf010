//! Communicators: groups of processes that send each other messages and call collectives together.
//!
//! Ranks are processes, on one machine or several. An [`Endpoint`] listens for the others and connects with them; the result is a [`Group`],
//! whose methods are the collectives. Between processes of one machine, messages go through rings in shared memory, and large ones are
//! copied once, from the sender's memory; between machines they go over TCP. Each rank proves that it has the key before anything else is
//! read of it.
//!
//! A rank that ends is noticed at once by all others, and a call that cannot be completed fails on all of them: see [`Error`].
//!
//! ```
//! use std::time::Duration;
//! use craton_comm::{Control, Endpoint, EndpointOptions, Membership, Piece};
//!
//! let endpoints: Vec<Endpoint> =
//!     (0..2).map(|_| Endpoint::bind(&EndpointOptions::default())).collect::<Result<_, _>>()?;
//! let addresses: Vec<Vec<u8>> = endpoints.iter().map(|endpoint| endpoint.address().to_vec()).collect();
//! let ranks = endpoints.into_iter().enumerate().map(|(rank, endpoint)| {
//!     let addresses = addresses.clone();
//!     std::thread::spawn(move || {
//!         let membership =
//!             Membership { rank, addresses: &addresses, key: b"a shared key", patience: Duration::from_secs(10) };
//!         let group = endpoint.connect(&membership, &mut || true)?;
//!         let mut control = Control { timeout: None, hook: &mut || true };
//!         let value = group.broadcast(Some(&[Piece::of(b"hello")]), 0, &mut control)?;
//!         Ok::<_, craton_comm::Error>(value.map(|block| block.bytes().to_vec()))
//!     })
//! });
//! let ranks: Vec<_> = ranks.collect();
//! let values: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect::<Result<_, _>>()?;
//! assert_eq!(values, [None, Some(b"hello".to_vec())]);
//! # Ok::<(), craton_comm::Error>(())
//! ```

mod auth;
mod bell;
mod channel;
mod collectives;
mod connect;
mod engine;
mod error;
mod group;
mod memory;
mod reduce;
mod remote_memory;
mod ring;
mod state;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod watcher;
mod world;

pub use collectives::{Array, Output, Values};
pub use connect::{Endpoint, EndpointOptions, Membership};
pub use error::{Error, Result};
pub use group::{Control, Group};
pub use memory::{Block, Piece};
pub use reduce::{Number, Op, Reducer};
