//! A validated task graph: its edges with their bytes, and the height of each task above the starting nodes.

use crate::error::{Error, Result};
use crate::groups::grouped;

/// The number that means that a task prefers no band.
const NONE: i64 = -1;

/// The bytes that the edges transfer.
#[derive(Clone, Copy, Debug)]
pub enum Bytes<'a> {
    /// Unknown: every edge transfers one byte, so that edges are counted.
    Unknown,
    /// A number for each edge.
    Edges(&'a [i64]),
    /// A number for each task: the bytes of its output, which each of its edges transfers in full.
    Outputs(&'a [i64]),
}

/// The arrays that a graph is made from. Numbers are signed, so that errors can name invalid ones.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// How many tasks there are.
    pub tasks: usize,
    /// The producer of each edge. The order of the edges is the order of a task's successors.
    pub producers: &'a [i64],
    /// The consumer of each edge. Several edges between the same two tasks are distinct.
    pub consumers: &'a [i64],
    /// The bytes transferred along the edges.
    pub bytes: Bytes<'a>,
    /// How long each task takes, in any unit; 1 if nothing is given.
    pub costs: Option<&'a [f64]>,
    /// For each task the band that its input is in already, or -1. Only starting nodes may have one.
    pub preferred: Option<&'a [i64]>,
}

impl<'a> Input<'a> {
    /// A graph with edges only, without bytes, costs and preferred bands.
    #[must_use]
    pub fn new(tasks: usize, producers: &'a [i64], consumers: &'a [i64]) -> Self {
        Self { tasks, producers, consumers, bytes: Bytes::Unknown, costs: None, preferred: None }
    }
}

/// An adjacency list: for each task, the other ends of its incoming or of its outgoing edges, with the bytes of each edge.
#[derive(Debug)]
struct Ends {
    /// Where each task's edges start; one more entry than tasks.
    starts: Vec<u32>,
    tasks: Vec<u32>,
    bytes: Vec<u64>,
}

impl Ends {
    /// Index the edges by their end in `of`; the other end of each is in `to`. Each task's edges keep their order.
    fn new(tasks: usize, of: &[u32], to: &[u32], bytes: &[u64]) -> Self {
        let ends = of.iter().copied().zip(to.iter().copied().zip(bytes.iter().copied()));
        let (found, starts) = grouped(ends, tasks);
        let (tasks, bytes) = found.into_iter().unzip();
        Self { starts, tasks, bytes }
    }

    fn range(&self, task: u32) -> std::ops::Range<usize> {
        self.starts[task as usize] as usize..self.starts[task as usize + 1] as usize
    }
}

/// A directed acyclic graph of tasks.
#[derive(Debug)]
pub struct Graph {
    tasks: usize,
    inputs: Ends,
    outputs: Ends,
    costs: Vec<f64>,
    preferred: Vec<i64>,
    heights: Vec<u32>,
    /// All tasks by ascending height, those of one height by their numbers.
    levels: Vec<u32>,
    /// Where each height's tasks start; one more entry than heights.
    level_starts: Vec<u32>,
}

impl Graph {
    /// The most tasks, and the most edges.
    pub const MOST: usize = i32::MAX as usize;

    /// Validate a graph, and compute the heights of its tasks.
    ///
    /// # Errors
    ///
    /// Arrays of wrong lengths, tasks that do not exist, negative bytes or costs, a preferred band of a task with producers, or a cycle. The
    /// error names the place.
    pub fn new(input: &Input<'_>) -> Result<Self> {
        let tasks = input.tasks;
        few_enough("tasks", tasks)?;
        few_enough("edges", input.producers.len())?;
        if input.producers.len() != input.consumers.len() {
            let (given, expected) = (input.consumers.len(), input.producers.len());
            return Err(Error::Length { what: "consumers", given, expected, each: "edge's producer" });
        }
        let producers = ends("producer", input.producers, tasks)?;
        let consumers = ends("consumer", input.consumers, tasks)?;
        let bytes = bytes_of(input, &producers)?;
        let costs = costs_of(input)?;
        let inputs = Ends::new(tasks, &consumers, &producers, &bytes);
        let outputs = Ends::new(tasks, &producers, &consumers, &bytes);
        let preferred = preferred_of(input, &inputs)?;
        let heights = heights(tasks, &inputs, &outputs)?;
        let (levels, level_starts) = levels(&heights);
        Ok(Self { tasks, inputs, outputs, costs, preferred, heights, levels, level_starts })
    }

