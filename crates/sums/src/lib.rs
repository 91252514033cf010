//! Sums of 64-bit floats that do not depend on the order of the additions.
//!
//! Every number is added exactly, in an accumulator wide enough for any floats, and the sum is rounded once. A sum is therefore
//! a function of the numbers alone: threads and tiles may add them in any order.
//!
//! Lists of numbers have the layout of Arrow's lists: all values one list after another, and offsets of where each list begins and ends.
//!
//! - [`sums`] gives the sum of each list;
//! - [`terms`] gives, for each list, a few numbers with the same exact sum: the partial results that tiles exchange;
//! - [`means`], [`moments`] and [`products`] do not depend on the order either.

mod accumulator;
mod terms;

use accumulator::Accumulator;
use rayon::prelude::*;

pub use terms::terms;

/// Lists of more numbers than this are added in pieces, on all threads.
const PIECE: usize = 1 << 19;
/// How many lists one task of a thread pool adds.
const LISTS: usize = 1 << 10;

/// A statistic of the deviations of numbers from their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The variance: the sum of squares, divided by the count less `ddof`.
    Variance {
        /// Delta degrees of freedom: subtracted from the count. If the divisor is not positive, the variance is NaN.
        ddof: i64,
    },
    /// The skewness, corrected for bias; NaN for fewer than three numbers, and for equal ones.
    Skewness,
    /// The excess kurtosis, corrected for bias; NaN for fewer than four numbers, and for equal ones.
    Kurtosis,
}

fn list<'a>(values: &'a [f64], offsets: &[i64], number: usize) -> &'a [f64] {
    &values[offsets[number] as usize..offsets[number + 1] as usize]
}

/// Write the value of each list; there is one more offset than lists.
///
/// # Panics
///
/// If offsets do not ascend, or point beyond the values.
fn each(values: &[f64], offsets: &[i64], out: &mut [f64], value: impl Fn(&[f64]) -> f64 + Sync) {
    assert_eq!(offsets.len(), out.len() + 1, "one more offset than lists");
    out.par_chunks_mut(LISTS).enumerate().for_each(|(chunk, out)| {
        for (at, out) in out.iter_mut().enumerate() {
            *out = value(list(values, offsets, chunk * LISTS + at));
        }
    });
}

/// Write the sum of each list, correctly rounded. The sum of no numbers is 0; it is NaN if a number is NaN, or if there are infinities of
/// both signs.
///
/// The sum is infinite only if the exact sum overflows; partial sums may exceed the range of floats.
pub fn sums(values: &[f64], offsets: &[i64], out: &mut [f64]) {
    each(values, offsets, out, sum);
}

/// Write the mean of each list; NaN for an empty one. The mean of equal numbers is exactly that number.
pub fn means(values: &[f64], offsets: &[i64], out: &mut [f64]) {
    each(values, offsets, out, mean);
}

/// Write the mean of the numbers whose terms each list holds, given how many numbers there were; bit for bit what [`means`] gives.
///
/// # Panics
///
/// If there are not as many counts as results.
pub fn means_of_terms(values: &[f64], offsets: &[i64], counts: &[i64], out: &mut [f64]) {
    assert_eq!(counts.len(), out.len(), "one count a list");
    assert_eq!(offsets.len(), out.len() + 1, "one more offset than lists");
    out.par_iter_mut().enumerate().for_each(|(number, out)| {
        *out = quotient(&terms::of(list(values, offsets, number)), counts[number] as f64);
    });
}

/// Write a moment of each list. The sums of powers of deviations from the mean are exact and rounded once, too.
pub fn moments(values: &[f64], offsets: &[i64], moment: Moment, out: &mut [f64]) {
    each(values, offsets, out, |list| central(list, moment));
}

/// Write the product of each list, multiplied in ascending order; 1 for an empty one.
///
/// Exponents are added separately, so a product is 0 or infinite only if the final result underflows or overflows; intermediate products
/// cannot.
pub fn products(values: &[f64], offsets: &[i64], out: &mut [f64]) {
    each(values, offsets, out, product);
}

