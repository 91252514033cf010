//! The canonical form of single values. `super` defines it.

use arrow_buffer::i256;
use xxhash_rust::xxh3::xxh3_64_with_seed as xxh3;

/// Classes: `XXH3(name, 0)` of the constant's name.
pub(super) mod class {
    pub const NULL: u64 = 0xdbbf_b2e2_05c9_4ac8;
    pub const UNSIGNED: u64 = 0x46c8_4b00_5ac9_b0c2;
    pub const FLOAT: u64 = 0x0365_3e2a_66b5_0d24;
    pub const DECIMAL: u64 = 0xf355_24db_4b43_bbac;
    pub const STRING: u64 = 0x9870_005b_adca_0cb3;
    pub const BINARY: u64 = 0x01f6_3a3c_657f_3eae;
    pub const INSTANT: u64 = 0x8c93_79e8_8555_e96e;
    pub const TIME: u64 = 0x8bdf_1a55_b0be_b3b7;
    pub const DURATION: u64 = 0xa3ef_b55d_a18c_61c0;
    pub const INTERVAL: u64 = 0x2956_9d78_be02_075f;
    pub const LIST: u64 = 0xe26f_b213_3a1a_64bd;
    pub const STRUCT: u64 = 0x7272_92a6_69b7_45b9;
}

const NAN: u64 = 0x7ff8_0000_0000_0000;
/// 2⁶³ and 2⁶⁴.
const SIGNED_END: f64 = 9_223_372_036_854_775_808.0;
const UNSIGNED_END: f64 = 18_446_744_073_709_551_616.0;

#[inline(always)]
pub(super) fn null(seed: u64) -> u64 {
    xxh3(&[], seed ^ class::NULL)
}

#[inline(always)]
pub(super) fn signed(value: i64, seed: u64) -> u64 {
    xxh3(&value.to_le_bytes(), seed)
}

#[inline(always)]
pub(super) fn unsigned(value: u64, seed: u64) -> u64 {
    let class = if value > i64::MAX as u64 { class::UNSIGNED } else { 0 };
    xxh3(&value.to_le_bytes(), seed ^ class)
}

#[inline(always)]
pub(super) fn float(value: f64, seed: u64) -> u64 {
    // The cast saturates: 2⁶³ and more become 2⁶³ - 1, which no float represents, and which converts back to 2⁶³.
    let whole = value as i64;
    if whole as f64 == value && value < SIGNED_END {
        return signed(whole, seed);
    }
    odd_float(value, seed)
}

fn odd_float(value: f64, seed: u64) -> u64 {
    if (SIGNED_END..UNSIGNED_END).contains(&value) {
        return unsigned(value as u64, seed);
    }
    let bits = if value.is_nan() { NAN } else { value.to_bits() };
    xxh3(&bits.to_le_bytes(), seed ^ class::FLOAT)
}

pub(super) fn decimal(digits: i128, scale: i8, seed: u64) -> u64 {
    let mut scale = i16::from(scale);
    // 128-bit division is ten times as slow, and few decimals need it.
    let digits = match i64::try_from(digits) {
        Ok(0) => return signed(0, seed),
        Ok(mut digits) => {
            while digits % 10 == 0 {
                digits /= 10;
                scale -= 1;
            }
            i128::from(digits)
        }
        Err(_) => {
            let mut digits = digits;
            while digits % 10 == 0 {
                digits /= 10;
                scale -= 1;
            }
            digits
        }
    };
    if let Some(whole) = whole(digits, scale) {
        return match i64::try_from(whole) {
            Ok(whole) => signed(whole, seed),
            Err(_) => unsigned(whole as u64, seed),
        };
    }
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&digits.to_le_bytes());
    bytes[16..].copy_from_slice(&scale.to_le_bytes());
    xxh3(&bytes, seed ^ class::DECIMAL)
}

/// The number, if it is an integer in [-2⁶³, 2⁶⁴).
fn whole(digits: i128, scale: i16) -> Option<i128> {
    if scale > 0 {
        return None;
    }
    let number = digits.checked_mul(10_i128.checked_pow(u32::from(scale.unsigned_abs()))?)?;
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number).then_some(number)
}

