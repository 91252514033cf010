//! How a slab is set up, and what it tells about itself.

use crate::backing::Backing;

/// How a slab is set up.
#[derive(Debug, Clone)]
pub struct SlabOptions {
    /// The most bytes that its extents may have together.
    pub limit: u64,
    /// Bytes of a segment, rounded up to 2 MiB; a larger extent gets a segment of its own. Address space, and no memory before it is used.
    pub segment_bytes: u64,
    /// Bytes that stay with the slab after they were used and freed, to be used again without being fetched from the system; beyond that
    /// they are given back until half of it is left. `None`: an eighth of the limit, or 1 GiB where there is no limit; at least 256 MB.
    pub keep_free: Option<u64>,
    /// What its segments are made of.
    pub backing: Backing,
    /// Ask the kernel for huge pages; whether it gives them to shared memory is up to `/sys/kernel/mm/transparent_hugepage/shmem_enabled`.
    pub huge_pages: bool,
    /// Fetch the fresh pages of an extent of at least [`LARGE`](crate::LARGE) bytes from the system when it is allocated, in one call:
    /// about twice as fast as touching them one by one, and a waste where the extent is not written to its end.
    pub prefault: bool,
    /// Make every segment for one client that writes to it too: see [`SegmentOptions::client`](crate::SegmentOptions::client).
    pub client: bool,
}

const LEAST_KEPT: u64 = 256_000_000;
const KEPT_WITHOUT_LIMIT: u64 = 1 << 30;

impl SlabOptions {
    /// The bytes that stay with the slab after they were freed: [`SlabOptions::keep_free`], or what stands for it.
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

/// What a slab uses, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlabUsage {
    /// In extents that are owned, each rounded up to [`ALIGNMENT`](crate::ALIGNMENT).
    pub used: u64,
    /// Address space of all segments.
    pub reserved: u64,
    /// Segments.
    pub segments: u64,
    /// Segments that are sealed: no holes can be punched into these.
    pub sealed: u64,
    /// Pages that have been part of an extent since they were last given back: the estimate that giving memory back goes by.
    pub touched: u64,
    /// The part of `touched` that is in no extent.
    pub idle: u64,
    /// What the system says that the segments take: memory, or space in the folder of their files.
    pub resident: u64,
}
