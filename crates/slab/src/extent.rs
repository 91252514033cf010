//! Ranges of a segment, and the references by which other processes find them.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::segment::{Segment, SegmentId};

/// A reference to a range of bytes in a segment, valid in all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferRef {
    /// The segment.
    pub segment: SegmentId,
    /// Bytes from the segment's start.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl fmt::Display for BufferRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of segment {:#x}", self.length, self.offset, self.segment)
    }
}

type Release = Box<dyn FnOnce() + Send + Sync>;

/// A range of a segment with one owner; dropping it frees the range.
///
/// Its owner may write to it as long as it is not shared (in an `Arc`). A shared extent must not be written to.
pub struct Extent {
    segment: Arc<Segment>,
    offset: usize,
    length: usize,
    release: Option<Release>,
}

impl Extent {
    /// The range `offset .. offset + length` of `segment`; `release` runs when the extent is dropped.
    ///
    /// # Panics
    /// When the range is not within the segment.
    #[must_use]
    pub fn new(segment: Arc<Segment>, offset: usize, length: usize, release: Option<Release>) -> Self {
        assert!(offset.checked_add(length).is_some_and(|end| end <= segment.len()), "extent outside its segment");
        Self { segment, offset, length, release }
    }

    /// The segment that contains it.
    #[must_use]
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Bytes from the segment's start.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        // SAFETY: the range was checked to be within the mapping when the extent was created.
        unsafe { self.segment.as_ptr().add(self.offset) }
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self.segment`, and a shared extent is never written to.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.length) }
    }

    /// The bytes, for writing; `None` when the segment is mapped read-only.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        self.segment.is_writable().then(|| {
            // SAFETY: mapped writable, inside the mapping, and `&mut self` excludes other users of this extent.
            unsafe { std::slice::from_raw_parts_mut(self.as_ptr().cast_mut(), self.length) }
        })
    }

    /// Allocate its pages in one system call: see [`Segment::prefault`].
    ///
    /// # Errors
    /// When there is no memory.
    pub fn prefault(&self) -> Result<()> {
        self.segment.prefault(self.offset, self.length)
    }

    /// The reference by which other processes find it.
    #[must_use]
    pub fn reference(&self) -> BufferRef {
        BufferRef { segment: self.segment.id(), offset: self.offset as u64, length: self.length as u64 }
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Extent").field(&self.reference()).finish()
    }
}
