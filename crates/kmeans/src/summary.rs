//! Sums of columns, and of their squared deviations.

use rayon::prelude::*;

use crate::kernel::{Lanes, TILE, for_this_processor, load};
use crate::{Points, chunk_rows};

/// The sum of each column, and the sum of the squared deviations from its mean; weights do not matter.
///
/// All numbers are finite if both are; the reverse is not true of numbers whose sums overflow.
///
/// # Panics
///
/// If there are no rows.
pub fn summary(points: &Points<'_>) -> (Vec<f64>, Vec<f64>) {
    assert!(points.rows > 0, "rows to summarize");
    let chunk = chunk_rows(points.dimensions());
    let parts: Vec<(f64, Vec<f64>, Vec<f64>)> = (0..points.rows.div_ceil(chunk))
        .into_par_iter()
        .map(|number| {
            let (start, end) = (number * chunk, points.rows.min((number + 1) * chunk));
            let (sums, squares) = summary_of_chunk(points, start, end);
            ((end - start) as f64, sums, squares)
        })
        .collect();
    let mut parts = parts.into_iter();
    let (mut rows, mut sums, mut squares) = parts.next().expect("a block has a chunk");
    for (more, other, other_squares) in parts {
        for column in 0..sums.len() {
            // Chan, Golub and LeVeque, 1979.
            let apart = other[column] / more - sums[column] / rows;
            squares[column] += other_squares[column] + apart * apart * (rows * more / (rows + more));
            sums[column] += other[column];
        }
        rows += more;
    }
    (sums, squares)
}

/// The sum of the lanes, always in the same order.
#[inline(always)]
fn across(lanes: &Lanes) -> f64 {
    lanes.iter().sum()
}

for_this_processor! {
    fn summary_of_chunk(points: &Points<'_>, start: usize, end: usize) -> (Vec<f64>, Vec<f64>) {
        let dimensions = points.dimensions();
        let mut tile = vec![[0.0; TILE]; dimensions];
        let mut sums = vec![[0.0; TILE]; dimensions];
        for from in (start..end).step_by(TILE) {
            let rows = load(points, from, end, &mut tile);
            for (sum, lanes) in sums.iter_mut().zip(&tile) {
                if rows == TILE {
                    (0..TILE).for_each(|at| sum[at] += lanes[at]);
                } else {
                    (0..rows).for_each(|at| sum[at] += lanes[at]);
                }
            }
        }
        let sums: Vec<f64> = sums.iter().map(across).collect();
        let means: Vec<f64> = sums.iter().map(|sum| sum / (end - start) as f64).collect();
        let mut squares = vec![[0.0; TILE]; dimensions];
        for from in (start..end).step_by(TILE) {
            let rows = load(points, from, end, &mut tile);
            for ((square, lanes), mean) in squares.iter_mut().zip(&tile).zip(&means) {
                for at in 0..rows {
                    let difference = lanes[at] - mean;
                    square[at] += difference * difference;
                }
            }
        }
        (sums, squares.iter().map(across).collect())
    }
}