    /// How many tasks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks
    }

    /// Whether there is no task.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks == 0
    }

    /// The number of edges.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.inputs.tasks.len()
    }

    /// The producers of a task, in the order of the edges.
    #[must_use]
    pub fn producers(&self, task: u32) -> &[u32] {
        &self.inputs.tasks[self.inputs.range(task)]
    }

    /// The successors of a task, in the order of the edges.
    #[must_use]
    pub fn successors(&self, task: u32) -> &[u32] {
        &self.outputs.tasks[self.outputs.range(task)]
    }

    /// The producers of a task, and the bytes that come from each.
    pub fn inputs(&self, task: u32) -> impl ExactSizeIterator<Item = (u32, u64)> + '_ {
        let range = self.inputs.range(task);
        self.inputs.tasks[range.clone()].iter().copied().zip(self.inputs.bytes[range].iter().copied())
    }

    /// The cost of each task.
    #[must_use]
    pub fn costs(&self) -> &[f64] {
        &self.costs
    }

    /// The band of a task's input; `None` if that is not known. [`Graph::check_preferred`] checks that the band exists.
    #[must_use]
    pub fn preferred(&self, task: u32) -> Option<usize> {
        self.preferred.get(task as usize).and_then(|&band| usize::try_from(band).ok())
    }

    /// Check that all preferred bands are below `bands`.
    ///
    /// # Errors
    ///
    /// [`Error::Preferred`] names the first such task.
    pub fn check_preferred(&self, bands: usize) -> Result<()> {
        let wrong = |band: &i64| *band != NONE && usize::try_from(*band).map_or(true, |band| band >= bands);
        match self.preferred.iter().position(wrong) {
            Some(task) => Err(Error::Preferred { task, given: self.preferred[task], bands }),
            None => Ok(()),
        }
    }

    /// The height of each task: the number of edges of the longest path to it from a starting node, which has the height 0.
    #[must_use]
    pub fn heights(&self) -> &[u32] {
        &self.heights
    }

    /// The tasks of each height, ascending; those of one height by their numbers.
    pub fn levels(&self) -> impl DoubleEndedIterator<Item = &[u32]> {
        self.level_starts.windows(2).map(|pair| &self.levels[pair[0] as usize..pair[1] as usize])
    }

    /// All tasks, each after its producers: by height, those of one height by their numbers.
    #[must_use]
    pub fn topological(&self) -> &[u32] {
        &self.levels
    }

    /// The starting nodes, which have no predecessors, by their numbers.
    #[must_use]
    pub fn starts(&self) -> &[u32] {
        self.levels().next().unwrap_or_default()
    }

    /// The total bytes of the edges whose producer and consumer are in different bands.
    ///
    /// # Panics
    ///
    /// If there is not a band for each task.
    #[must_use]
    pub fn moved_bytes(&self, bands: &[u32]) -> u64 {
        assert_eq!(bands.len(), self.tasks, "bands must have one entry for each task");
        let moved = |task: u32| -> u64 {
            let here = bands[task as usize];
            self.inputs(task).filter(|(producer, _)| bands[*producer as usize] != here).map(|(_, bytes)| bytes).sum()
        };
        (0..).take(self.tasks).map(moved).sum()
    }
}

fn few_enough(what: &'static str, given: usize) -> Result<()> {
    if given > Graph::MOST { Err(Error::TooMany { what, given, most: Graph::MOST }) } else { Ok(()) }
}

fn as_long(what: &'static str, given: usize, expected: usize, each: &'static str) -> Result<()> {
    if given == expected { Ok(()) } else { Err(Error::Length { what, given, expected, each }) }
}

fn ends(end: &'static str, given: &[i64], tasks: usize) -> Result<Vec<u32>> {
    let of = |(edge, &given): (usize, &i64)| match u32::try_from(given) {
        Ok(task) if (task as usize) < tasks => Ok(task),
        _ => Err(Error::Task { edge, end, given, tasks }),
    };
    given.iter().enumerate().map(of).collect()
}

