//! An allocator that a process gets by `LD_PRELOAD`: it puts large blocks into shared memory, so that tables which any library made can be
//! handed to other processes without a copy.
//!
//! Blocks of at least [`options::Options::threshold`] bytes lie in *regions*: memfds that are mapped shared. All others are glibc's. The
//! allocator does nothing unless the environment variable `CRATON_PRELOAD` is set.
//!
//! # After a fork
//! A forked child must not see what its parent writes later, nor the other way round. Before a fork all regions are therefore *retired*:
//! mapped privately, at the same addresses. Nobody writes to their files again, so what is not written remains shared, and what either process
//! writes becomes its own. A retired region gives no new blocks, and its blocks are not handed to other processes by reference. The parent
//! makes a new region for its next large block; the child has none.
//!
//! # Memory
//! A freed block keeps its pages for the next block of about its size, up to [`options::Options::keep`] bytes, because the first access to a
//! page is what costs most. Pages beyond that are returned to the system by punching holes. Regions are sparse: their address space costs
//! nothing, so a block that grows gets room to grow further.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

pub mod exports;
mod glibc;
mod heap;
mod options;
mod ranges;
mod region;
pub mod report;
#[cfg(test)]
mod tests;

#[global_allocator]
static GLOBAL: glibc::Glibc = glibc::Glibc;
