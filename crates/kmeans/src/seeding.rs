//! A step of k-means++ (Arthur and Vassilvitskii, 2007, with several candidates a step).

use rayon::prelude::*;

use crate::kernel::{TILE, for_this_processor, load, load_weights, squared_distances};
use crate::{Points, chunk_rows};

/// Take the centre chosen last into account, and return the potentials: of the centres so far, then with each candidate beside them.
///
/// The potential of centres is the weighted sum of the squared distances of the points from the nearest of them. `closest` has the squared
/// distance of each point from the nearest centre before `chosen`; it is lowered to that from `chosen`. `candidates` has the numbers of one
/// candidate after those of another.
///
/// # Panics
///
/// If the lengths do not fit together.
pub fn potentials(points: &Points<'_>, chosen: &[f64], candidates: &[f64], closest: &mut [f64]) -> Vec<f64> {
    let dimensions = points.dimensions();
    assert!(dimensions > 0 && chosen.len() == dimensions && candidates.len() % dimensions == 0, "whole centres");
    assert_eq!(closest.len(), points.rows, "a place for each row");
    let chunk = chunk_rows(dimensions);
    let parts: Vec<Vec<f64>> = closest
        .par_chunks_mut(chunk)
        .enumerate()
        .map(|(number, closest)| potentials_of_chunk(points, chosen, candidates, number * chunk, closest))
        .collect();
    let mut sums = vec![0.0; 1 + candidates.len() / dimensions];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, more)| *sum += more);
    }
    sums
}

for_this_processor! {
    fn potentials_of_chunk(
        points: &Points<'_>,
        chosen: &[f64],
        candidates: &[f64],
        start: usize,
        closest: &mut [f64],
    ) -> Vec<f64> {
        let mut tile = vec![[0.0; TILE]; points.dimensions()];
        let mut sums = vec![[0.0; TILE]; 1 + candidates.len() / tile.len()];
        let end = start + closest.len();
        for from in (start..end).step_by(TILE) {
            let rows = load(points, from, end, &mut tile);
            let weights = load_weights(points, from, rows);
            let closest = &mut closest[from - start..][..rows];
            let mut nearest = [0.0; TILE];
            nearest[..rows].copy_from_slice(closest);
            let found = squared_distances(&tile, chosen);
            for row in 0..TILE {
                nearest[row] = nearest[row].min(found[row]);
                sums[0][row] += nearest[row] * weights[row];
            }
            closest.copy_from_slice(&nearest[..rows]);
            for (candidate, sum) in candidates.chunks_exact(tile.len()).zip(&mut sums[1..]) {
                let found = squared_distances(&tile, candidate);
                (0..TILE).for_each(|row| sum[row] += nearest[row].min(found[row]) * weights[row]);
            }
        }
        sums.iter().map(|lanes| lanes.iter().sum()).collect()
    }
}
