//! The options and the usage statistics of a slab.

use crate::backing::Backing;

/// The options of a slab.
#[derive(Debug, Clone)]
pub struct SlabOptions {
    /// The most bytes of all extents together.
    pub limit: u64,
    /// Bytes of a segment, rounded up to 2 MiB; a larger extent gets its own segment. A segment takes address space only, until it is used.
    pub segment_bytes: u64,
    /// The watermark of idle memory, in bytes: freed memory up to this is kept for reuse. When it is exceeded, memory is returned to the
    /// system until half of it is left. `None`: an eighth of the limit, or 1 GiB without a limit; at least 256 MB.
    pub keep_free: Option<u64>,
    /// The kind of file behind its segments.
    pub backing: Backing,
    /// Ask the kernel for huge pages; `/sys/kernel/mm/transparent_hugepage/shmem_enabled` decides whether shared memory gets them.
    pub huge_pages: bool,
    /// Allocate the fresh pages of an extent of at least [`LARGE`](crate::LARGE) bytes in one system call when the extent is allocated. That
    /// is about twice as fast as a page fault for each page, but a waste if the extent is not written to its end.
    pub prefault: bool,
    /// Create every segment for one client, which writes to it too: see [`SegmentOptions::client`](crate::SegmentOptions::client).
    pub client: bool,
}

const LEAST_KEPT: u64 = 256_000_000;
const KEPT_WITHOUT_LIMIT: u64 = 1 << 30;

impl SlabOptions {
    /// The watermark in bytes: [`SlabOptions::keep_free`] or its default.
    #[must_use]
    pub fn watermark(&self) -> u64 {
        self.keep_free.unwrap_or_else(|| {
            let share = if self.limit == u64::MAX { KEPT_WITHOUT_LIMIT } else { self.limit / 8 };
            share.max(LEAST_KEPT)
        })
    }
}

impl Default for SlabOptions {
    fn default() -> Self {
        Self {
            limit: u64::MAX,
            segment_bytes: 1 << 28,
            keep_free: None,
            backing: Backing::default(),
            huge_pages: true,
            prefault: false,
            client: false,
        }
    }
}

/// The usage of a slab, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlabUsage {
    /// In live extents, each rounded up to [`ALIGNMENT`](crate::ALIGNMENT).
    pub used: u64,
    /// Address space of all segments.
    pub reserved: u64,
    /// Number of segments.
    pub segments: u64,
    /// Number of sealed segments, into which no holes can be punched.
    pub sealed: u64,
    /// Bytes of pages that have been part of an extent since they were last returned to the system: the estimate of the memory that the slab
    /// has, by which it trims.
    pub touched: u64,
    /// The part of `touched` that is in no extent.
    pub idle: u64,
    /// Bytes that the segments use according to the system: memory, or disk space if they are files.
    pub resident: u64,
}
