//! The errors of graphs, bands and policies.

/// The error of this crate.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// More tasks, edges or bands than are supported.
    #[error("{given} {what} were given; there can be at most {most}")]
    TooMany {
        /// Tasks, edges or bands.
        what: &'static str,
        /// How many were given.
        given: usize,
        /// How many there can be.
        most: usize,
    },
    /// An array has the wrong length.
    #[error("{what} has {given} items, expected {expected}: one for each {each}")]
    Length {
        /// The array.
        what: &'static str,
        /// Its items.
        given: usize,
        /// The items that it should have.
        expected: usize,
        /// The kind of element that has one item each, such as a task.
        each: &'static str,
    },
    /// An edge names a task that does not exist.
    #[error("edge {edge} has the {end} {given}, but the {tasks} tasks are numbered from 0")]
    Task {
        /// The edge's number.
        edge: usize,
        /// Producer or consumer.
        end: &'static str,
        /// The given value.
        given: i64,
        /// How many tasks there are.
        tasks: usize,
    },
    /// Bytes below zero.
    #[error("{of} {number} has {given} bytes, expected 0 or more")]
    Bytes {
        /// Edge, or output of task.
        of: &'static str,
        /// Its number.
        number: usize,
        /// The given value.
        given: i64,
    },
    /// The edges' bytes cannot be added.
    #[error("the bytes of all edges add up to more than 2**63 - 1")]
    TotalBytes,
    /// A cost that is negative or not finite.
    #[error("task {task} has the cost {given}, expected a finite number that is 0 or more")]
    Cost {
        /// The task.
        task: usize,
        /// The given value.
        given: f64,
    },
    /// The costs cannot be added.
    #[error("the costs of all tasks add up to more than a floating-point number holds")]
    TotalCost,
    /// A preferred band of a task that has producers.
    #[error(
        "task {task} has the preferred band {given}, but it has producers: only a task without any can prefer one, -1 means none"
    )]
    NotASource {
        /// The task.
        task: usize,
        /// The given value.
        given: i64,
    },
    /// A preferred band that does not exist.
    #[error("task {task} has the preferred band {given}, but the {bands} bands are numbered from 0; -1 means none")]
    Preferred {
        /// The task.
        task: usize,
        /// The given value.
        given: i64,
        /// How many bands there are.
        bands: usize,
    },
    /// Tasks that depend on each other.
    #[error("the graph has a cycle of {} tasks: {}", .tasks.len(), path(.tasks))]
    Cycle {
        /// In the order of the edges, beginning with the least.
        tasks: Vec<u32>,
    },
    /// No bands.
    #[error("no bands were given; at least one is needed")]
    NoBands,
    /// A capacity that is not a finite number greater than 0.
    #[error("band {band} has the capacity {given}, expected a finite number greater than 0")]
    Capacity {
        /// The band.
        band: usize,
        /// The given value.
        given: f64,
    },
    /// A policy that does not exist.
    #[error("no policy is named {given:?}; there are {}", crate::POLICIES.join(", "))]
    Policy {
        /// The given value.
        given: String,
    },
    /// A policy returned an invalid placement.
    #[error("the policy {policy}: {why}")]
    Broken {
        /// Its name.
        policy: &'static str,
        /// The reason why it is invalid.
        why: String,
    },
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Tasks of a cycle that a message names.
const NAMED: usize = 10;

fn path(tasks: &[u32]) -> String {
    let mut text: Vec<String> = tasks.iter().take(NAMED).map(u32::to_string).collect();
    if tasks.len() > NAMED {
        text.push("…".into());
    }
    text.extend(tasks.first().map(u32::to_string));
    text.join(" → ")
}
