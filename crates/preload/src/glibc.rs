//! glibc's own allocator, which this library hides from the rest of the process.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
}

/// `malloc`.
pub fn malloc(size: usize) -> *mut c_void {
    // SAFETY: glibc's function has no precondition.
    unsafe { __libc_malloc(size) }
}

/// `calloc`.
pub fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: as above.
    unsafe { __libc_calloc(count, size) }
}

/// `memalign`.
pub fn memalign(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: as above.
    unsafe { __libc_memalign(alignment, size) }
}

/// `realloc`.
///
/// # Safety
/// The block is null, or a live one of glibc's.
pub unsafe fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe { __libc_realloc(block, size) }
}

/// `free`.
///
/// # Safety
/// The block is null, or a live one of glibc's.
pub unsafe fn free(block: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { __libc_free(block) }
}

/// `malloc_usable_size`.
///
/// # Safety
/// The block is null, or a live one of glibc's.
pub unsafe fn usable_size(block: *mut c_void) -> usize {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let mut address = FOUND.load(Ordering::Relaxed);
    if address == 0 {
        // SAFETY: a lookup by name; it may allocate, which this function does not do.
        address = unsafe { libc::dlsym(libc::RTLD_NEXT, c"malloc_usable_size".as_ptr()) } as usize;
        if address == 0 {
            return 0;
        }
        FOUND.store(address, Ordering::Relaxed);
    }
    // SAFETY: the C library's function of that name has this type.
    unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> usize>(address)(block) }
}

/// The allocator of this library's own data: always glibc's, so that it never calls itself.
pub struct Glibc;

// SAFETY: glibc's blocks have 16-byte alignment, or the one that is asked of `memalign`.
unsafe impl GlobalAlloc for Glibc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= 16 { malloc(layout.size()) } else { memalign(layout.align(), layout.size()) }.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: it is one of the blocks that `alloc` returned.
        unsafe { free(block.cast()) }
    }
}
