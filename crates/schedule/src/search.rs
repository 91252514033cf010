//! Algorithm 1 of the paper: nearest common successor enhanced breadth-first search for task assignment.
//!
//! The names are the paper's: `SQ`, the queue of starting nodes, is `starts` here. The paper leaves open what is defined in
//! [`ncs_heights`], and in which order nodes of one height come.

use std::collections::VecDeque;

use crate::graph::Graph;

/// The height of a nearest common successor that does not exist.
pub const FAR: u32 = u32::MAX;

/// Function `NCS_HEIGHT` of Algorithm 1, from one node to every other: the height of their nearest common successor.
///
/// A successor of a node is whatever can be reached from it. Of two nodes' common successors the nearest is the one of the least
/// [height](Graph::heights); if there is none, the height is [`FAR`].
///
/// # Panics
///
/// If `first` is not a task of the graph.
#[must_use]
pub fn ncs_heights(graph: &Graph, first: u32) -> Vec<u32> {
    let mut reached = vec![false; graph.len()];
    reached[first as usize] = true;
    for &task in graph.topological() {
        if !reached[task as usize] {
            reached[task as usize] = graph.producers(task).iter().any(|&producer| reached[producer as usize]);
        }
    }
    reached[first as usize] = false;
    // The least height among the successors of `first` that are the task or successors of it.
    let mut at_or_above = vec![FAR; graph.len()];
    let mut heights = vec![FAR; graph.len()];
    for &task in graph.topological().iter().rev() {
        let above = graph.successors(task).iter().map(|&successor| at_or_above[successor as usize]).min();
        let above = above.unwrap_or(FAR);
        heights[task as usize] = above;
        // Heights grow along edges, so that of the task itself is less than any above.
        at_or_above[task as usize] = if reached[task as usize] { graph.heights()[task as usize] } else { above };
    }
    heights
}

/// Lines 1 to 4: the starting nodes without predecessors, the first one first, the remaining sorted by `NCS_HEIGHT` with it, ascending.
/// Those of one height stay in the order of their numbers.
#[must_use]
pub fn sorted_by_ncs_height(graph: &Graph) -> Vec<u32> {
    let mut starts = graph.starts().to_vec();
    if let Some((first, remaining)) = starts.split_first_mut() {
        let heights = ncs_heights(graph, *first);
        remaining.sort_by_key(|&start| heights[start as usize]);
    }
    starts
}

/// Lines 5 to 14: the tasks in the order in which the search puts them out, from starting nodes in the order given.
///
/// All that is reached from one starting node comes before the next one, so a task may come before some of its producers.
///
/// # Panics
///
/// If one of the `starts` is not a task of the graph.
#[must_use]
pub fn search(graph: &Graph, starts: &[u32]) -> Vec<u32> {
    let mut starts = starts.iter().copied();
    let mut visited = vec![false; graph.len()];
    let mut queue = VecDeque::new();
    let mut output = Vec::with_capacity(graph.len());
    if let Some(first) = starts.next() {
        visited[first as usize] = true;
        queue.push_back(first);
    }
    while let Some(task) = queue.pop_front() {
        output.push(task);
        for &successor in graph.successors(task) {
            if !visited[successor as usize] {
                visited[successor as usize] = true;
                queue.push_back(successor);
            }
        }
        if queue.is_empty() {
            queue.extend(starts.next());
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Input;

    #[test]
    fn the_first_node_decides() {
        // 0 and 3 meet in 4, that and 1 in 5, that and 2 in 6; 7 meets nobody.
        let graph = Graph::new(&Input::new(8, &[0, 3, 4, 1, 5, 2], &[4, 4, 5, 5, 6, 6])).unwrap();
        assert_eq!(graph.heights(), [0, 0, 0, 0, 1, 2, 3, 0]);
        assert_eq!(ncs_heights(&graph, 0), [1, 2, 3, 1, 2, 3, FAR, FAR]);
        assert_eq!(ncs_heights(&graph, 1)[..4], [2, 2, 3, 2]);
        let starts = sorted_by_ncs_height(&graph);
        assert_eq!(starts, [0, 3, 1, 2, 7]);
        assert_eq!(search(&graph, &starts), [0, 4, 5, 6, 3, 1, 2, 7]);
    }

    #[test]
    fn the_nearest_of_several_common_successors_counts() {
        // 0 and 1 meet in 4 above 3, and in 2 directly.
        let graph = Graph::new(&Input::new(5, &[0, 3, 1, 0, 1], &[3, 4, 4, 2, 2])).unwrap();
        assert_eq!(ncs_heights(&graph, 0)[1], 1);
    }

    #[test]
    fn no_tasks_are_no_output() {
        let graph = Graph::new(&Input::new(0, &[], &[])).unwrap();
        assert_eq!(search(&graph, &sorted_by_ncs_height(&graph)), Vec::<u32>::new());
    }
}
