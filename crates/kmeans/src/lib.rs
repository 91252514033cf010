//! One pass of k-means over a block of points: squared distances, nearest centres, and the sums that new centres are made of.
//!
//! Points are given as columns, which may be strided, so that rows of a matrix and columns of a table are read without a copy. A
//! block is divided into chunks of [`chunk_rows`] rows, which rayon's threads take; results of chunks are added in the order of their
//! rows. Distances are sums of squared differences, in the order of the columns, and each square is added with one rounding, by an
//! instruction or, on old processors, by a function. A result is therefore a function of the numbers alone: neither the number of
//! threads nor the processor changes a bit of it.
//!
//! - [`assign`] finds the nearest centre of each point, and the sums and weights of each cluster;
//! - [`potentials`] is a step of k-means++;
//! - [`distances`] gives all distances of all points;
//! - [`summary`] gives the sums of columns, and of their squared deviations.

mod assign;
mod columns;
mod kernel;
mod seeding;
mod summary;

pub use assign::{Assigned, assign, distances};
pub use columns::Column;
pub use seeding::potentials;
pub use summary::summary;

/// The rows that one task of a thread pool works on; fewer of many columns, so that a block has enough chunks for all threads.
pub fn chunk_rows(dimensions: usize) -> usize {
    let mut rows = 1 << 13;
    while rows > 1 << 8 && rows * dimensions > 1 << 18 {
        rows /= 2;
    }
    rows
}

/// The points of a block: columns of equal length, and a weight for each row.
#[derive(Clone, Copy, Debug)]
pub struct Points<'a> {
    /// The columns.
    pub columns: &'a [Column<'a>],
    /// The weights; every point has the weight 1 if there are none.
    pub weights: Option<&'a [f64]>,
    /// The number of rows.
    pub rows: usize,
}

impl<'a> Points<'a> {
    /// Points whose columns, and weights, have this many rows.
    ///
    /// # Panics
    ///
    /// If a column, or the weights, has another length.
    pub fn new(columns: &'a [Column<'a>], weights: Option<&'a [f64]>, rows: usize) -> Self {
        assert!(columns.iter().all(|column| column.len() == rows), "columns of equal length");
        assert!(weights.is_none_or(|weights| weights.len() == rows), "a weight for each row");
        Points { columns, weights, rows }
    }

    /// The number of columns.
    pub fn dimensions(&self) -> usize {
        self.columns.len()
    }
}

#[cfg(test)]
mod tests;
