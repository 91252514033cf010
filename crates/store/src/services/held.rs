//! Extents that Arrow buffers refer to while a page of them is made, and a hint to the processor's cache.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_buffer::alloc::Allocation;
use craton_slab::Extent;

use crate::api::Reference;
use crate::error::{Error, Result};

/// An extent that was written, and that buffers refer to until it is sealed.
pub(super) struct Held {
    pub(super) extent: Extent,
}

impl std::panic::RefUnwindSafe for Held {}

impl Held {
    /// The bytes from `at` on, as a buffer that keeps the extent.
    ///
    /// # Panics
    /// If they are not in the extent.
    pub(super) fn buffer(self: &Arc<Self>, at: usize, bytes: usize) -> Buffer {
        let slice = &self.extent.as_slice()[at..at + bytes];
        let Some(start) = NonNull::new(slice.as_ptr().cast_mut()).filter(|_| bytes > 0) else {
            return Buffer::from_vec(Vec::<u8>::new());
        };
        let owner: Arc<dyn Allocation> = Arc::clone(self) as _;
        // SAFETY: the slice is in the extent, which `owner` keeps and to which nobody writes any more.
        unsafe { Buffer::from_custom_allocation(start, bytes, owner) }
    }

    /// Where a buffer is in the store; an error if it is not in the extent.
    pub(super) fn reference(&self, buffer: &Buffer) -> Result<Reference> {
        if buffer.is_empty() {
            return Ok(Reference { segment: 0, offset: 0, length: 0 });
        }
        let offset = buffer.as_ptr().addr().checked_sub(self.extent.as_ptr().addr());
        let offset = offset.filter(|offset| offset + buffer.len() <= self.extent.len());
        let whole = self.extent.reference();
        match offset {
            Some(offset) => Ok(Reference {
                segment: whole.segment,
                offset: whole.offset + offset as u64,
                length: buffer.len() as u64,
            }),
            None => Err(Error::Invalid("a buffer of a page is outside the page".into())),
        }
    }
}

/// Fetch an item into the processor's cache; `at` may be any number.
#[inline(always)]
pub(super) fn fetch<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: prefetching reads nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, at);
}
