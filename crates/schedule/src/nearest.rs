//! Orders tasks in a row so that each task is beside the tasks nearest to it.
//!
//! Lines 2 to 4 of Algorithm 1 bring the tasks near the *first* starting node to the front; they do not consider how near the remaining ones
//! are to each other. This module does the same for every task, by agglomerative clustering: it takes the edges by descending weight, and each
//! edge joins the groups of its two ends. Tasks that are joined earlier are nearer. Edges of equal weight are taken by the ascending height of
//! their consumers, so two starting nodes are joined at their nearest common successor.
//!
//! The weight of an edge is what assigning both ends to one band can save: its bytes, divided by the numbers of the producer's successors and
//! the consumer's producers. A tile that only one join reads weighs much. A table that all tasks read, or a piece of a shuffle, weighs little,
//! because most of its edges cross bands under any assignment. Weights are rounded to powers of two, so that height decides among similar ones.

use crate::graph::Graph;

/// Number of possible weights: the exponents of 64-bit floats.
const WEIGHTS: usize = 1 << 11;

/// The distance between tasks that no edges connect, which exceeds all others.
pub const APART: u32 = u32::MAX;

/// Tasks in a row, with the distance of each from the one before.
pub struct Row {
    /// The place of each task in the row.
    pub places: Vec<u32>,
    apart: Maxima,
}

impl Row {
    /// Order tasks so that each is beside the nearest ones. Of the starting nodes, the one with the lowest number comes first.
    pub fn nearest(graph: &Graph) -> Self {
        let mut joined = Clusters::new(graph);
        let (edges, heights) = (by_weight(graph), graph.heights());
        let mut distance = 0;
        let mut last = None;
        for edge in edges {
            let now = (edge.weight, heights[edge.consumer as usize]);
            distance += u32::from(last.replace(now) != Some(now));
            joined.join(edge.producer, edge.consumer, distance);
        }
        joined.into_row()
    }

    /// A row in the given order, without distances.
    pub fn given(order: &[u32]) -> Self {
        Self { places: places(order), apart: Maxima::new(&vec![0; order.len()]) }
    }

    /// The distance between the tasks at a place and at a later place.
    pub fn apart(&self, place: u32, later: u32) -> u32 {
        self.apart.within(place as usize + 1, later as usize + 1)
    }

    /// The distance of each of these tasks, given in the order of their places, from the one before it.
    pub fn distances(&self, tasks: &[u32]) -> Vec<u32> {
        let place = |task: u32| self.places[task as usize];
        let first = tasks.first().map(|_| APART);
        first.into_iter().chain(tasks.windows(2).map(|pair| self.apart(place(pair[0]), place(pair[1])))).collect()
    }
}

fn places(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, &task) in (0..).zip(order) {
        places[task as usize] = place;
    }
    places
}

#[derive(Clone, Copy, Default)]
struct Edge {
    weight: u16,
    producer: u32,
    consumer: u32,
}

/// The edges by descending weight, those of equal weight by the ascending height of their consumers.
fn by_weight(graph: &Graph) -> Vec<Edge> {
    let mut counts = [0_usize; WEIGHTS + 1];
    let mut edges = Vec::with_capacity(graph.edges());
    for &consumer in graph.topological() {
        for (producer, bytes) in graph.inputs(consumer) {
            let edge = Edge { weight: weight(graph, producer, consumer, bytes), producer, consumer };
            counts[WEIGHTS - usize::from(edge.weight)] += 1;
            edges.push(edge);
        }
    }
    let mut next = 0;
    for count in &mut counts {
        (*count, next) = (next, next + *count);
    }
    let mut sorted = vec![Edge::default(); edges.len()];
    for edge in edges {
        let place = &mut counts[WEIGHTS - usize::from(edge.weight)];
        sorted[*place] = edge;
        *place += 1;
    }
    sorted
}

/// The weight of an edge as a power of two: its biased exponent; 0 for an edge without bytes.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn weight(graph: &Graph, producer: u32, consumer: u32, bytes: u64) -> u16 {
    let ways = graph.successors(producer).len() as f64 * graph.producers(consumer).len() as f64;
    // The exponent of a number that is not negative.
    ((bytes as f64 / ways).to_bits() >> 52) as u16
}

/// Groups of joined tasks: a union-find structure whose groups are linked lists.
struct Clusters {
    /// The parent in the union-find forest: a task of the same group; the root represents the group.
    parent: Vec<u32>,
    /// For the root of each group: its sort key, first and last task.
    groups: Vec<Group>,
    /// The next task of the list.
    next: Vec<u32>,
    /// The distance of a task from the one before it in its list.
    before: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Group {
    /// The sort key: the lowest number of its starting nodes; for a group without any, a number above those, by its lowest task.
    least: u32,
    tasks: u32,
    first: u32,
    last: u32,
}

const END: u32 = u32::MAX;

impl Clusters {
    fn new(graph: &Graph) -> Self {
        let tasks = u32::try_from(graph.len()).unwrap_or(u32::MAX);
        let alone = |task: u32| {
            let least = if graph.producers(task).is_empty() { task } else { tasks + task };
            Group { least, tasks: 1, first: task, last: task }
        };
        Self {
            parent: (0..tasks).collect(),
            groups: (0..tasks).map(alone).collect(),
            next: vec![END; graph.len()],
            before: vec![APART; graph.len()],
        }
    }

