//! The functions of C, called directly.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Once;

use crate::exports::{
    calloc, free, malloc, malloc_usable_size, memalign, posix_memalign, pvalloc, realloc, reallocarray, valloc,
};
use crate::heap;
use crate::options::Options;
use crate::report::{place_of, trim, usage};

const LARGE: usize = 1 << 17;

fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        assert!(heap::initialise(Options { threshold: LARGE, limit: 1 << 30, keep: 8 << 20 }));
    });
}

fn fill(block: *mut c_void, size: usize, byte: u8) {
    // SAFETY: the block has at least `size` bytes.
    unsafe { std::ptr::write_bytes(block.cast::<u8>(), byte, size) };
}

fn holds(block: *mut c_void, size: usize, byte: u8) -> bool {
    // SAFETY: as above, and they were written.
    unsafe { std::slice::from_raw_parts(block.cast::<u8>(), size) }.iter().all(|&one| one == byte)
}

fn is_shared(block: *mut c_void, size: usize) -> bool {
    place_of(block as usize, size).is_some()
}

#[test]
fn large_blocks_can_be_shared_and_small_ones_are_glibcs() {
    start();
    for (size, shared) in [(0, false), (1, false), (LARGE - 1, false), (LARGE, true), (5 * LARGE + 3, true)] {
        let block = malloc(size);
        assert!(!block.is_null());
        fill(block, size, 7);
        assert_eq!(is_shared(block, size), shared);
        // SAFETY: the block is live.
        unsafe {
            assert!(malloc_usable_size(block) >= size);
            free(block);
        }
        assert!(!is_shared(block, 1));
    }
    // SAFETY: `free` takes null.
    unsafe { free(std::ptr::null_mut()) };
}

#[test]
fn the_file_has_the_bytes_of_a_block() {
    start();
    let block = malloc(3 * LARGE);
    fill(block, 3 * LARGE, 0xa5);
    let place = place_of(block as usize + 100, LARGE).unwrap();
    assert_eq!((place.offset, place.block_length), (place.block + 100, 3 * LARGE as u64));
    let mut bytes = vec![0_u8; LARGE];
    // SAFETY: reads into a buffer of that length.
    let read = unsafe { libc::pread(place.fd, bytes.as_mut_ptr().cast(), LARGE, place.offset as libc::off_t) };
    assert!(read == LARGE as isize && bytes.iter().all(|&one| one == 0xa5));
    assert!(place_of(block as usize + 100, 3 * LARGE).is_none());
    // SAFETY: the block is live.
    unsafe { free(block) };
}

#[test]
fn zeros_are_zeros_also_where_a_block_was_freed() {
    start();
    for size in [LARGE, 40 * LARGE, 400 * LARGE] {
        for _ in 0..3 {
            let block = calloc(size / 8, 8);
            assert!(holds(block, size, 0));
            fill(block, size, 0xff);
            // SAFETY: the block is live.
            unsafe { free(block) };
        }
    }
    assert!(calloc(usize::MAX / 2, 3).is_null());
    let sparse = calloc(1 << 38, 1);
    assert!(!sparse.is_null());
    fill(sparse, 4096, 1);
    // SAFETY: the block is live.
    unsafe { free(sparse) };
}

#[test]
fn blocks_grow_and_shrink() {
    start();
    let (mut block, mut size) = (malloc(10), 10);
    fill(block, size, 1);
    let sizes = [1000, LARGE - 1, LARGE, 2 * LARGE, 2 * LARGE + 1, 50 * LARGE, 300 * LARGE, 2 * LARGE, 64, LARGE, 9];
    for (step, next) in sizes.into_iter().enumerate() {
        // SAFETY: the block is live.
        block = unsafe { realloc(block, next) };
        assert!(holds(block, size.min(next), step as u8 + 1));
        fill(block, next, step as u8 + 2);
        size = next;
    }
    // SAFETY: as above; a size of 0 frees it.
    unsafe {
        assert!(reallocarray(block, usize::MAX, 2).is_null());
        free(block);
        let block = malloc(2 * LARGE);
        assert!(realloc(block, 0).is_null());
        let block = realloc(std::ptr::null_mut(), LARGE);
        assert!(is_shared(block, LARGE));
        free(block);
    }
}

