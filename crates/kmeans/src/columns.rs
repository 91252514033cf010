//! Columns of numbers that somebody else owns.

use std::marker::PhantomData;

#[derive(Clone, Copy, Debug)]
enum Kind {
    F64,
    F32,
}

/// A column of 64-bit or 32-bit floats; consecutive numbers are a fixed number of bytes apart.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    start: *const u8,
    stride: isize,
    len: usize,
    kind: Kind,
    owner: PhantomData<&'a [f64]>,
}

// SAFETY: a column is a shared reference to numbers that nobody writes to while it lives (the contract of its constructors).
unsafe impl Send for Column<'_> {}
// SAFETY: as above.
unsafe impl Sync for Column<'_> {}

impl<'a> Column<'a> {
    /// A column of consecutive numbers.
    pub fn new(numbers: &'a [f64]) -> Self {
        // SAFETY: the slice has that many numbers, and is borrowed for as long as the column.
        unsafe { Self::strided(numbers.as_ptr(), size_of::<f64>() as isize, numbers.len()) }
    }

    /// A column of 64-bit floats, `stride` bytes apart.
    ///
    /// # Safety
    ///
    /// For each `i` below `len`, there is a number (aligned or not) `i * stride` bytes after `start`, which nobody writes to during `'a`.
    pub unsafe fn strided(start: *const f64, stride: isize, len: usize) -> Self {
        Column { start: start.cast(), stride, len, kind: Kind::F64, owner: PhantomData }
    }

    /// A column of 32-bit floats, `stride` bytes apart.
    ///
    /// # Safety
    ///
    /// As for [`Column::strided`].
    pub unsafe fn strided_f32(start: *const f32, stride: isize, len: usize) -> Self {
        Column { start: start.cast(), stride, len, kind: Kind::F32, owner: PhantomData }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copy numbers from row `from` on.
    ///
    /// # Panics
    ///
    /// If the column ends before.
    #[inline(always)]
    pub(crate) fn copy(&self, from: usize, out: &mut [f64]) {
        assert!(from <= self.len && out.len() <= self.len - from, "rows of the column");
        // SAFETY: by the assertion, all rows from `from` to `from + out.len()` exist; see the constructors.
        unsafe {
            let start = self.start.offset(from as isize * self.stride);
            match self.kind {
                Kind::F64 if self.stride == size_of::<f64>() as isize => {
                    std::ptr::copy_nonoverlapping(start, out.as_mut_ptr().cast::<u8>(), size_of_val(out));
                }
                Kind::F64 => {
                    for (at, out) in out.iter_mut().enumerate() {
                        *out = start.offset(at as isize * self.stride).cast::<f64>().read_unaligned();
                    }
                }
                Kind::F32 => {
                    for (at, out) in out.iter_mut().enumerate() {
                        *out = f64::from(start.offset(at as isize * self.stride).cast::<f32>().read_unaligned());
                    }
                }
            }
        }
    }
}

/// The columns of a matrix of 64-bit floats whose rows are contiguous, by rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    first: Column<'a>,
    dimensions: usize,
}

impl<'a> Rows<'a> {
    /// The rows of these columns, if they are columns of such a matrix.
    pub(crate) fn of(columns: &[Column<'a>]) -> Option<Self> {
        let first = *columns.first()?;
        let size = size_of::<f64>();
        let aligned = first.start.align_offset(align_of::<f64>()) == 0 && first.stride % size as isize == 0;
        let together = columns.iter().enumerate().all(|(number, column)| {
            matches!(column.kind, Kind::F64)
                && column.stride == first.stride
                && column.len == first.len
                && column.start == first.start.wrapping_add(number * size)
        });
        (aligned && together).then_some(Rows { first, dimensions: columns.len() })
    }

    /// The numbers of a row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &'a [f64] {
        assert!(row < self.first.len, "a row of the matrix");
        // SAFETY: each column has a number in the row, that of the next column follows it, and the first one is aligned.
        unsafe {
            let start = self.first.start.offset(row as isize * self.first.stride);
            std::slice::from_raw_parts(start.cast(), self.dimensions)
        }
    }
}
