//! Invariants of every assignment, checked on pseudorandom graphs with fixed seeds.

use craton_schedule::{
    Assignment, Bands, Bytes, FAR, Graph, Input, POLICIES, assign, ncs_heights, policy, search, sorted_by_ncs_height,
};

/// A pseudorandom generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end.max(1) as u64) as usize
    }

    fn shuffled(&mut self, count: usize) -> Vec<i64> {
        let mut all: Vec<i64> = (0..count as i64).collect();
        for place in (1..count).rev() {
            all.swap(place, self.below(place + 1));
        }
        all
    }
}

#[derive(Default)]
struct Made {
    tasks: usize,
    producers: Vec<i64>,
    consumers: Vec<i64>,
    bytes: Vec<i64>,
    costs: Vec<f64>,
    preferred: Vec<i64>,
}

impl Made {
    /// A graph without cycles: edges lead from earlier to later tasks, whose numbers are then shuffled.
    fn up(numbers: &mut Numbers) -> Self {
        let tasks = 1 + numbers.below(40);
        let names = numbers.shuffled(tasks);
        let mut made = Self { tasks, ..Self::default() };
        for _ in 0..numbers.below(3 * tasks) {
            let (one, other) = (numbers.below(tasks), numbers.below(tasks));
            if one != other {
                made.producers.push(names[one.min(other)]);
                made.consumers.push(names[one.max(other)]);
                made.bytes.push(numbers.below(1000) as i64);
            }
        }
        made.costs = (0..tasks).map(|_| numbers.below(9) as f64).collect();
        made.preferred = (0..tasks as i64)
            .map(|task| if made.consumers.contains(&task) { -1 } else { numbers.below(3) as i64 - 1 })
            .collect();
        made
    }

    /// A forest in which every inner node has two producers.
    fn forest(numbers: &mut Numbers) -> Self {
        let leaves = 1 + numbers.below(24);
        let trees = 1 + numbers.below(3).min(leaves - 1);
        let mut made = Self { tasks: leaves, ..Self::default() };
        let mut tops = numbers.shuffled(leaves);
        while tops.len() > trees {
            for _ in 0..2 {
                made.producers.push(tops.swap_remove(numbers.below(tops.len())));
                made.consumers.push(made.tasks as i64);
            }
            tops.push(made.tasks as i64);
            made.tasks += 1;
        }
        made
    }

    fn graph(&self) -> Graph {
        let mut input = Input::new(self.tasks, &self.producers, &self.consumers);
        if !self.costs.is_empty() {
            input.bytes = Bytes::Edges(&self.bytes);
            input.costs = Some(&self.costs);
            input.preferred = Some(&self.preferred);
        }
        Graph::new(&input).unwrap()
    }
}

fn capacities(numbers: &mut Numbers) -> Vec<f64> {
    (0..2 + numbers.below(4)).map(|_| 1.0 + numbers.below(3) as f64).collect()
}

fn by_name(name: &str, graph: &Graph, capacities: &[f64]) -> Assignment {
    assign(graph, &Bands::new(capacities).unwrap(), policy(name, 7).unwrap().as_ref()).unwrap()
}

#[test]
fn every_task_has_a_band_and_comes_after_its_producers() {
    let mut numbers = Numbers(1);
    for _ in 0..300 {
        let graph = Made::up(&mut numbers).graph();
        let capacities = capacities(&mut numbers);
        for name in POLICIES {
            let found = by_name(name, &graph, &capacities);
            assert_eq!(found, by_name(name, &graph, &capacities), "{name} is not deterministic");
            assert_eq!(found.bands.len(), graph.len());
            let mut all = found.output.clone();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..graph.len() as u32), "{name}: {:?}", found.output);
            // Bands that follow their orders finish without a deadlock.
            let mut next = vec![0; capacities.len()];
            let mut done = vec![false; graph.len()];
            let mut count = 0;
            loop {
                let before = count;
                for (band, next) in next.iter_mut().enumerate() {
                    while let Some(&task) = found.of_band(band).get(*next) {
                        assert_eq!(found.bands[task as usize] as usize, band);
                        if !graph.producers(task).iter().all(|&producer| done[producer as usize]) {
                            break;
                        }
                        done[task as usize] = true;
                        (*next, count) = (*next + 1, count + 1);
                    }
                }
                if count == before {
                    break;
                }
            }
            assert_eq!(count, graph.len(), "{name}: bands wait for each other");
        }
    }
}