#[test]
fn alignments() {
    start();
    for power in 4..22 {
        for size in [100, LARGE, 20 * LARGE] {
            let block = memalign(1 << power, size);
            assert_eq!(block as usize % (1 << power), 0);
            fill(block, size, 3);
            let mut other = std::ptr::null_mut();
            // SAFETY: `other` can be written to; both blocks are live.
            unsafe {
                assert_eq!(posix_memalign(&raw mut other, 1 << power, size), 0);
                assert_eq!(other as usize % (1 << power), 0);
                free(block);
                free(other);
            }
        }
    }
    let mut block = std::ptr::null_mut();
    // SAFETY: it can be written to.
    assert_eq!(unsafe { posix_memalign(&raw mut block, 24, LARGE) }, libc::EINVAL);
    for block in [valloc(LARGE), pvalloc(LARGE - 5)] {
        assert_eq!(block as usize % 4096, 0);
        // SAFETY: the block is live.
        unsafe { free(block) };
    }
}

#[test]
fn beyond_the_limit_there_is_no_memory() {
    start();
    assert!(malloc(isize::MAX as usize).is_null());
    assert!(malloc((1 << 30) + 1).is_null());
    // SAFETY: the error number of this thread.
    assert_eq!(unsafe { *libc::__errno_location() }, libc::ENOMEM);
    let mut to = std::ptr::null_mut();
    // SAFETY: it can be written to.
    assert_eq!(unsafe { posix_memalign(&raw mut to, 64, (1 << 30) + 1) }, libc::ENOMEM);
    let block = malloc(LARGE);
    fill(block, LARGE, 5);
    // SAFETY: the block is live, also after the failure.
    unsafe {
        assert!(realloc(block, (1 << 30) + 1).is_null());
        assert!(holds(block, LARGE, 5));
        free(block);
    }
}

#[test]
fn threads_keep_their_bytes() {
    start();
    let threads: Vec<_> = (0..6_u64)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut live: HashMap<usize, (usize, u8)> = HashMap::new();
                let mut seed = thread + 1;
                for step in 0..3000 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let draw = (seed >> 33) as usize;
                    let size = LARGE / 2 + draw % (4 * LARGE);
                    if live.len() < 8 {
                        let block = if draw % 3 == 0 { calloc(size, 1) } else { malloc(size) };
                        assert!(draw % 3 != 0 || holds(block, size, 0));
                        fill(block, size, step as u8);
                        live.insert(block as usize, (size, step as u8));
                        continue;
                    }
                    let address = *live.keys().nth(draw % live.len()).unwrap();
                    let (before, byte) = live.remove(&address).unwrap();
                    assert!(holds(address as *mut c_void, before, byte));
                    // SAFETY: the block is live, and is used under its new address only.
                    let moved = unsafe {
                        if draw % 2 == 0 {
                            free(address as *mut c_void);
                            continue;
                        }
                        realloc(address as *mut c_void, size)
                    };
                    assert!(holds(moved, before.min(size), byte));
                    fill(moved, size, step as u8);
                    live.insert(moved as usize, (size, step as u8));
                }
                for (address, (size, byte)) in live {
                    assert!(holds(address as *mut c_void, size, byte));
                    // SAFETY: the block is live.
                    unsafe { free(address as *mut c_void) };
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    trim();
    assert_eq!(usage().regions, 1);
}

#[test]
fn the_memory_of_freed_blocks_is_published() {
    start();
    // SAFETY: it is in use already, so the address is not kept.
    assert_eq!(unsafe { crate::report::craton_preload_start(0, 0, std::ptr::null_mut()) }, 1);
    let cached = Box::leak(Box::new(std::sync::atomic::AtomicU64::new(u64::MAX)));
    heap::publish(cached);
    let block = malloc(20 * LARGE);
    fill(block, 20 * LARGE, 1);
    // SAFETY: the block is live.
    unsafe { free(block) };
    heap::publish(std::ptr::null_mut());
    // Other tests free blocks at the same time.
    assert_ne!(cached.load(std::sync::atomic::Ordering::Relaxed), u64::MAX);
}
