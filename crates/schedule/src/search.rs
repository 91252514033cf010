//! Algorithm 1 of the paper: nearest common successor enhanced breadth-first search for task assignment.
//!
//! The names are the paper's, except that `SQ`, the queue of starting nodes, is `starts` here. The paper does not define the nearest common
//! successor exactly, nor the order of nodes of equal height; [`ncs_heights`] and [`sorted_by_ncs_height`] do.

use std::collections::VecDeque;

use crate::graph::Graph;

/// The height that stands for no common successor.
pub const FAR: u32 = u32::MAX;

/// Function `NCS_HEIGHT` of Algorithm 1, from one node to every other: the height of their nearest common successor.
///
/// The successors of a node are all nodes that can be reached from it. The nearest common successor of two nodes is the one of the least
/// [height](Graph::heights); without one, the height is [`FAR`].
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
    // For each task, the least height among those successors of `first` that are this task or its successors.
    let mut at_or_above = vec![FAR; graph.len()];
    let mut heights = vec![FAR; graph.len()];
    for &task in graph.topological().iter().rev() {
        let above = graph.successors(task).iter().map(|&successor| at_or_above[successor as usize]).min();
        let above = above.unwrap_or(FAR);
        heights[task as usize] = above;
        // Heights increase along edges, so a task's own height is less than those of its successors.
        at_or_above[task as usize] = if reached[task as usize] { graph.heights()[task as usize] } else { above };
    }
    heights
}

/// Lines 1 to 4: the starting nodes, which have no predecessors. The first one comes first, the remaining ones are sorted by ascending
/// `NCS_HEIGHT` with it. Nodes of equal height stay in the order of their numbers.
#[must_use]
pub fn sorted_by_ncs_height(graph: &Graph) -> Vec<u32> {
    let mut starts = graph.starts().to_vec();
    if let Some((first, remaining)) = starts.split_first_mut() {
        let heights = ncs_heights(graph, *first);
        remaining.sort_by_key(|&start| heights[start as usize]);
    }
    starts
}

/// Lines 5 to 14: the tasks in the order in which the search outputs them, from starting nodes in the given order.
///
/// All tasks reached from one starting node come before the next starting node, so a task may come before some of its producers.
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
        // 0 and 3 have the common successor 4, which has 5 in common with 1, which has 6 in common with 2; 7 has none.
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
        // 0 and 1 have two common successors: 4, above 3, and 2, directly.
        let graph = Graph::new(&Input::new(5, &[0, 3, 1, 0, 1], &[3, 4, 4, 2, 2])).unwrap();
        assert_eq!(ncs_heights(&graph, 0)[1], 1);
    }

    #[test]
    fn no_tasks_are_no_output() {
        let graph = Graph::new(&Input::new(0, &[], &[])).unwrap();
        assert_eq!(search(&graph, &sorted_by_ncs_height(&graph)), Vec::<u32>::new());
    }
}
