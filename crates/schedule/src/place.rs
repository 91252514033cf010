//! Which band each task runs in, after tasks were put in a row: starting nodes in runs, the others where their input lies.
//!
//! The paper assigns tasks with the nearest common successors to the same or nearby bands, and says no more; the rules here are ours.
//!
//! *Starting nodes.* One whose input lies in a band already goes there, as long as the band has room. The others are cut into runs, in the
//! order of the row, so that bands get their shares of the weight. A node weighs its cost and its part of what follows from it up to the
//! next exchange: the weight of each task is divided among its producers by the bytes that come from each.
//!
//! *Tasks after an exchange*, each of which reads from many that are read by many, have no place by their input: they are cut into runs
//! like starting nodes. Many are four; where fewer are on one side, it is so if no band has a quarter of the input more than any other.
//!
//! *Other tasks*, by height, those of one height in the order of the row. A task goes to the band where most bytes of its input lie, as
//! long as the band has room; else to the next of those where some lie. Equal bytes: the band with the least cost for its share so far; then
//! the one with the lowest number. What finds no room is cut into runs with those after an exchange, for the room that is left at the
//! height.
//!
//! *Room.* A band is full when it has its share, and a tenth of it, both of the costs of this height and of all costs; the task that crosses
//! the limit counts half. The first task of a height is always taken: a chain of tasks stays where it is.

use crate::bands::Bands;
use crate::cut::{SLACK, cut};
use crate::graph::Graph;
use crate::nearest::Row;

/// From so many tasks on both sides on, an exchange sends what one task reads to all bands, whatever the assignment.
const WIDE: usize = 4;

/// An input is even if no band has more than this part of it more than any other.
const EVEN: f64 = 0.25;

/// Not assigned yet.
const NOWHERE: u32 = u32::MAX;

/// The band of each task.
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

/// How many there are, at least, on both sides of the exchange that a task reads: its producers, and the successors of each of these.
fn breadth(graph: &Graph, task: u32) -> usize {
    let producers = graph.producers(task);
    producers.iter().map(|&producer| graph.successors(producer).len()).fold(producers.len(), usize::min)
}

/// The cost of each task, and its part of what follows from it before the next exchange.
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

/// One of several numbers as a part of all of them, which are equal if all are 0.
#[allow(clippy::cast_precision_loss)]
fn part(number: u64, total: u64, count: usize) -> f64 {
    if total > 0 { number as f64 / total as f64 } else { 1.0 / count as f64 }
}

struct Placing<'a> {
    graph: &'a Graph,
    row: &'a Row,
    shares: &'a [f64],
    bands: Vec<u32>,
    /// The costs of all tasks, and of those of this height.
    total: f64,
    level_total: f64,
    /// The costs that each band was given, and of those the ones of this height.
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

    /// The band that each starting node prefers: where its input lies, or else what the nearer of its neighbours prefers.
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

    /// The band that has most of the input, of those that have room.
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

    /// Give each band a run of tasks in proportion to its room.
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

/// In which bands the input of a task lies.
struct Input {
    /// Bytes a band; 0 but for `bands`.
    bytes: Vec<u64>,
    /// Those in which a producer is, each once.
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

    /// Whether no band has much more of it than another.
    #[allow(clippy::cast_precision_loss)]
    fn is_even(&self) -> bool {
        let bytes = || self.bands.iter().map(|&band| self.bytes[band]);
        let (most, total) = (bytes().max().unwrap_or(0), bytes().sum::<u64>());
        let least = if self.bands.len() < self.bytes.len() { 0 } else { bytes().min().unwrap_or(0) };
        (most - least) as f64 <= EVEN * total as f64
    }
}
