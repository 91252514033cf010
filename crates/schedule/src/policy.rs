//! Scheduling policies: which band runs which task.

use crate::bands::Bands;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::nearest::Row;
use crate::place::place;
use crate::search::{search, sorted_by_ncs_height};

/// The bands that a policy assigned tasks to, and their priorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The band of each task.
    pub bands: Vec<u32>,
    /// All tasks, each once, by priority: of several ready tasks, the earlier one runs first.
    pub output: Vec<u32>,
}

/// A policy that assigns tasks to bands.
///
/// It must be deterministic: the same graph and bands give the same placement in every process. The caller has checked that preferred bands
/// exist.
pub trait Policy {
    /// The name of the policy.
    fn name(&self) -> &'static str;

    /// Place the tasks.
    fn place(&self, graph: &Graph, bands: &Bands) -> Placement;
}

/// The names that [`policy`] accepts.
pub const POLICIES: [&str; 5] = ["ncs", "algorithm-1", "bfs", "round-robin", "random"];

/// The policy of that name.
///
/// # Errors
///
/// [`Error::Policy`] if there is none of that name.
pub fn policy(name: &str, seed: u64) -> Result<Box<dyn Policy + Send + Sync>> {
    Ok(match name {
        "ncs" => Box::new(Ncs),
        "algorithm-1" => Box::new(Algorithm1),
        "bfs" => Box::new(Bfs),
        "round-robin" => Box::new(RoundRobin),
        "random" => Box::new(Random { seed }),
        _ => return Err(Error::Policy { given: name.into() }),
    })
}

/// Nearest common successors: Algorithm 1, extended so that every starting node, not only the first, is beside its nearest ones.
#[derive(Clone, Copy, Debug)]
pub struct Ncs;

impl Policy for Ncs {
    fn name(&self) -> &'static str {
        "ncs"
    }

    fn place(&self, graph: &Graph, bands: &Bands) -> Placement {
        let row = Row::nearest(graph);
        let mut starts = graph.starts().to_vec();
        starts.sort_unstable_by_key(|&start| row.places[start as usize]);
        Placement { bands: place(graph, bands, &row), output: search(graph, &starts) }
    }
}

/// Algorithm 1 exactly as the paper has it; its output is cut into runs.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm1;

impl Policy for Algorithm1 {
    fn name(&self) -> &'static str {
        "algorithm-1"
    }

    fn place(&self, graph: &Graph, bands: &Bands) -> Placement {
        in_order(graph, bands, search(graph, &sorted_by_ncs_height(graph)))
    }
}

/// Breadth-first search from the starting nodes in the order of their numbers: Algorithm 1 without lines 2 to 4.
#[derive(Clone, Copy, Debug)]
pub struct Bfs;

impl Policy for Bfs {
    fn name(&self) -> &'static str {
        "bfs"
    }

    fn place(&self, graph: &Graph, bands: &Bands) -> Placement {
        in_order(graph, bands, search(graph, graph.starts()))
    }
}

fn in_order(graph: &Graph, bands: &Bands, output: Vec<u32>) -> Placement {
    Placement { bands: place(graph, bands, &Row::given(&output)), output }
}

/// Assigns tasks to bands in turn, by task number; a band's turns are proportional to its capacity. Ignores edges.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin;

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn place(&self, graph: &Graph, bands: &Bands) -> Placement {
        let shares = bands.shares();
        // The interval between a band's turns is inversely proportional to its share.
        let mut turns: Vec<f64> = shares.iter().map(|share| 1.0 / share).collect();
        let equal = turns.iter().all(|turn| *turn == turns[0]);
        let mut next = |task: usize| {
            if equal {
                return task % shares.len();
            }
            let band = (0..shares.len()).reduce(|best, band| if turns[band] < turns[best] { band } else { best });
            let band = band.unwrap_or(0);
            turns[band] += 1.0 / shares[band];
            band
        };
        let bands = (0..graph.len()).map(|task| number(next(task))).collect();
        Placement { bands, output: search(graph, graph.starts()) }
    }
}

/// Assigns each task to a random band, with a probability proportional to its capacity. Ignores edges.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    /// The seed of the pseudorandom generator.
    pub seed: u64,
}

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn place(&self, graph: &Graph, bands: &Bands) -> Placement {
        let ends: Vec<f64> = bands.shares().iter().scan(0.0, |end, share| Some((*end += share, *end).1)).collect();
        let mut state = self.seed;
        let mut next = || {
            let place = unit(&mut state);
            number(ends.partition_point(|end| *end <= place).min(bands.len() - 1))
        };
        Placement { bands: (0..graph.len()).map(|_| next()).collect(), output: search(graph, graph.starts()) }
    }
}

/// A pseudorandom number in [0, 1), by SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
#[allow(clippy::cast_precision_loss)]
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

fn number(band: usize) -> u32 {
    u32::try_from(band).unwrap_or(u32::MAX)
}
