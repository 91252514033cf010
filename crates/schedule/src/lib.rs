//! Which band runs which task of a graph, and in which order.
//!
//! A band is a NUMA node or a GPU. Tasks that exchange data should run in the same band, so that the data does not move; and all bands should
//! be busy. The method is the *nearest common successor enhanced breadth-first search* of Xorbits (Lu et al., "Decentralized Actor Scheduling
//! and Reference-based Storage in Xorbits", PVLDB 18(9), 2025, section 4.3, Algorithm 1): tasks with the nearest common successors are
//! assigned to the same or nearby bands.
//!
//! [`Graph`] validates a task graph; a [`Policy`] places its tasks; [`assign`] makes an [`Assignment`] from the placement, with the order in
//! which each band runs its tasks. All of it is deterministic, and takes time linear in tasks and edges, except for sorting.
//!
//! ```
//! use craton_schedule::{Bands, Bytes, Graph, Input, Ncs, assign};
//!
//! // Two pairs of tiles, each joined: tasks 0 to 3 read, 4 joins 0 and 2, 5 joins 1 and 3.
//! let input = Input::new(6, &[0, 2, 1, 3], &[4, 4, 5, 5]);
//! let graph = Graph::new(&input).unwrap();
//! let assignment = assign(&graph, &Bands::new(&[1.0, 1.0]).unwrap(), &Ncs).unwrap();
//! assert_eq!(assignment.bands, [0, 1, 0, 1, 0, 1]);
//! assert_eq!(graph.moved_bytes(&assignment.bands), 0);
//! assert_eq!(assignment.of_band(1), [1, 3, 5]);
//! ```

mod assignment;
mod bands;
mod cut;
mod error;
mod graph;
mod groups;
mod nearest;
mod place;
mod policy;
mod search;

pub use assignment::{Assignment, assign};
pub use bands::Bands;
pub use error::{Error, Result};
pub use graph::{Bytes, Graph, Input};
pub use policy::{Algorithm1, Bfs, Ncs, POLICIES, Placement, Policy, Random, RoundRobin, policy};
pub use search::{FAR, ncs_heights, search, sorted_by_ncs_height};
