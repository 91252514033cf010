//! The nearest centre of each point.

use rayon::prelude::*;

use crate::columns::Rows;
use crate::kernel::{Lanes, TILE, for_this_processor, load, load_weights, squared_distances};
use crate::{Points, chunk_rows};

/// What [`assign`] has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assigned {
    /// The weighted sum of the points of each cluster, one cluster after another; empty if sums were not wanted.
    pub sums: Vec<f64>,
    /// The weight of each cluster; empty if sums were not wanted.
    pub weights: Vec<f64>,
    /// The weighted sum of the squared distances of the points from their nearest centres.
    pub inertia: f64,
    /// The number of points whose label changed.
    pub changed: usize,
}

impl Assigned {
    fn add(&mut self, other: &Assigned) {
        for (sum, more) in self.sums.iter_mut().zip(&other.sums) {
            *sum += more;
        }
        for (weight, more) in self.weights.iter_mut().zip(&other.weights) {
            *weight += more;
        }
        self.inertia += other.inertia;
        self.changed += other.changed;
    }
}

/// The rows of a chunk, and what is written for each of them.
struct Chunk<'a> {
    from: usize,
    labels: &'a mut [i32],
    /// Squared distances of the points from their nearest centres; empty if they are not wanted.
    distances: &'a mut [f64],
}

/// Label each point by its nearest centre; of centres at equal distance, the first one.
///
/// `centers` has the numbers of one centre after those of another. `labels` has the labels of an earlier pass, or any negative numbers.
/// `distances` receives the squared distances of the points, unless it is empty. `update` says whether sums and weights of clusters are
/// wanted.
///
/// # Panics
///
/// If the lengths do not fit together, or there is no centre.
pub fn assign(
    points: &Points<'_>,
    centers: &[f64],
    labels: &mut [i32],
    distances: &mut [f64],
    update: bool,
) -> Assigned {
    let (rows, dimensions) = (points.rows, points.dimensions());
    assert!(dimensions > 0 && !centers.is_empty() && centers.len() % dimensions == 0, "whole centres");
    assert!(centers.len() / dimensions <= i32::MAX as usize, "labels of 32 bits");
    assert!(labels.len() == rows && (distances.is_empty() || distances.len() == rows), "a place for each row");
    let clusters = if update { centers.len() / dimensions } else { 0 };
    let chunk = chunk_rows(dimensions);
    let mut places: Vec<&mut [f64]> = distances.chunks_mut(chunk).collect();
    places.resize_with(rows.div_ceil(chunk), Default::default);
    let parts: Vec<Assigned> = labels
        .par_chunks_mut(chunk)
        .zip(places)
        .enumerate()
        .map(|(number, (labels, distances))| {
            let mut part = Assigned {
                sums: vec![0.0; clusters * dimensions],
                weights: vec![0.0; clusters],
                ..Assigned::default()
            };
            assign_chunk(points, centers, Chunk { from: number * chunk, labels, distances }, &mut part);
            part
        })
        .collect();
    let mut parts = parts.into_iter();
    let mut whole = parts.next().unwrap_or_else(|| Assigned {
        sums: vec![0.0; clusters * dimensions],
        weights: vec![0.0; clusters],
        ..Assigned::default()
    });
    parts.for_each(|part| whole.add(&part));
    whole
}

for_this_processor! {
    fn assign_chunk(points: &Points<'_>, centers: &[f64], chunk: Chunk<'_>, part: &mut Assigned) -> () {
        let dimensions = points.dimensions();
        let matrix = Rows::of(points.columns);
        let mut tile = vec![[0.0; TILE]; dimensions];
        let mut inertia = [0.0; TILE];
        let end = chunk.from + chunk.labels.len();
        for from in (chunk.from..end).step_by(TILE) {
            let rows = load(points, from, end, &mut tile);
            let (nearest, labels) = nearest_centers(&tile, centers);
            let at = from - chunk.from;
            let written = &mut chunk.labels[at..at + rows];
            part.changed += written.iter().zip(&labels).filter(|(before, label)| before != label).count();
            written.copy_from_slice(&labels[..rows]);
            if !chunk.distances.is_empty() {
                chunk.distances[at..at + rows].copy_from_slice(&nearest[..rows]);
            }
            let weights = load_weights(points, from, rows);
            (0..TILE).for_each(|row| inertia[row] += nearest[row] * weights[row]);
            if part.weights.is_empty() {
                continue;
            }
            if let (Some(matrix), None) = (matrix, points.weights) {
                (0..rows).for_each(|row| add_row(matrix.row(from + row), labels[row] as usize, part));
                continue;
            }
            match (points.weights, rows) {
                (None, TILE) => add_points::<TILE>(&tile, &labels, part),
                _ => (0..rows).for_each(|row| add_point(&tile, row, labels[row] as usize, weights[row], part)),
            }
        }
        part.inertia = inertia.iter().sum();
    }
}

