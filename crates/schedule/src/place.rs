//! Assigns each task to a band, given the tasks in a row: starting nodes in runs, the others to the bands of their input.
//!
//! The paper only says that tasks with the nearest common successors go to the same or nearby bands; the rules here are our own.
//!
//! *Starting nodes.* A node whose input is in a band already goes to that band, as long as the band has room. The others are cut into runs,
//! in the order of the row, so that each band gets its share of the weight. The weight of a node is its cost plus its part of the weights of
//! the tasks that follow up to the next exchange: a task's weight is divided among its producers in proportion to their bytes.
//!
//! *Tasks after an exchange* each read from many producers that have many consumers, so no band is better for their input than another. They
//! are cut into runs like starting nodes. Many means at least four. With fewer on one side, this applies if no band has more of the input than
//! any other by over a quarter of it.
//!
//! *Other tasks* are assigned by height, those of one height in the order of the row. A task goes to the band with most bytes of its input,
//! as long as that band has room, else to the next of the bands with some of it. With equal bytes, it goes to the band with the lowest cost
//! relative to its share so far, then to the one with the lowest number. Tasks that find no room are cut into runs together with those after
//! an exchange, in proportion to the room that is left at this height.
//!
//! *Room.* A band is full when it exceeds its share by a tenth, both of the costs of this height and of all costs; the task that crosses the
//! limit counts half. A band always has room for its first task of a height, so that a chain of tasks stays in one band.

use crate::bands::Bands;
use crate::cut::{SLACK, cut};
use crate::graph::Graph;
use crate::nearest::Row;

/// With at least this many tasks on both sides, the input of a task after an exchange comes from all bands, whatever the assignment.
const WIDE: usize = 4;

/// An input is even if no band has more of it than any other by over this fraction.
const EVEN: f64 = 0.25;

/// Not assigned yet.
const NOWHERE: u32 = u32::MAX;

/// Assign each task to a band.
pub fn place(graph: &Graph, bands: &Bands, row: &Row) -> Vec<u32> {
    let mut placing = Placing {
        graph,
        row,
        shares: bands.shares(),
        bands: vec![NOWHERE; graph.len()],
        total: graph.costs().iter().sum(),
        level_total: 0.0,
        loads: vec![0.0; bands.len()],
        level_loads: vec![0.0; bands.len()],
        weights: weights(graph),
    };
    let mut sorted = Vec::new();
    for (height, level) in graph.levels().enumerate() {
        sorted.clear();
        sorted.extend_from_slice(level);
        sorted.sort_unstable_by_key(|&task| row.places[task as usize]);
        if height == 0 { placing.place_starts(&sorted) } else { placing.place_level(&sorted) }
    }
    placing.bands
}

/// The breadth of the exchange before a task: the least of the numbers of its producers and of each producer's successors.
fn breadth(graph: &Graph, task: u32) -> usize {
    let producers = graph.producers(task);
    producers.iter().map(|&producer| graph.successors(producer).len()).fold(producers.len(), usize::min)
}

/// The weight of each task: its cost, and its part of the weights of the tasks that follow before the next exchange.
fn weights(graph: &Graph) -> Vec<f64> {
    let mut weights = graph.costs().to_vec();
    for &task in graph.topological().iter().rev() {
        if breadth(graph, task) >= WIDE {
            continue;
        }
        let (weight, total) = (weights[task as usize], input_bytes(graph, task));
        for (producer, bytes) in graph.inputs(task) {
            weights[producer as usize] += weight * part(bytes, total, graph.producers(task).len());
        }
    }
    weights
}

fn input_bytes(graph: &Graph, task: u32) -> u64 {
    graph.inputs(task).map(|(_, bytes)| bytes).sum()
}

/// A number as a fraction of the total of `count` numbers; an equal part if all are 0.
#[allow(clippy::cast_precision_loss)]
fn part(number: u64, total: u64, count: usize) -> f64 {
    if total > 0 { number as f64 / total as f64 } else { 1.0 / count as f64 }
}

struct Placing<'a> {
    graph: &'a Graph,
    row: &'a Row,
    shares: &'a [f64],
    bands: Vec<u32>,
    /// The total costs of all tasks, and of the tasks of this height.
    total: f64,
    level_total: f64,
    /// The costs assigned to each band, in total and at this height.
    loads: Vec<f64>,
    level_loads: Vec<f64>,
    weights: Vec<f64>,
}

