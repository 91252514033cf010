//! Assignments: the band of every task, and the order in which each band runs its tasks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::bands::Bands;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::groups::grouped;
use crate::policy::{Placement, Policy};

/// The band of each task, and the order in which each band runs its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The band of each task.
    pub bands: Vec<u32>,
    /// All tasks, in the order of the policy; for Algorithm 1, its output.
    pub output: Vec<u32>,
    /// The tasks of the first band, then those of the second, and so on; each band's in the order in which it runs them.
    ///
    /// The orders of all bands are subsequences of one topological order, so bands that follow theirs cannot deadlock. In that topological
    /// order, the next task is always the first one in `output` whose producers have run.
    pub order: Vec<u32>,
    /// Where each band's tasks start in `order`; one more entry than bands.
    pub starts: Vec<u32>,
}

impl Assignment {
    /// The tasks of a band, in the order in which it runs them.
    ///
    /// # Panics
    ///
    /// If there is no such band.
    #[must_use]
    pub fn of_band(&self, band: usize) -> &[u32] {
        &self.order[self.starts[band] as usize..self.starts[band + 1] as usize]
    }
}

/// Assign the tasks of a graph to bands.
///
/// # Errors
///
/// A task prefers a band that does not exist, or the policy returns an invalid placement.
pub fn assign(graph: &Graph, bands: &Bands, policy: &dyn Policy) -> Result<Assignment> {
    graph.check_preferred(bands.len())?;
    let Placement { bands: of, output } = policy.place(graph, bands);
    let broken = |why| Err(Error::Broken { policy: policy.name(), why });
    if of.len() != graph.len() || output.len() != graph.len() {
        return broken(format!("{} bands and {} in the output, for {} tasks", of.len(), output.len(), graph.len()));
    }
    if let Some(task) = of.iter().position(|&band| band as usize >= bands.len()) {
        return broken(format!("task {task} was assigned to band {} of {}", of[task], bands.len()));
    }
    let Some(run) = run_order(graph, &output) else {
        return broken("the output has a task twice, or one that does not exist".into());
    };
    let (order, starts) = grouped(run.iter().map(|&task| (of[task as usize], task)), bands.len());
    Ok(Assignment { bands: of, output, order, starts })
}

/// A topological order that follows `output` as closely as possible; `None` if `output` does not have each task once.
fn run_order(graph: &Graph, output: &[u32]) -> Option<Vec<u32>> {
    let mut ranks = vec![u32::MAX; graph.len()];
    for (rank, &task) in (0..).zip(output) {
        let place = ranks.get_mut(task as usize)?;
        if std::mem::replace(place, rank) != u32::MAX {
            return None;
        }
    }
    let mut missing: Vec<usize> = Vec::with_capacity(graph.len());
    missing.extend((0..).take(graph.len()).map(|task: u32| graph.producers(task).len()));
    let mut ready: BinaryHeap<Reverse<u32>> =
        graph.starts().iter().map(|&start| Reverse(ranks[start as usize])).collect();
    let mut run = Vec::with_capacity(graph.len());
    while let Some(Reverse(rank)) = ready.pop() {
        let task = output[rank as usize];
        run.push(task);
        for &successor in graph.successors(task) {
            missing[successor as usize] -= 1;
            if missing[successor as usize] == 0 {
                ready.push(Reverse(ranks[successor as usize]));
            }
        }
    }
    Some(run)
}