    fn find(&mut self, mut task: u32) -> u32 {
        while self.parent[task as usize] != task {
            let above = self.parent[self.parent[task as usize] as usize];
            self.parent[task as usize] = above;
            task = above;
        }
        task
    }

    /// Join the groups of two tasks by concatenating their lists.
    fn join(&mut self, one: u32, other: u32, distance: u32) {
        let (one, other) = (self.find(one), self.find(other));
        if one == other {
            return;
        }
        let (a, b) = (self.groups[one as usize], self.groups[other as usize]);
        let (front, back) = if a.least < b.least { (a, b) } else { (b, a) };
        self.next[front.last as usize] = back.first;
        self.before[back.first as usize] = distance;
        let (root, below) = if a.tasks < b.tasks { (other, one) } else { (one, other) };
        self.parent[below as usize] = root;
        self.groups[root as usize] =
            Group { least: front.least, tasks: a.tasks + b.tasks, first: front.first, last: back.last };
    }

    /// Concatenate all groups.
    fn into_row(self) -> Row {
        let mut roots: Vec<Group> = (0..)
            .zip(&self.parent)
            .filter(|(task, parent)| task == *parent)
            .map(|(task, _)| self.groups[task as usize])
            .collect();
        roots.sort_unstable_by_key(|group| group.least);
        let mut order = Vec::with_capacity(self.parent.len());
        for group in roots {
            let mut task = group.first;
            while task != END {
                order.push(task);
                task = self.next[task as usize];
            }
        }
        let apart: Vec<u32> = order.iter().map(|&task| self.before[task as usize]).collect();
        Row { places: places(&order), apart: Maxima::new(&apart) }
    }
}

/// A segment tree, which finds the maximum of any range of numbers in logarithmic time.
struct Maxima {
    /// A binary tree: the children of `i` are `2 * i` and `2 * i + 1`, and its second half are the numbers.
    tree: Vec<u32>,
}

impl Maxima {
    fn new(numbers: &[u32]) -> Self {
        let mut tree = vec![0; numbers.len()];
        tree.extend(numbers);
        for place in (1..numbers.len()).rev() {
            tree[place] = tree[2 * place].max(tree[2 * place + 1]);
        }
        Self { tree }
    }

    /// The maximum of the numbers in `first..end`; 0 if there are none.
    fn within(&self, first: usize, end: usize) -> u32 {
        let count = self.tree.len() / 2;
        let (mut low, mut high) = (first + count, end + count);
        let mut most = 0;
        while low < high {
            if low % 2 == 1 {
                most = most.max(self.tree[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                most = most.max(self.tree[high]);
            }
            (low, high) = (low / 2, high / 2);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Bytes, Input};
    use crate::search::sorted_by_ncs_height;

    fn starts_in_row(graph: &Graph) -> Vec<u32> {
        let row = Row::nearest(graph);
        let mut starts = graph.starts().to_vec();
        starts.sort_by_key(|&start| row.places[start as usize]);
        starts
    }

    #[test]
    fn maxima_of_ranges() {
        let numbers = [3, 1, 4, 1, 5, 9, 2];
        let maxima = Maxima::new(&numbers);
        for first in 0..=numbers.len() {
            for end in first..=numbers.len() {
                assert_eq!(maxima.within(first, end), numbers[first..end].iter().copied().max().unwrap_or(0));
            }
        }
    }

    #[test]
    fn every_node_has_its_nearest_beside_it() {
        // Leaves 0 to 7; pairs (0,4), (1,5), (2,6), (3,7); of these (0,4,2,6) and (1,5,3,7); all.
        let producers = [0, 4, 1, 5, 2, 6, 3, 7, 8, 10, 9, 11, 12, 13];
        let consumers = [8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14];
        let graph = Graph::new(&Input::new(15, &producers, &consumers)).unwrap();
        assert_eq!(starts_in_row(&graph), [0, 4, 2, 6, 1, 5, 3, 7]);
        // The paper's algorithm leaves tasks that are equally near to the first one in the order of their numbers.
        assert_eq!(sorted_by_ncs_height(&graph), [0, 4, 2, 6, 1, 3, 5, 7]);
    }

    #[test]
    fn a_task_that_all_read_is_joined_last() {
        // 0 to 2 and 3 to 5 are joined in pairs, after 6 was joined to each of the first.
        let producers = [0, 1, 2, 6, 6, 6, 7, 8, 9, 3, 4, 5];
        let consumers = [7, 8, 9, 7, 8, 9, 10, 11, 12, 10, 11, 12];
        let graph = Graph::new(&Input::new(13, &producers, &consumers)).unwrap();
        let starts = starts_in_row(&graph);
        assert_eq!(starts, [0, 3, 6, 1, 4, 2, 5]);
    }

    #[test]
    fn heavy_edges_join_first() {
        // 0 has a common successor with 1, over few bytes, and a higher one with 2, over many bytes.
        let input = Input {
            bytes: Bytes::Edges(&[10, 10, 1000, 10, 1000]),
            ..Input::new(5, &[0, 1, 0, 3, 2], &[3, 3, 4, 4, 4])
        };
        assert_eq!(starts_in_row(&Graph::new(&input).unwrap()), [0, 2, 1]);
    }
}
