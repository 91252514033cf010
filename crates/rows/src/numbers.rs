//! Arithmetic of keys and row numbers.

/// `to - from`; `from` must not be greater than `to`.
#[allow(clippy::cast_sign_loss)]
pub(crate) fn distance(from: i64, to: i64) -> u64 {
    to.wrapping_sub(from) as u64
}

/// How many bits a number needs.
pub(crate) fn bits(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

#[allow(clippy::cast_possible_truncation)]
pub(crate) fn row_number(row: usize) -> u32 {
    row as u32
}
