//! The functions of C that this library replaces.

use std::ffi::{c_int, c_void};

use crate::heap::{self, is_large, is_ours};
use crate::{glibc, options};

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISE: extern "C" fn() = initialise;

/// Read the options, and handle large blocks from now on if the environment says so. Runs when the library is loaded.
pub extern "C" fn initialise() {
    if let Some(options) = options::Options::from_environment() {
        start(options);
    }
}

/// Handle large blocks from now on. `false` if that is so already, or the system refuses.
pub fn start(options: options::Options) -> bool {
    extern "C" fn before() {
        heap::before_fork();
    }
    extern "C" fn parent() {
        heap::after_fork(false);
    }
    extern "C" fn child() {
        heap::after_fork(true);
    }
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    !heap::is_initialised()
        && unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) } == 0
        && heap::initialise(options)
}

/// A block of `size` bytes.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    if is_large(size) { heap::allocate(size, 16) } else { glibc::malloc(size) }
}

/// A block of `count * size` zeros.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(total) if is_large(total) => heap::allocate_zeros(total),
        _ => glibc::calloc(count, size),
    }
}

/// Give a block another size; it may move.
///
/// # Safety
/// The block is null or live.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return malloc(size);
    }
    if size == 0 && is_ours(block) {
        heap::free(block);
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's.
    unsafe {
        if is_ours(block) || is_large(size) { heap::reallocate(block, size) } else { glibc::realloc(block, size) }
    }
}

/// As [`realloc`], of `count * size` bytes.
///
/// # Safety
/// As [`realloc`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller's.
        Some(total) => unsafe { realloc(block, total) },
        None => {
            // SAFETY: the error number of this thread.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            std::ptr::null_mut()
        }
    }
}

/// Free a block.
///
/// # Safety
/// The block is null or live.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if is_ours(block) {
        // SAFETY: the error number of this thread, which `free` leaves as it was.
        unsafe {
            let before = *libc::__errno_location();
            heap::free(block);
            *libc::__errno_location() = before;
        }
    } else {
        // SAFETY: the caller's.
        unsafe { glibc::free(block) }
    }
}

/// A block of `size` bytes at a multiple of `alignment`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    if is_large(size) && alignment.is_power_of_two() {
        heap::allocate(size, alignment.max(16))
    } else {
        glibc::memalign(alignment, size)
    }
}

/// As [`memalign`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    memalign(alignment, size)
}

/// As [`memalign`], with the error as result.
///
/// # Safety
/// `to` can be written to.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment % size_of::<*mut c_void>() != 0 {
        return libc::EINVAL;
    }
    // SAFETY: the error number of this thread, which this function leaves as it was.
    unsafe {
        let before = *libc::__errno_location();
        let block = memalign(alignment, size);
        *libc::__errno_location() = before;
        if block.is_null() {
            return libc::ENOMEM;
        }
        *to = block;
    }
    0
}

/// A block at a multiple of the page size.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    memalign(crate::region::PAGE, size)
}

/// As [`valloc`], of whole pages.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    match size.max(1).checked_next_multiple_of(crate::region::PAGE) {
        Some(size) => valloc(size),
        None => glibc::malloc(usize::MAX),
    }
}

/// How many bytes of a block can be used.
///
/// # Safety
/// The block is null or live.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if is_ours(block) {
        heap::usable_size(block)
    } else {
        // SAFETY: the caller's.
        unsafe { glibc::usable_size(block) }
    }
}