pub(super) fn wide_decimal(digits: i256, scale: i8, seed: u64) -> u64 {
    if let Some(narrow) = digits.to_i128() {
        return decimal(narrow, scale, seed);
    }
    let ten = i256::from_i128(10);
    let (mut digits, mut stripped) = (digits, 0_i16);
    while digits.wrapping_rem(ten) == i256::ZERO {
        digits = digits.wrapping_div(ten);
        stripped += 1;
    }
    let scale = i16::from(scale) - stripped;
    if let Some(digits) = digits.to_i128() {
        // No trailing zeros are left to strip, and the scale of any decimal of this width fits.
        if let Ok(scale) = i8::try_from(scale) {
            return decimal(digits, scale, seed);
        }
        let mut bytes = [0; 18];
        bytes[..16].copy_from_slice(&digits.to_le_bytes());
        bytes[16..].copy_from_slice(&scale.to_le_bytes());
        return xxh3(&bytes, seed ^ class::DECIMAL);
    }
    let mut bytes = [0; 34];
    bytes[..32].copy_from_slice(&digits.to_le_bytes());
    bytes[32..].copy_from_slice(&scale.to_le_bytes());
    xxh3(&bytes, seed ^ class::DECIMAL)
}

#[inline(always)]
pub(super) fn string(value: &[u8], seed: u64) -> u64 {
    xxh3(value, seed ^ class::STRING)
}

#[inline(always)]
pub(super) fn binary(value: &[u8], seed: u64) -> u64 {
    xxh3(value, seed ^ class::BINARY)
}

/// `value` counts units of `nanoseconds`.
#[inline(always)]
pub(super) fn instant(value: i64, nanoseconds: i128, seed: u64) -> u64 {
    xxh3(&(i128::from(value) * nanoseconds).to_le_bytes(), seed ^ class::INSTANT)
}

/// `value` counts units of `nanoseconds`.
#[inline(always)]
pub(super) fn duration(value: i64, nanoseconds: i128, seed: u64) -> u64 {
    xxh3(&(i128::from(value) * nanoseconds).to_le_bytes(), seed ^ class::DURATION)
}

/// `value` counts units of `nanoseconds`. A valid time of day cannot overflow 64 bits; an invalid one wraps around.
#[inline(always)]
pub(super) fn time(value: i64, nanoseconds: i64, seed: u64) -> u64 {
    xxh3(&value.wrapping_mul(nanoseconds).to_le_bytes(), seed ^ class::TIME)
}

#[inline(always)]
pub(super) fn interval(months: i32, days: i32, nanoseconds: i64, seed: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&months.to_le_bytes());
    bytes[4..8].copy_from_slice(&days.to_le_bytes());
    bytes[8..].copy_from_slice(&nanoseconds.to_le_bytes());
    xxh3(&bytes, seed ^ class::INTERVAL)
}

/// `hashes` are little-endian already.
pub(super) fn list(hashes: &[u8], seed: u64) -> u64 {
    xxh3(hashes, seed ^ class::LIST)
}

/// `hashes` are little-endian already.
pub(super) fn structure(hashes: &[u8], seed: u64) -> u64 {
    xxh3(hashes, seed ^ class::STRUCT)
}

/// Combine the next column's hash with that of the columns before.
#[inline(always)]
pub(super) fn pair(first: u64, second: u64, seed: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    xxh3(&bytes, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_hashes_of_their_names() {
        let classes = [
            ("NULL", class::NULL),
            ("UNSIGNED", class::UNSIGNED),
            ("FLOAT", class::FLOAT),
            ("DECIMAL", class::DECIMAL),
            ("STRING", class::STRING),
            ("BINARY", class::BINARY),
            ("INSTANT", class::INSTANT),
            ("TIME", class::TIME),
            ("DURATION", class::DURATION),
            ("INTERVAL", class::INTERVAL),
            ("LIST", class::LIST),
            ("STRUCT", class::STRUCT),
        ];
        for (name, class) in classes {
            assert_eq!(class, xxh3(name.as_bytes(), 0), "{name} is {:#018x}", xxh3(name.as_bytes(), 0));
        }
    }
}
