//! Pages, locality sets and the buffer pool: one copy of the data for every process, and larger than memory.
//!
//! [`Home`] is the interface of a store. [`Pool`] implements it in this process; `remote::Client` implements it by requests to a
//! server in another process. Both behave alike.

mod api;
mod bounce;
pub mod durable;
mod error;
mod folder;
mod guardian;
mod ids;
mod images;
mod io;
mod metrics;
pub mod policy;
mod pool;
#[cfg(target_os = "linux")]
pub mod remote;
pub mod services;

pub use api::*;
pub use error::{Error, Result};
pub use folder::remove_dead;
pub use ids::{PageId, SetId};
pub use images::{Compression, verify_file};
pub use metrics::prometheus;
pub use pool::{HandedOver, Pool, PoolOptions};
