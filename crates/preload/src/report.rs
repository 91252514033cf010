//! What the process can ask about its regions, through the dynamic linker.

use std::ffi::{c_int, c_void};

use crate::heap::HEAP;
use crate::options::Options;
use crate::region::Region;

/// Where a buffer lies.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// The descriptor of the region's memfd.
    pub fd: c_int,
    /// The length of the memfd in bytes.
    pub length: u64,
    /// The offset of the buffer in the memfd, in bytes.
    pub offset: u64,
    /// The block that contains the buffer: offset and bytes.
    pub block: u64,
    /// Its bytes.
    pub block_length: u64,
}

/// What the regions hold, in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of regions.
    pub regions: u64,
    /// Memory of the files of regions that give blocks.
    pub resident: u64,
    /// The part of it that belongs to freed blocks.
    pub cached: u64,
}

/// The place of a buffer of `length` bytes in a region that can be shared; `None` if it does not lie in one block of one.
pub fn place_of(address: usize, length: usize) -> Option<Place> {
    let mut heap = HEAP.lock();
    let (region, offset) = heap.find(address)?;
    if region.is_retired() || !region.has_descriptor() {
        return None;
    }
    let (block, block_length) = region.containing(offset)?;
    if offset.checked_add(length)? > block + block_length {
        return None;
    }
    Some(Place {
        fd: region.fd(),
        length: region.length() as u64,
        offset: offset as u64,
        block: block as u64,
        block_length: block_length as u64,
    })
}

/// What the regions hold.
pub fn usage() -> Usage {
    let heap = HEAP.lock();
    let giving = || heap.regions.iter().filter(|one| !one.is_retired());
    Usage {
        regions: heap.regions.len() as u64,
        resident: giving().map(Region::resident).sum::<usize>() as u64,
        cached: giving().map(Region::cached).sum::<usize>() as u64,
    }
}

/// Return the memory of freed blocks to the system.
pub fn trim() {
    HEAP.lock().regions.iter_mut().filter(|one| !one.is_retired()).for_each(Region::trim);
}

/// Write the place of a buffer; returns 0 if it lies in a region that can be shared, else 1.
///
/// # Safety
/// `to` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn craton_preload_place(address: *const c_void, length: usize, to: *mut Place) -> c_int {
    match place_of(address as usize, length) {
        Some(place) => {
            // SAFETY: the caller's.
            unsafe { *to = place };
            0
        }
        None => 1,
    }
}

/// Write what the regions hold.
///
/// # Safety
/// `to` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn craton_preload_usage(to: *mut Usage) {
    // SAFETY: the caller's.
    unsafe { *to = usage() };
}

/// Return the memory of freed blocks to the system.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn craton_preload_trim() {
    trim();
}

/// Handle large blocks from now on, in a process that was forked from one that has this library but does not use it. A limit or keep of 0 is the
/// usual one. If `cached` is not null, the bytes of freed blocks that kept their memory are written to it, for a process that watches this one.
/// Returns 0, or 1 if the allocator is in use already or cannot be used.
///
/// # Safety
/// `cached` is null, or an aligned number that lives as long as the process.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn craton_preload_start(limit: usize, keep: usize, cached: *mut u64) -> c_int {
    let options = Options::new(None, (limit > 0).then_some(limit), (keep > 0).then_some(keep));
    if !crate::exports::start(options) {
        return 1;
    }
    crate::heap::publish(cached.cast());
    0
}
