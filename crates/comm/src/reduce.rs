//! Reductions of numbers, element by element.

use crate::error::{Error, Result};

/// A reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// The sum; integers wrap, and for booleans it is `Or`.
    Sum,
    /// The product; integers wrap, and for booleans it is `And`.
    Prod,
    /// The least; NaN if there is one.
    Min,
    /// The greatest; NaN if there is one.
    Max,
    /// The bitwise conjunction of integers and booleans.
    And,
    /// The bitwise disjunction of integers and booleans.
    Or,
}

impl Op {
    /// The reduction with this name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none.
    pub fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "sum" => Self::Sum,
            "prod" => Self::Prod,
            "min" => Self::Min,
            "max" => Self::Max,
            "and" => Self::And,
            "or" => Self::Or,
            _ => {
                return Err(Error::Invalid(format!(
                    "there is no reduction {name:?}: use sum, prod, min, max, and, or"
                )));
            }
        })
    }
}

/// The type of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // the names say it
pub enum Number {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    C64,
    C128,
}

impl Number {
    /// The type with NumPy's name, such as `f8`; `None` for one that is not reduced here.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "b1" => Self::Bool,
            "i1" => Self::I8,
            "i2" => Self::I16,
            "i4" => Self::I32,
            "i8" => Self::I64,
            "u1" => Self::U8,
            "u2" => Self::U16,
            "u4" => Self::U32,
            "u8" => Self::U64,
            "f4" => Self::F32,
            "f8" => Self::F64,
            "c8" => Self::C64,
            "c16" => Self::C128,
            _ => return None,
        })
    }

    /// Bytes of an element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }

    fn alignment(self) -> usize {
        match self {
            Self::C64 => 4,
            Self::C128 => 8,
            _ => self.size(),
        }
    }

    /// Check that a reduction exists for the type.
    ///
    /// # Errors
    /// [`Error::Invalid`] if not.
    pub fn check(self, op: Op) -> Result<()> {
        let float = matches!(self, Self::F32 | Self::F64 | Self::C64 | Self::C128);
        let complex = matches!(self, Self::C64 | Self::C128);
        let missing = (float && matches!(op, Op::And | Op::Or)) || (complex && matches!(op, Op::Min | Op::Max));
        if missing {
            return Err(Error::Invalid(format!("{op:?} is not defined for {self:?}")));
        }
        Ok(())
    }
}

/// How elements are combined: the type and the reduction.
#[derive(Debug, Clone, Copy)]
pub struct Reducer {
    /// The type.
    pub number: Number,
    /// The reduction.
    pub op: Op,
}

trait Element: Copy {
    fn combine(op: Op, left: Self, right: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Element for $type {
            #[inline(always)]
            fn combine(op: Op, left: Self, right: Self) -> Self {
                match op {
                    Op::Sum => left.wrapping_add(right),
                    Op::Prod => left.wrapping_mul(right),
                    Op::Min => left.min(right),
                    Op::Max => left.max(right),
                    Op::And => left & right,
                    Op::Or => left | right,
                }
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($type:ty),*) => {$(
        impl Element for $type {
            #[inline(always)]
            fn combine(op: Op, left: Self, right: Self) -> Self {
                match op {
                    Op::Sum => left + right,
                    Op::Prod => left * right,
                    // NumPy's minimum and maximum: the left one if it is NaN, or if they are equal.
                    Op::Min => if left <= right || left.is_nan() { left } else { right },
                    Op::Max => if left >= right || left.is_nan() { left } else { right },
                    Op::And | Op::Or => left,
                }
            }
        }
    )*};
}

floats!(f32, f64);

#[derive(Clone, Copy)]
#[repr(C)]
struct Complex<T>(T, T);

macro_rules! complex {
    ($($type:ty),*) => {$(
        impl Element for Complex<$type> {
            #[inline(always)]
            fn combine(op: Op, left: Self, right: Self) -> Self {
                match op {
                    Op::Prod => Complex(left.0 * right.0 - left.1 * right.1, left.0 * right.1 + left.1 * right.0),
                    _ => Complex(left.0 + right.0, left.1 + right.1),
                }
            }
        }
    )*};
}

complex!(f32, f64);

/// A byte that is 0 or 1: a `bool` whose other values are not undefined behaviour.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Truth(u8);

impl Element for Truth {
    #[inline(always)]
    fn combine(op: Op, left: Self, right: Self) -> Self {
        let (left, right) = (u8::from(left.0 != 0), u8::from(right.0 != 0));
        Self(match op {
            Op::Sum | Op::Max | Op::Or => left | right,
            Op::Prod | Op::Min | Op::And => left & right,
        })
    }
}

/// Combine: `left[i] = op(left[i], right[i])`.
///
/// # Safety
/// Both must be aligned for the type, `count` elements long, and not overlap; `left` must be writable.
unsafe fn combine_with<T: Element>(op: Op, left: *mut u8, right: *const u8, count: usize) {
    // SAFETY: promised by the caller; every value of the bytes is a valid element.
    let left = unsafe { std::slice::from_raw_parts_mut(left.cast::<T>(), count) };
    // SAFETY: as above.
    let right = unsafe { std::slice::from_raw_parts(right.cast::<T>(), count) };
    // One loop for each reduction, so that each is vectorised.
    macro_rules! each {
        ($($op:ident),*) => {
            match op {
                $(Op::$op => for (left, &right) in left.iter_mut().zip(right) {
                    *left = T::combine(Op::$op, *left, right);
                })*
            }
        };
    }
    each!(Sum, Prod, Min, Max, And, Or);
}

impl Reducer {
    /// Whether memory is aligned for the elements.
    #[must_use]
    pub fn is_aligned(self, memory: *const u8) -> bool {
        memory.addr() % self.number.alignment() == 0
    }

    /// Combine: `left[i] = op(left[i], right[i])`.
    ///
    /// # Safety
    /// Both must be aligned for the type, `length` bytes long, which is a multiple of its size, and not overlap; `left` must be writable.
    pub(crate) unsafe fn combine(self, left: *mut u8, right: *const u8, length: usize) {
        if length == 0 {
            return;
        }
        debug_assert!(self.is_aligned(left) && self.is_aligned(right) && length % self.number.size() == 0);
        let count = length / self.number.size();
        // SAFETY: promised by the caller.
        unsafe {
            match self.number {
                Number::Bool => combine_with::<Truth>(self.op, left, right, count),
                Number::I8 => combine_with::<i8>(self.op, left, right, count),
                Number::I16 => combine_with::<i16>(self.op, left, right, count),
                Number::I32 => combine_with::<i32>(self.op, left, right, count),
                Number::I64 => combine_with::<i64>(self.op, left, right, count),
                Number::U8 => combine_with::<u8>(self.op, left, right, count),
                Number::U16 => combine_with::<u16>(self.op, left, right, count),
                Number::U32 => combine_with::<u32>(self.op, left, right, count),
                Number::U64 => combine_with::<u64>(self.op, left, right, count),
                Number::F32 => combine_with::<f32>(self.op, left, right, count),
                Number::F64 => combine_with::<f64>(self.op, left, right, count),
                Number::C64 => combine_with::<Complex<f32>>(self.op, left, right, count),
                Number::C128 => combine_with::<Complex<f64>>(self.op, left, right, count),
            }
        }
    }
}
