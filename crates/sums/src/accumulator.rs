//! A fixed-point accumulator wide enough to add any 64-bit floats exactly.

/// Bits of the result that each chunk stands for.
const WIDTH: u32 = 32;
/// Number of chunks: the largest float ends in the 66th chunk, the sum of 2^63 of them in the 68th.
const CHUNKS: usize = 69;
/// Additions between two rounds of carrying. Each changes a chunk by less than 2^32, so no chunk overflows.
const CARRY_AFTER: u32 = 1 << 30;
/// The exponent of the least significant bit of subnormal floats.
const LEAST: i32 = -1074;
const FRACTION: u32 = 52;
const SPECIAL: u64 = 0x7ff;

/// The exact sum of finite numbers, as a multiple of the smallest positive float; infinities and NaNs are kept apart.
///
/// Chunks are signed, and exceed their width until they are carried. Source: Neal, "Fast exact summation using small and large
/// superaccumulators", arXiv:1505.05571; here a number is added to three chunks instead of two, so that carrying is rare.
pub struct Accumulator {
    chunks: [i64; CHUNKS],
    until_carry: u32,
    /// The sum of the infinities and NaNs; 0 if there are none.
    special: f64,
    /// Whether there was at least one number, and all were -0.0.
    negative_zero: bool,
    empty: bool,
}

impl Accumulator {
    /// An accumulator with the sum of no numbers.
    pub fn new() -> Self {
        Self { chunks: [0; CHUNKS], until_carry: CARRY_AFTER, special: 0.0, negative_zero: false, empty: true }
    }

    pub fn extend(&mut self, values: &[f64]) {
        for part in values.chunks(CARRY_AFTER as usize) {
            if (self.until_carry as usize) < part.len() {
                self.carry();
            }
            self.until_carry -= part.len() as u32;
            for &value in part {
                self.add(value);
            }
        }
    }

    #[inline(always)]
    fn add(&mut self, value: f64) {
        let bits = value.to_bits();
        let exponent = (bits >> FRACTION) & SPECIAL;
        if exponent == SPECIAL {
            self.special += value;
            return;
        }
        self.negative_zero = (self.empty || self.negative_zero) && bits == 1 << 63;
        self.empty = false;
        let mut fraction = bits & ((1 << FRACTION) - 1);
        // Subnormal numbers have the exponent of the smallest normal ones, and no implicit leading bit.
        let place = if exponent == 0 {
            0
        } else {
            fraction |= 1 << FRACTION;
            exponent as u32 - 1
        };
        let wide = u128::from(fraction) << (place % WIDTH);
        let sign = bits as i64 >> 63; // -1 for negative numbers: `(x ^ sign) - sign` is -x
        let chunks = &mut self.chunks[(place / WIDTH) as usize..][..3];
        chunks[0] += ((wide as u32 as i64) ^ sign) - sign;
        chunks[1] += (((wide >> 32) as u32 as i64) ^ sign) - sign;
        chunks[2] += (((wide >> 64) as i64) ^ sign) - sign;
    }

    /// Carry: reduce each chunk to 32 bits except the last, which has the sign.
    fn carry(&mut self) {
        let mut carried = 0;
        for chunk in &mut self.chunks[..CHUNKS - 1] {
            let total = *chunk + carried;
            carried = total >> WIDTH;
            *chunk = total & ((1 << WIDTH) - 1);
        }
        self.chunks[CHUNKS - 1] += carried;
        self.until_carry = CARRY_AFTER;
    }

    /// The sum, rounded to the nearest float, with ties to even.
    pub fn rounded(&mut self) -> f64 {
        if self.special != 0.0 {
            return self.special; // also true for NaN, which is unequal to 0
        }
        if self.negative_zero {
            return -0.0;
        }
        self.carry();
        if self.chunks[CHUNKS - 1] >= 0 {
            return magnitude(&self.chunks);
        }
        let mut opposite = Self::new();
        for (chunk, mine) in opposite.chunks.iter_mut().zip(&self.chunks) {
            *chunk = -mine;
        }
        opposite.carry();
        -magnitude(&opposite.chunks)
    }

    /// A few terms with exactly this sum: the rounded sum, then the rounded remainder, and so on.
    pub fn terms(mut self) -> Vec<f64> {
        let mut found = Vec::with_capacity(2);
        loop {
            let next = self.rounded();
            if next == 0.0 && !found.is_empty() {
                return found;
            }
            if next == 0.0 || self.special != 0.0 {
                return vec![next];
            }
            // A sum that overflows a float becomes several terms, each of which is finite.
            let next = next.clamp(f64::MIN, f64::MAX);
            found.push(next);
            self.extend(&[-next]);
        }
    }
}

/// The rounded value of carried chunks whose sum is not negative.
fn magnitude(chunks: &[i64; CHUNKS]) -> f64 {
    let Some(top) = chunks.iter().rposition(|chunk| *chunk != 0) else {
        return 0.0;
    };
    let below = |steps: usize| top.checked_sub(steps).map_or(0, |at| chunks[at] as u128);
    let leading = (chunks[top] as u128) << (2 * WIDTH) | below(1) << WIDTH | below(2);
    let more = top > 2 && chunks[..top - 2].iter().any(|chunk| *chunk != 0);
    // Keep the leading 53 bits; there are none below the least significant bit of a subnormal float.
    let last = (top as i32 - 2) * WIDTH as i32;
    let drop = ((u128::BITS - leading.leading_zeros()) as i32 - (FRACTION as i32 + 1)).max(-last) as u32;
    let (kept, rest, half) = (leading >> drop, leading & ((1 << drop) - 1), 1 << (drop - 1));
    let up = rest > half || (rest == half && (more || kept & 1 == 1));
    let exponent = last + drop as i32 + LEAST;
    // The significand is at most 2^53 and exact; the product is exact or overflows to infinity.
    (kept + u128::from(up)) as f64 * power_of_two(exponent)
}

fn power_of_two(exponent: i32) -> f64 {
    match exponent {
        ..-1022 => f64::from_bits(1 << (exponent - LEAST)),
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << FRACTION),
        _ => f64::INFINITY,
    }
}