/// A literal implementation of Algorithm 1, with sets of successors.
fn literal_algorithm_1(graph: &Graph) -> Vec<u32> {
    let count = graph.len();
    let mut all: Vec<Vec<bool>> = vec![vec![false; count]; count];
    for &task in graph.topological().iter().rev() {
        for &successor in graph.successors(task) {
            all[task as usize][successor as usize] = true;
            let further = all[successor as usize].clone();
            for (reached, further) in all[task as usize].iter_mut().zip(further) {
                *reached |= further;
            }
        }
    }
    let height = |one: u32, other: u32| {
        let common = (0..count).filter(|&task| all[one as usize][task] && all[other as usize][task]);
        common.map(|task| graph.heights()[task]).min().unwrap_or(FAR)
    };
    let mut sq: Vec<u32> = (0..count as u32).filter(|&task| graph.producers(task).is_empty()).collect();
    let first = sq.remove(0);
    for &other in &sq {
        assert_eq!(ncs_heights(graph, first)[other as usize], height(first, other));
    }
    sq.sort_by_key(|&other| height(first, other));
    sq.insert(0, first);
    let mut visited = vec![false; count];
    visited[sq[0] as usize] = true;
    let (mut queue, mut output) = (vec![sq.remove(0)], Vec::new());
    while !queue.is_empty() {
        let task = queue.remove(0);
        output.push(task);
        for &successor in graph.successors(task) {
            if !visited[successor as usize] {
                visited[successor as usize] = true;
                queue.push(successor);
            }
        }
        if queue.is_empty() && !sq.is_empty() {
            queue.push(sq.remove(0));
        }
    }
    output
}

#[test]
fn the_papers_algorithm_to_the_letter() {
    let mut numbers = Numbers(2);
    for _ in 0..300 {
        let graph = Made::up(&mut numbers).graph();
        let expected = literal_algorithm_1(&graph);
        assert_eq!(search(&graph, &sorted_by_ncs_height(&graph)), expected);
        assert_eq!(by_name("algorithm-1", &graph, &[1.0, 1.0]).output, expected);
    }
}

#[test]
fn in_trees_each_node_is_beside_its_nearest() {
    let mut numbers = Numbers(3);
    for _ in 0..300 {
        let graph = Made::forest(&mut numbers).graph();
        let output = by_name("ncs", &graph, &[1.0, 1.0]).output;
        let starts: Vec<u32> = output.into_iter().filter(|&task| graph.producers(task).is_empty()).collect();
        // After any node, the nodes come by ascending distance from it, as Algorithm 1 sorts them for the first node.
        for (place, &first) in starts.iter().enumerate() {
            let heights = ncs_heights(&graph, first);
            let behind: Vec<u32> = starts[place + 1..].iter().map(|&start| heights[start as usize]).collect();
            assert!(behind.is_sorted(), "{starts:?} behind {first}: {behind:?}");
        }
        assert_eq!(starts[0], 0);
    }
}

#[test]
fn bands_get_their_shares_of_many_small_tasks() {
    let mut numbers = Numbers(4);
    for _ in 0..20 {
        // Tiles, a filter for each, joins of pairs, and one gather.
        let tiles = 400 + 2 * numbers.below(200) as i64;
        let mut made = Made { tasks: (2 * tiles + tiles / 2 + 1) as usize, ..Made::default() };
        for tile in 0..tiles {
            made.producers.extend([tile, tiles + tile]);
            made.consumers.extend([tiles + tile, 2 * tiles + tile % (tiles / 2)]);
        }
        for join in 0..tiles / 2 {
            made.producers.push(2 * tiles + join);
            made.consumers.push(2 * tiles + tiles / 2);
        }
        let graph = made.graph();
        let capacities = capacities(&mut numbers);
        let total: f64 = capacities.iter().sum();
        for name in ["ncs", "algorithm-1", "bfs", "round-robin"] {
            let found = by_name(name, &graph, &capacities);
            for (band, capacity) in capacities.iter().enumerate() {
                let (given, share) = (found.of_band(band).len() as f64, made.tasks as f64 * capacity / total);
                assert!(given <= 1.1 * share + 3.0 && given >= 0.8 * share - 3.0, "{name}: {given} of {share}");
            }
        }
    }
}

#[test]
fn one_band_gets_all() {
    let mut numbers = Numbers(5);
    for _ in 0..50 {
        let mut made = Made::up(&mut numbers);
        made.preferred.fill(-1);
        for name in POLICIES {
            assert_eq!(made.graph().moved_bytes(&by_name(name, &made.graph(), &[3.0]).bands), 0);
        }
    }
}
