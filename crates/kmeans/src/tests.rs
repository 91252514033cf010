//! Results against plain loops.

use crate::{Column, Points, assign, distances, potentials, summary};

/// The rows of a chunk of few columns.
const CHUNK: usize = 1 << 13;

/// Numbers that look random, and are the same in each run.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        })
        .collect()
}

fn columns(rows: usize, dimensions: usize) -> Vec<Vec<f64>> {
    (0..dimensions).map(|column| numbers(rows, column as u64 + 1)).collect()
}

fn squared(columns: &[Vec<f64>], row: usize, center: &[f64]) -> f64 {
    columns
        .iter()
        .zip(center)
        .fold(0.0, |sum, (column, middle)| (column[row] - middle).mul_add(column[row] - middle, sum))
}

#[test]
fn points_go_to_their_nearest_centres() {
    for (rows, dimensions, clusters) in
        [(1, 1, 1), (15, 3, 2), (16, 2, 4), (33, 10, 7), (2 * CHUNK + 5, 3, 5), (700, 1100, 3)]
    {
        let numbers_of = columns(rows, dimensions);
        let columns: Vec<Column> = numbers_of.iter().map(|numbers| Column::new(numbers)).collect();
        let centers = numbers(clusters * dimensions, 99);
        let weights = numbers(rows, 7);
        for weights in [None, Some(weights.as_slice())] {
            let points = Points::new(&columns, weights, rows);
            let (mut labels, mut apart) = (vec![-1; rows], vec![0.0; rows]);
            let found = assign(&points, &centers, &mut labels, &mut apart, true);
            let (mut sums, mut totals) = (vec![0.0; clusters * dimensions], vec![0.0; clusters]);
            for row in 0..rows {
                let all: Vec<f64> = centers.chunks(dimensions).map(|c| squared(&numbers_of, row, c)).collect();
                let best = (0..clusters).fold(0, |best, next| if all[next] < all[best] { next } else { best });
                assert_eq!((labels[row], apart[row]), (best as i32, all[best]));
                let weight = weights.map_or(1.0, |weights| weights[row]);
                totals[best] += weight;
                (0..dimensions).for_each(|column| sums[best * dimensions + column] += weight * numbers_of[column][row]);
            }
            let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs().max(1.0));
            assert!(near(&found.sums, &sums) && near(&found.weights, &totals));
            assert_eq!(found.changed, rows);
            assert_eq!(assign(&points, &centers, &mut labels, &mut [], false).changed, 0);
        }
    }
}

#[test]
fn strided_columns_are_read_in_place() {
    let matrix = numbers(30, 3);
    // SAFETY: the rows are within the matrix.
    let strided = |column: usize| unsafe { Column::strided(matrix.as_ptr().add(column), 24, 10) };
    let single: Vec<f32> = matrix.iter().map(|&number| number as f32).collect();
    // SAFETY: as above, from the last row backwards.
    let backwards = unsafe { Column::strided_f32(single.as_ptr().add(27), -12, 10) };
    let given = [strided(0), strided(1), strided(2), backwards];
    let mut out = vec![0.0; 10];
    distances(&Points::new(&given, None, 10), &[0.0; 4], &mut out);
    for row in 0..10 {
        let last = f64::from(single[27 - 3 * row]);
        let numbers = &matrix[3 * row..3 * row + 3];
        let expected = last.mul_add(last, numbers.iter().fold(0.0, |sum, number| number.mul_add(*number, sum)));
        assert_eq!(out[row], expected);
    }
}

#[test]
fn threads_change_nothing() {
    let numbers_of = columns(5 * CHUNK + 3, 4);
    let columns: Vec<Column> = numbers_of.iter().map(|numbers| Column::new(numbers)).collect();
    let points = Points::new(&columns, None, 5 * CHUNK + 3);
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| {
            let mut closest = vec![f64::INFINITY; points.rows];
            let seeds = potentials(&points, &[0.5; 4], &numbers(8, 5), &mut closest);
            let found = assign(&points, &numbers(12, 4), &mut vec![-1; points.rows], &mut [], true);
            (seeds, found, summary(&points))
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn candidates_lower_the_potential() {
    let numbers_of = columns(100, 2);
    let columns: Vec<Column> = numbers_of.iter().map(|numbers| Column::new(numbers)).collect();
    let weights = numbers(100, 9);
    let points = Points::new(&columns, Some(&weights), 100);
    let mut closest = vec![0.05; 100];
    let (chosen, candidate) = ([0.2, 0.3], [0.8, 0.7]);
    let found = potentials(&points, &chosen, &candidate, &mut closest);
    let (mut before, mut after) = (0.0, 0.0);
    for row in 0..100 {
        let near = squared(&numbers_of, row, &chosen).min(0.05);
        assert_eq!(closest[row], near);
        before += near * weights[row];
        after += near.min(squared(&numbers_of, row, &candidate)) * weights[row];
    }
    assert!((found[0] - before).abs() < 1e-12 && (found[1] - after).abs() < 1e-12);
}

#[test]
fn sums_and_squared_deviations() {
    for rows in [1, 17, CHUNK, 2 * CHUNK + 1] {
        let numbers = numbers(rows, 2);
        let (sums, squares) = summary(&Points::new(&[Column::new(&numbers)], None, rows));
        let sum: f64 = numbers.iter().sum();
        let square: f64 = numbers.iter().map(|number| (number - sum / rows as f64).powi(2)).sum();
        assert!((sums[0] - sum).abs() < 1e-8 && (squares[0] - square).abs() < 1e-8);
    }
}

#[test]
fn rows_and_columns_give_the_same_bits() {
    let (rows, dimensions) = (CHUNK + 21, 7);
    let matrix = numbers(rows * dimensions, 6);
    let apart: Vec<Vec<f64>> =
        (0..dimensions).map(|column| matrix.iter().skip(column).step_by(dimensions).copied().collect()).collect();
    let stride = (dimensions * size_of::<f64>()) as isize;
    // SAFETY: the rows are within the matrix.
    let strided = |column: usize| unsafe { Column::strided(matrix.as_ptr().add(column), stride, rows) };
    let together: Vec<Column> = (0..dimensions).map(strided).collect();
    let columns: Vec<Column> = apart.iter().map(|numbers| Column::new(numbers)).collect();
    let centers = numbers(4 * dimensions, 8);
    let run = |columns: &[Column]| {
        let mut labels = vec![-1; rows];
        let found = assign(&Points::new(columns, None, rows), &centers, &mut labels, &mut [], true);
        (found, labels)
    };
    assert_eq!(run(&together), run(&columns));
}