/// Add a point to its cluster.
#[inline(always)]
fn add_point(tile: &[Lanes], row: usize, label: usize, weight: f64, part: &mut Assigned) {
    part.weights[label] += weight;
    let sums = &mut part.sums[label * tile.len()..][..tile.len()];
    for (sum, lanes) in sums.iter_mut().zip(tile) {
        *sum += lanes[row] * weight;
    }
}

/// Add a point of weight 1, whose numbers are contiguous, to its cluster.
#[inline(always)]
fn add_row(point: &[f64], label: usize, part: &mut Assigned) {
    part.weights[label] += 1.0;
    let sums = &mut part.sums[label * point.len()..][..point.len()];
    let (mut wide, numbers) = (sums.chunks_exact_mut(4), point.chunks_exact(4));
    let last = numbers.remainder();
    for (sums, numbers) in wide.by_ref().zip(numbers) {
        (0..4).for_each(|at| sums[at] += numbers[at]);
    }
    wide.into_remainder().iter_mut().zip(last).for_each(|(sum, number)| *sum += number);
}

/// Add points of weight 1 to their clusters. The number of rows is known to the compiler.
#[inline(always)]
fn add_points<const ROWS: usize>(tile: &[Lanes], labels: &[i32; TILE], part: &mut Assigned) {
    for row in 0..ROWS {
        let label = labels[row] as usize;
        part.weights[label] += 1.0;
        let sums = &mut part.sums[label * tile.len()..][..tile.len()];
        for (sum, lanes) in sums.iter_mut().zip(tile) {
            *sum += lanes[row];
        }
    }
}

/// The squared distance from the nearest centre, and its number, for each point of a tile.
#[inline(always)]
fn nearest_centers(tile: &[Lanes], centers: &[f64]) -> (Lanes, [i32; TILE]) {
    let mut nearest = [f64::INFINITY; TILE];
    // Numbers of centres as floats, which are selected by the same masks as distances.
    let mut labels = [0.0; TILE];
    for (number, center) in centers.chunks_exact(tile.len()).enumerate() {
        let distances = squared_distances(tile, center);
        let number = number as f64;
        for at in 0..TILE {
            let nearer = distances[at] < nearest[at];
            nearest[at] = if nearer { distances[at] } else { nearest[at] };
            labels[at] = if nearer { number } else { labels[at] };
        }
    }
    // SAFETY: the numbers are those of centres, which are fewer than 2^31 (see `assign`).
    (nearest, labels.map(|label| unsafe { label.to_int_unchecked::<i32>() }))
}

/// Write the squared distance of each point from each centre, one point after another.
///
/// # Panics
///
/// If the lengths do not fit together, or there is no centre.
pub fn distances(points: &Points<'_>, centers: &[f64], out: &mut [f64]) {
    let dimensions = points.dimensions();
    assert!(dimensions > 0 && !centers.is_empty() && centers.len() % dimensions == 0, "whole centres");
    let clusters = centers.len() / dimensions;
    assert_eq!(out.len(), points.rows * clusters, "a place for each distance");
    let chunk = chunk_rows(dimensions);
    out.par_chunks_mut(chunk * clusters)
        .enumerate()
        .for_each(|(number, out)| distances_of_chunk(points, centers, number * chunk, out));
}

for_this_processor! {
    fn distances_of_chunk(points: &Points<'_>, centers: &[f64], start: usize, out: &mut [f64]) -> () {
        let clusters = centers.len() / points.dimensions();
        let mut tile = vec![[0.0; TILE]; points.dimensions()];
        let end = start + out.len() / clusters;
        for from in (start..end).step_by(TILE) {
            let rows = load(points, from, end, &mut tile);
            let out = &mut out[(from - start) * clusters..][..rows * clusters];
            for (number, center) in centers.chunks_exact(tile.len()).enumerate() {
                let found = squared_distances(&tile, center);
                for row in 0..rows {
                    out[row * clusters + number] = found[row];
                }
            }
        }
    }
}