impl Placing<'_> {
    fn give(&mut self, task: u32, band: usize) {
        let cost = self.graph.costs()[task as usize];
        self.bands[task as usize] = u32::try_from(band).unwrap_or(NOWHERE);
        self.loads[band] += cost;
        self.level_loads[band] += cost;
    }

    fn place_starts(&mut self, tasks: &[u32]) {
        let total: f64 = tasks.iter().map(|&task| self.weights[task as usize]).sum();
        let mut given = vec![0.0; self.shares.len()];
        let distances = self.row.distances(tasks);
        let preferred = self.preferred(tasks, &distances);
        let mut rest = Vec::with_capacity(tasks.len());
        for (&task, band) in tasks.iter().zip(preferred) {
            let weight = self.weights[task as usize];
            match band {
                Some(band) if given[band] + weight / 2.0 <= total * self.shares[band] * (1.0 + SLACK) => {
                    given[band] += weight;
                    self.give(task, band);
                }
                _ => rest.push(task),
            }
        }
        let room: Vec<f64> =
            self.shares.iter().zip(&given).map(|(share, given)| (total * share - given).max(0.0)).collect();
        self.give_runs(&rest, &room);
    }

    /// The band that each starting node prefers: the band of its input, or else that of its nearer neighbour in the row.
    fn preferred(&self, tasks: &[u32], distances: &[u32]) -> Vec<Option<usize>> {
        let mut preferred: Vec<Option<usize>> = tasks.iter().map(|&task| self.graph.preferred(task)).collect();
        let after = |place: usize| distances.get(place + 1).copied().unwrap_or(u32::MAX);
        for place in 1..tasks.len() {
            if distances[place] < after(place) {
                preferred[place] = preferred[place].or(preferred[place - 1]);
            }
        }
        for place in (1..tasks.len()).rev() {
            if after(place - 1) < distances[place - 1] {
                preferred[place - 1] = preferred[place - 1].or(preferred[place]);
            }
        }
        preferred
    }

    fn place_level(&mut self, tasks: &[u32]) {
        self.level_total = tasks.iter().map(|&task| self.graph.costs()[task as usize]).sum();
        self.level_loads.fill(0.0);
        let mut input = Input::new(self.shares.len());
        let mut rest = Vec::new();
        for &task in tasks {
            input.read(self.graph, &self.bands, task);
            let breadth = breadth(self.graph, task);
            let anywhere = breadth >= WIDE || (breadth > 1 && input.is_even());
            match if anywhere { None } else { self.most(task, &input) } {
                Some(band) => self.give(task, band),
                None => rest.push(task),
            }
        }
        let room = |(share, load): (&f64, &f64)| (self.level_total * share - load).max(0.0);
        let room: Vec<f64> = self.shares.iter().zip(&self.level_loads).map(room).collect();
        self.give_runs(&rest, &room);
    }

    /// Of the bands that have room, the one with most of the input.
    fn most(&self, task: u32, input: &Input) -> Option<usize> {
        let busy = |band: usize| self.loads[band] / self.shares[band];
        let better = |one: usize, other: usize| {
            let bytes = input.bytes[one].cmp(&input.bytes[other]);
            bytes.then_with(|| busy(other).total_cmp(&busy(one))).then_with(|| other.cmp(&one)).is_gt()
        };
        let open = input.bands.iter().copied().filter(|&band| !self.is_full(task, band));
        open.reduce(|best, band| if better(band, best) { band } else { best })
    }

    fn is_full(&self, task: u32, band: usize) -> bool {
        let (half, limit) = (self.graph.costs()[task as usize] / 2.0, self.shares[band] * (1.0 + SLACK));
        let (level, load) = (self.level_loads[band], self.loads[band]);
        level > 0.0 && level + half > self.level_total * limit && load + half > self.total * limit
    }

    /// Assign to each band a run of tasks in proportion to its room.
    fn give_runs(&mut self, tasks: &[u32], room: &[f64]) {
        let weights: Vec<f64> = tasks.iter().map(|&task| self.weights[task as usize]).collect();
        let mut start = 0;
        for (band, end) in cut(&weights, &self.row.distances(tasks), room).into_iter().enumerate() {
            for &task in &tasks[start..end] {
                self.give(task, band);
            }
            start = end;
        }
    }
}

/// The bands of a task's input.
struct Input {
    /// Bytes in each band; 0 except for `bands`.
    bytes: Vec<u64>,
    /// The bands of its producers, each once.
    bands: Vec<usize>,
    /// Whether a producer is in the band.
    known: Vec<bool>,
}

impl Input {
    fn new(bands: usize) -> Self {
        Self { bytes: vec![0; bands], bands: Vec::new(), known: vec![false; bands] }
    }

    fn read(&mut self, graph: &Graph, bands: &[u32], task: u32) {
        for band in self.bands.drain(..) {
            self.bytes[band] = 0;
            self.known[band] = false;
        }
        for (producer, bytes) in graph.inputs(task) {
            let band = bands[producer as usize] as usize;
            self.bytes[band] += bytes;
            if !std::mem::replace(&mut self.known[band], true) {
                self.bands.push(band);
            }
        }
    }

    /// Whether no band has much more of the input than another.
    #[allow(clippy::cast_precision_loss)]
    fn is_even(&self) -> bool {
        let bytes = || self.bands.iter().map(|&band| self.bytes[band]);
        let (most, total) = (bytes().max().unwrap_or(0), bytes().sum::<u64>());
        let least = if self.bands.len() < self.bytes.len() { 0 } else { bytes().min().unwrap_or(0) };
        (most - least) as f64 <= EVEN * total as f64
    }
}