fn product(values: &[f64]) -> f64 {
    if values.iter().any(|value| *value == 0.0 || !value.is_finite()) {
        // 0 times infinity is NaN; otherwise only the signs of the other factors matter.
        return values.iter().map(|value| if value.is_normal() { value.signum() } else { special(*value) }).product();
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (mut fraction, mut exponent) = (1.0, 0i64);
    for value in sorted {
        let (of_value, of_product) = (exponent_of(value), exponent_of(fraction));
        // Both factors are scaled to a magnitude between 1 and 2, so the product is below 4.
        fraction = scaled(fraction, -of_product) * scaled(value, -of_value);
        exponent += of_value + of_product;
    }
    scaled(fraction, exponent)
}

/// A number that is not normal, as a factor of a product with zeros or infinities: of a subnormal number only the sign matters.
fn special(value: f64) -> f64 {
    if value.is_subnormal() { value.signum() } else { value }
}

/// The exponent of a finite, nonzero number: that of the greatest power of two not above its magnitude.
fn exponent_of(value: f64) -> i64 {
    let of = |value: f64| ((value.to_bits() >> 52) & 0x7ff) as i64 - 1023;
    if value.is_subnormal() { of(value * SUBNORMAL) - 64 } else { of(value) }
}

/// 2^64: the product of a subnormal number and this is normal.
const SUBNORMAL: f64 = 18_446_744_073_709_551_616.0;

/// A number times a power of two, rounded once. The number is between 1 and 4, or the product is between 1 and 2.
fn scaled(value: f64, exponent: i64) -> f64 {
    let power = |exponent: i64| f64::from_bits(((exponent + 1023) as u64) << 52);
    match exponent {
        -1022..=1023 => value * power(exponent),
        ..-1022 => value * power(-1000) * power(exponent.max(-2000) + 1000),
        _ => value * power(1000) * power(exponent.min(2000) - 1000),
    }
}

/// The sum of numbers, rounded once.
pub fn sum(values: &[f64]) -> f64 {
    match *values {
        [] => 0.0,
        [one] => one,
        [one, other] => one + other,
        _ if values.len() <= PIECE => {
            let mut found = Accumulator::new();
            found.extend(values);
            found.rounded()
        }
        _ => sum(&values.par_chunks(PIECE).flat_map_iter(terms::of).collect::<Vec<_>>()),
    }
}

fn mean(values: &[f64]) -> f64 {
    quotient(&terms::of(values), values.len() as f64)
}

/// The quotient of the rounded sum, corrected by what was lost in rounding the sum and the quotient.
fn quotient(terms: &[f64], count: f64) -> f64 {
    let total = sum(terms);
    let found = total / count;
    // The remainders of the rounded sum and of the quotient times the count; the fused multiply-add rounds only once.
    let rest: f64 = terms.iter().skip(1).sum::<f64>() + f64::mul_add(-found, count, total);
    if rest.is_finite() { found + rest / count } else { found }
}

fn central(values: &[f64], moment: Moment) -> f64 {
    let count = values.len() as f64;
    let mean = mean(values);
    let powers = |power: i32| sum(&values.iter().map(|value| (value - mean).powi(power)).collect::<Vec<_>>());
    match moment {
        Moment::Variance { ddof } => {
            let free = values.len() as i64 - ddof;
            if free <= 0 { f64::NAN } else { powers(2) / free as f64 }
        }
        Moment::Skewness => {
            if values.len() < 3 {
                return f64::NAN;
            }
            let (second, third) = (powers(2), powers(3));
            // The bias correction of `pandas.core.nanops.nanskew`; NaN for equal numbers.
            count * (count - 1.0).sqrt() / (count - 2.0) * (third / second.powf(1.5))
        }
        Moment::Kurtosis => {
            if values.len() < 4 {
                return f64::NAN;
            }
            let (second, fourth) = (powers(2), powers(4));
            let adjusted = 3.0 * (count - 1.0).powi(2) / ((count - 2.0) * (count - 3.0));
            let ratio = count * (count + 1.0) * (count - 1.0) * fourth;
            ratio / ((count - 2.0) * (count - 3.0) * second.powi(2)) - adjusted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffled(values: &[f64], seed: u64) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut found = values.to_vec();
        for at in (1..found.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            found.swap(at, (state >> 33) as usize % (at + 1));
        }
        found
    }

    fn numbers(count: usize) -> Vec<f64> {
        let mut state = 7u64;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let scale = 10f64.powi((state >> 40) as i32 % 30 - 15);
                ((state >> 11) as f64 / (1u64 << 53) as f64 - 0.5) * scale
            })
            .collect()
    }

    /// The rounded sum by Shewchuk's algorithm: nonoverlapping terms, the greatest last.
    fn slowly(values: &[f64]) -> f64 {
        let mut terms: Vec<f64> = Vec::new();
        for &value in values {
            let mut carried = value;
            let mut kept = Vec::with_capacity(terms.len() + 1);
            for &term in &terms {
                let total = carried + term;
                let back = total - carried;
                let lost = (carried - (total - back)) + (term - back);
                if lost != 0.0 {
                    kept.push(lost);
                }
                carried = total;
            }
            kept.push(carried);
            terms = kept;
        }
        terms.iter().fold(0.0, |total, term| total + term)
    }

    #[test]
    fn sums_do_not_depend_on_order_or_partitioning() {
        for count in [3, 40, 6000, PIECE + 77] {
            let values = numbers(count);
            let (total, middle) = (sum(&values), mean(&values));
            assert_eq!(total, slowly(&values));
            let spread = central(&values, Moment::Variance { ddof: 1 });
            for seed in 0..4 {
                let other = shuffled(&values, seed);
                assert_eq!(sum(&other).to_bits(), total.to_bits());
                assert_eq!(mean(&other).to_bits(), middle.to_bits());
                assert_eq!(central(&other, Moment::Variance { ddof: 1 }).to_bits(), spread.to_bits());
                for parts in [2, 3, 17] {
                    let told: Vec<f64> = other.chunks(count.div_ceil(parts)).flat_map(terms::of).collect();
                    assert_eq!(sum(&told).to_bits(), total.to_bits());
                }
            }
        }
    }

    #[test]
    fn sums_are_those_of_the_numbers() {
        assert_eq!(sum(&[1e16, 1.0, -1e16].repeat(1000)), 1000.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1e308, 1e308, -1e308]), 1e308);
        assert_eq!(sum(&[1e308; 3]), f64::INFINITY);
        assert_eq!(sum(&[]).to_bits(), 0.0f64.to_bits());
        assert_eq!(sum(&[-0.0, -0.0, -0.0]).to_bits(), (-0.0f64).to_bits());
        assert_eq!(sum(&[1.0, f64::INFINITY, 2.0]), f64::INFINITY);
        assert!(sum(&[f64::NEG_INFINITY, f64::INFINITY, 2.0]).is_nan());
        assert!(sum(&[1.0, f64::NAN, 2.0]).is_nan());
        assert_eq!(sum(&[f64::from_bits(1); 5]), f64::from_bits(5));
        assert_eq!(sum(&[-1.0; 3]), -3.0);
        assert_eq!(sum(&[f64::MAX, -f64::MAX, f64::from_bits(1)]), f64::from_bits(1));
    }

    #[test]
    fn equal_numbers_have_themselves_as_mean_and_no_variance() {
        for value in [0.1, 1.0 / 3.0, 1e300, -7.3e-300, 5e-324] {
            for count in 1..200 {
                let values = vec![value; count];
                assert_eq!(mean(&values), value, "{count} times {value}");
                assert!(count == 1 || central(&values, Moment::Variance { ddof: 1 }) == 0.0);
            }
        }
        assert!(mean(&[]).is_nan());
        assert_eq!(mean(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert_eq!(mean(&[f64::MAX; 3]), f64::INFINITY);
    }

    #[test]
    fn intermediate_products_do_not_overflow() {
        assert!((product(&[1e300, 1e300, 1e-300, 1e-300, -3.0]) + 3.0).abs() < 1e-14);
        assert_eq!(product(&[1e-300; 3]), 0.0);
        assert_eq!(product(&[1e300, -1e300]), f64::NEG_INFINITY);
        assert_eq!(product(&[5e-324, 1e300, 4.0]), 5e-324 * 1e300 * 4.0);
        assert_eq!(product(&[1e-200, 1e-120]), 1e-320);
        assert_eq!(product(&[f64::MAX, 0.5]), f64::MAX / 2.0);
        assert!(product(&[0.0, f64::INFINITY]).is_nan());
        assert!(product(&[5e-324, 2.0, f64::NAN]).is_nan());
        assert_eq!(product(&[5e-324, -2.0, f64::INFINITY]), f64::NEG_INFINITY);
        assert_eq!(product(&[-5e-324, 2.0, 0.0]).to_bits(), (-0.0f64).to_bits());
        assert_eq!(product(&[]), 1.0);
        let values: Vec<f64> = numbers(600);
        assert_eq!(product(&shuffled(&values, 3)).to_bits(), product(&values).to_bits());
    }

    #[test]
    fn moments_are_those_of_a_known_sample() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(central(&values, Moment::Variance { ddof: 0 }), 4.0);
        assert!(central(&values, Moment::Variance { ddof: 8 }).is_nan());
        // pandas: Series([2, 4, 4, 4, 5, 5, 7, 9]).skew(), .kurt()
        assert!((central(&values, Moment::Skewness) - 0.818_487_553_356_799_7).abs() < 1e-15);
        assert!((central(&values, Moment::Kurtosis) - 0.940_625).abs() < 1e-14);
    }

    #[test]
    fn lists_are_taken_one_by_one() {
        let (values, offsets) = ([1.0, 2.0, 3.0, 4.0, 5.0], [0, 2, 2, 5]);
        let mut out = [0.0; 3];
        sums(&values, &offsets, &mut out);
        assert_eq!(out, [3.0, 0.0, 12.0]);
        products(&values, &offsets, &mut out);
        assert_eq!(out, [2.0, 1.0, 60.0]);
        means(&values, &offsets, &mut out);
        assert_eq!((out[0], out[1].is_nan(), out[2]), (1.5, true, 4.0));
        let (told, ends) = terms(&values, &offsets);
        means_of_terms(&told, &ends, &[2, 0, 3], &mut out);
        assert_eq!((out[0], out[1].is_nan(), out[2]), (1.5, true, 4.0));
        assert_eq!((told, ends), (vec![3.0, 12.0], vec![0, 1, 1, 2]));
    }
}