fn bytes_of(input: &Input<'_>, producers: &[u32]) -> Result<Vec<u64>> {
    let counted = |of, given: &[i64]| -> Result<Vec<u64>> {
        let bytes = |(number, &given)| u64::try_from(given).map_err(|_| Error::Bytes { of, number, given });
        given.iter().enumerate().map(bytes).collect()
    };
    let bytes = match input.bytes {
        Bytes::Unknown => vec![1; producers.len()],
        Bytes::Edges(given) => {
            as_long("bytes of edges", given.len(), producers.len(), "edge")?;
            counted("edge", given)?
        }
        Bytes::Outputs(given) => {
            as_long("bytes of outputs", given.len(), input.tasks, "task")?;
            let outputs = counted("the output of task", given)?;
            producers.iter().map(|&producer| outputs[producer as usize]).collect()
        }
    };
    let total = bytes.iter().try_fold(0_u64, |total, &bytes| total.checked_add(bytes));
    if total.is_none_or(|total| i64::try_from(total).is_err()) {
        return Err(Error::TotalBytes);
    }
    Ok(bytes)
}

fn costs_of(input: &Input<'_>) -> Result<Vec<f64>> {
    let Some(costs) = input.costs else { return Ok(vec![1.0; input.tasks]) };
    as_long("costs", costs.len(), input.tasks, "task")?;
    if let Some(task) = costs.iter().position(|cost| !cost.is_finite() || *cost < 0.0) {
        return Err(Error::Cost { task, given: costs[task] });
    }
    if costs.iter().sum::<f64>().is_finite() { Ok(costs.to_vec()) } else { Err(Error::TotalCost) }
}

fn preferred_of(input: &Input<'_>, inputs: &Ends) -> Result<Vec<i64>> {
    let Some(preferred) = input.preferred else { return Ok(Vec::new()) };
    as_long("preferred bands", preferred.len(), input.tasks, "task")?;
    let wrong = (0..).zip(preferred).find(|&(task, &band)| band != NONE && !inputs.range(task).is_empty());
    match wrong {
        Some((task, &given)) => Err(Error::NotASource { task: task as usize, given }),
        None => Ok(preferred.to_vec()),
    }
}

/// The length of the longest path to each task.
fn heights(tasks: usize, inputs: &Ends, outputs: &Ends) -> Result<Vec<u32>> {
    let mut heights = vec![0_u32; tasks];
    let mut missing: Vec<u32> = inputs.starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut ready: Vec<u32> = (0..).zip(&missing).filter(|(_, missing)| **missing == 0).map(|(task, _)| task).collect();
    let mut next = 0;
    while let Some(&task) = ready.get(next) {
        next += 1;
        let above = heights[task as usize] + 1;
        for &successor in &outputs.tasks[outputs.range(task)] {
            let successor = successor as usize;
            heights[successor] = heights[successor].max(above);
            missing[successor] -= 1;
            if missing[successor] == 0 {
                ready.push(u32::try_from(successor).unwrap_or(u32::MAX));
            }
        }
    }
    if ready.len() == tasks { Ok(heights) } else { Err(Error::Cycle { tasks: cycle(inputs, &missing) }) }
}

/// A cycle among the tasks whose producers could not all be ordered.
fn cycle(inputs: &Ends, missing: &[u32]) -> Vec<u32> {
    let waits = |task: u32| missing[task as usize] > 0;
    let mut seen = vec![false; missing.len()];
    let mut way = Vec::new();
    let mut task = (0..).zip(missing).find(|(_, missing)| **missing > 0).map_or(0, |(task, _)| task);
    // Every such task has such a producer, so following producers must reach a task a second time.
    while !std::mem::replace(&mut seen[task as usize], true) {
        way.push(task);
        let producers = &inputs.tasks[inputs.range(task)];
        task = producers.iter().copied().find(|&producer| waits(producer)).unwrap_or(task);
    }
    let mut tasks: Vec<u32> = way.into_iter().skip_while(|&one| one != task).collect();
    tasks.reverse();
    let least = (0..tasks.len()).min_by_key(|&place| tasks[place]).unwrap_or(0);
    tasks.rotate_left(least);
    tasks
}

/// Tasks sorted by height, and the start of each height.
fn levels(heights: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let count = heights.iter().max().map_or(0, |most| *most as usize + 1);
    grouped(heights.iter().copied().zip(0..), count)
}
