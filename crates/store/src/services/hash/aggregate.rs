//! Aggregates of 64-bit numbers, and how values change their states.

use arrow_buffer::NullBuffer;

use super::keys::{Keys, Routed};

/// The type of the values of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Number {
    /// Signed integers of 64 bits.
    Int,
    /// Floats of 64 bits.
    Float,
}

/// An aggregate. Null values are skipped. The result of [`Min`](Self::Min), [`Max`](Self::Max) and [`Last`](Self::Last) of no values is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// The number of values.
    Count,
    /// The sum, 0 if there are no values. A sum of integers that overflows is an error.
    Sum(Number),
    /// The least value; NaN only if there are no others.
    Min(Number),
    /// The greatest value; NaN only if there are no others.
    Max(Number),
    /// The value that was added last.
    Last(Number),
}

impl Aggregate {
    /// The type of its result.
    #[must_use]
    pub fn number(self) -> Number {
        match self {
            Self::Count => Number::Int,
            Self::Sum(number) | Self::Min(number) | Self::Max(number) | Self::Last(number) => number,
        }
    }

    /// Whether its result may be null.
    pub(super) fn is_masked(self) -> bool {
        matches!(self, Self::Min(_) | Self::Max(_) | Self::Last(_))
    }

    /// The aggregate that combines partial results of this one.
    pub(super) fn merging(self) -> Self {
        if self == Self::Count { Self::Sum(Number::Int) } else { self }
    }

    /// The state before the first value.
    pub(super) fn initial(self) -> u64 {
        match self {
            Self::Count | Self::Sum(_) | Self::Last(_) => 0,
            Self::Min(Number::Int) => i64::MAX as u64,
            Self::Max(Number::Int) => i64::MIN as u64,
            Self::Min(Number::Float) | Self::Max(Number::Float) => f64::NAN.to_bits(),
        }
    }

    /// Change the states of entries by the values of rows; returns false if a sum overflows. `mask` has a bit for each entry that has a value.
    pub(super) fn update(
        self,
        states: &mut [u64],
        mask: &mut [u8],
        entries: &[u32],
        rows: &[Routed],
        values: &Values<'_>,
    ) -> bool {
        let mut fits = true;
        match (self, *values) {
            (Self::Count, values) => each(entries, rows, values.nulls(), |entry, _| states[entry] += 1),
            (Self::Sum(_), Values::Int(values, nulls)) => each(entries, rows, nulls, |entry, row| {
                let (sum, beyond) = (states[entry] as i64).overflowing_add(values[row]);
                fits &= !beyond;
                states[entry] = sum as u64;
            }),
            (Self::Sum(_), Values::Float(values, nulls)) => each(entries, rows, nulls, |entry, row| {
                states[entry] = (f64::from_bits(states[entry]) + values[row]).to_bits();
            }),
            (Self::Min(_), Values::Int(values, nulls)) => each(entries, rows, nulls, |entry, row| {
                states[entry] = (states[entry] as i64).min(values[row]) as u64;
                set(mask, entry);
            }),
            (Self::Max(_), Values::Int(values, nulls)) => each(entries, rows, nulls, |entry, row| {
                states[entry] = (states[entry] as i64).max(values[row]) as u64;
                set(mask, entry);
            }),
            (Self::Min(_), Values::Float(values, nulls)) => each(entries, rows, nulls, |entry, row| {
                let state = f64::from_bits(states[entry]);
                if state.is_nan() || values[row] < state {
                    states[entry] = values[row].to_bits();
                }
                set(mask, entry);
            }),
            (Self::Max(_), Values::Float(values, nulls)) => each(entries, rows, nulls, |entry, row| {
                let state = f64::from_bits(states[entry]);
                if state.is_nan() || values[row] > state {
                    states[entry] = values[row].to_bits();
                }
                set(mask, entry);
            }),
            (Self::Last(_), Values::Int(values, nulls)) => each(entries, rows, nulls, |entry, row| {
                states[entry] = values[row] as u64;
                set(mask, entry);
            }),
            (Self::Last(_), Values::Float(values, nulls)) => each(entries, rows, nulls, |entry, row| {
                states[entry] = values[row].to_bits();
                set(mask, entry);
            }),
            (_, Values::Rows) => {}
        }
        fits
    }
}

/// Rows that are added: a key for each, and for each aggregate a value for each.
#[derive(Debug, Clone)]
pub struct Rows<'a> {
    /// The keys.
    pub keys: Keys<'a>,
    /// The values of each aggregate.
    pub values: Vec<Values<'a>>,
}

/// The values of an aggregate, one for each row.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// Integers; the others are null.
    Int(&'a [i64], Option<&'a NullBuffer>),
    /// Floats; the others are null.
    Float(&'a [f64], Option<&'a NullBuffer>),
    /// No values: for counting rows.
    Rows,
}

impl<'a> Values<'a> {
    /// Their number; `None` for [`Rows`](Self::Rows).
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Int(values, _) => Some(values.len()),
            Self::Float(values, _) => Some(values.len()),
            Self::Rows => None,
        }
    }

    /// Whether an aggregate can take them.
    pub(super) fn suit(&self, aggregate: Aggregate) -> bool {
        aggregate == Aggregate::Count
            || match self {
                Self::Int(..) => aggregate.number() == Number::Int,
                Self::Float(..) => aggregate.number() == Number::Float,
                Self::Rows => false,
            }
    }

    pub(super) fn nulls(&self) -> Option<&'a NullBuffer> {
        match self {
            Self::Int(_, nulls) | Self::Float(_, nulls) => *nulls,
            Self::Rows => None,
        }
    }
}

/// Set the bit of an entry.
#[inline(always)]
fn set(mask: &mut [u8], entry: usize) {
    mask[entry / 8] |= 1 << (entry % 8);
}

/// Call a function for each row that is not null, with its entry.
#[inline(always)]
fn each(entries: &[u32], rows: &[Routed], nulls: Option<&NullBuffer>, mut change: impl FnMut(usize, usize)) {
    let pairs = entries.iter().zip(rows).map(|(entry, routed)| (*entry as usize, routed.row as usize));
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => pairs.for_each(|(entry, row)| change(entry, row)),
        Some(nulls) => pairs.filter(|(_, row)| nulls.is_valid(*row)).for_each(|(entry, row)| change(entry, row)),
    }
}
