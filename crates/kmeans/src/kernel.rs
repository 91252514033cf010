//! The inner loops: a tile of points against one centre.

use crate::Points;

/// The points of a tile. A tile has the numbers of one column after those of another, so that a vector register holds several points.
pub const TILE: usize = 16;

/// Numbers of the points of a tile.
pub type Lanes = [f64; TILE];

/// Copy the rows from `from` on into a tile, and return how many there are; lanes beyond the last row repeat it.
#[inline(always)]
pub fn load(points: &Points<'_>, from: usize, end: usize, tile: &mut [Lanes]) -> usize {
    let rows = TILE.min(end - from);
    for (column, lanes) in points.columns.iter().zip(tile.iter_mut()) {
        if rows == TILE {
            column.copy(from, lanes);
        } else {
            column.copy(from, &mut lanes[..rows]);
            let last = lanes[rows - 1];
            lanes[rows..].fill(last);
        }
    }
    rows
}

/// The weights of the points of a tile; lanes beyond the last row have none.
#[inline(always)]
pub fn load_weights(points: &Points<'_>, from: usize, rows: usize) -> Lanes {
    let mut weights = [0.0; TILE];
    match points.weights {
        Some(given) => weights[..rows].copy_from_slice(&given[from..from + rows]),
        None => weights[..rows].fill(1.0),
    }
    weights
}

/// The squared distance of each point of a tile from a centre.
#[inline(always)]
pub fn squared_distances(tile: &[Lanes], center: &[f64]) -> Lanes {
    let mut sum = [0.0; TILE];
    for (lanes, &middle) in tile.iter().zip(center) {
        for at in 0..TILE {
            let difference = lanes[at] - middle;
            sum[at] = difference.mul_add(difference, sum[at]);
        }
    }
    sum
}

/// Define a function that runs a body compiled for the widest vectors that the processor has and that the crate knows.
macro_rules! for_this_processor {
    ($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty $body:block) => {
        $(#[$about])*
        fn $name($($argument: $kind),*) -> $result {
            #[inline(always)]
            fn body($($argument: $kind),*) -> $result $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                unsafe fn wide($($argument: $kind),*) -> $result {
                    body($($argument),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has both features.
                    return unsafe { wide($($argument),*) };
                }
            }
            body($($argument),*)
        }
    };
}
pub(crate) use for_this_processor;
