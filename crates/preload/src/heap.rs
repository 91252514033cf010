//! All regions of the process, and what the functions of C do with them.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::glibc;
use crate::options::Options;
use crate::region::Region;

/// The most regions: each fork retires one.
pub const MOST_REGIONS: usize = 32;
/// Address space of a region in bytes, if the system grants as much.
const REGION: usize = 1 << 40;
const LEAST_REGION: usize = 1 << 32;

/// The address space of all regions, so that a pointer is recognised without a lock.
static START: AtomicUsize = AtomicUsize::new(0);
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// Blocks of at least this many bytes lie in regions; no block does before the library is initialised.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);

pub static HEAP: Mutex<Heap> = Mutex::new(Heap { regions: Vec::new(), options: None, child: false });

/// Where the bytes of freed blocks that kept their memory are written, for a process that watches this one; or null.
static CACHED: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// Write the bytes of freed blocks that kept their memory to an address from now on, which is valid until the process ends; or nowhere.
pub fn publish(cached: *mut AtomicU64) {
    CACHED.store(cached, Ordering::Release);
}

/// The regions.
pub struct Heap {
    pub regions: Vec<Region>,
    options: Option<Options>,
    /// Whether this is a forked child, which makes no regions.
    child: bool,
}

/// Whether an address is in a region.
pub fn is_ours(block: *const c_void) -> bool {
    (block as usize).wrapping_sub(START.load(Ordering::Relaxed)) < LENGTH.load(Ordering::Relaxed)
}

/// Whether a block of this size belongs into a region.
pub fn is_large(size: usize) -> bool {
    size >= THRESHOLD.load(Ordering::Relaxed)
}

/// Whether large blocks are handled.
pub fn is_initialised() -> bool {
    LENGTH.load(Ordering::Relaxed) != 0
}

/// Reserve address space, and handle large blocks from now on. `false` if the system refuses.
pub fn initialise(options: Options) -> bool {
    let mut length = REGION;
    // SAFETY: reads a limit.
    unsafe {
        let mut files: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut files) == 0 {
            let most = usize::try_from(files.rlim_cur).unwrap_or(usize::MAX);
            while length > most {
                length /= 2;
            }
        }
    }
    while length >= LEAST_REGION {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice, without access.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length * MOST_REGIONS, libc::PROT_NONE, flags, -1, 0) };
        if start != libc::MAP_FAILED {
            HEAP.lock().options = Some(options);
            START.store(start as usize, Ordering::Relaxed);
            LENGTH.store(length * MOST_REGIONS, Ordering::Relaxed);
            THRESHOLD.store(options.threshold, Ordering::Release);
            // glibc raises these limits itself when it frees a large block, which it never does here. Without that it would return the
            // end of its heap to the system after almost every block.
            // SAFETY: sets limits of glibc's allocator.
            unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20) };
            return true;
        }
        length /= 2;
    }
    false
}

impl Heap {
    /// The region that gives blocks; a new one if the last was retired.
    fn current(&mut self) -> Option<&mut Region> {
        let options = self.options?;
        if self.regions.last().is_none_or(Region::is_retired) {
            if self.child || self.regions.len() == MOST_REGIONS {
                return None;
            }
            let length = LENGTH.load(Ordering::Relaxed) / MOST_REGIONS;
            let base = START.load(Ordering::Relaxed) + self.regions.len() * length;
            self.regions.push(Region::create(base as *mut u8, length, options.keep)?);
        }
        self.regions.last_mut()
    }

    fn publish(&self) {
        let to = CACHED.load(Ordering::Acquire);
        if !to.is_null() {
            let cached = self.regions.iter().filter(|one| !one.is_retired()).map(Region::cached).sum::<usize>();
            // SAFETY: who set the address keeps the memory.
            unsafe { (*to).store(cached as u64, Ordering::Relaxed) };
        }
    }

    /// The region that contains an address, and the offset in it.
    pub fn find(&mut self, address: usize) -> Option<(&mut Region, usize)> {
        let length = LENGTH.load(Ordering::Relaxed) / MOST_REGIONS;
        let region = self.regions.get_mut(address.wrapping_sub(START.load(Ordering::Relaxed)) / length.max(1))?;
        let offset = region.offset_of(address)?;
        Some((region, offset))
    }

    /// Whether `size` more bytes would exceed the limit.
    fn exceeds(&mut self, size: usize) -> bool {
        let limit = self.options.map_or(usize::MAX, |options| options.limit);
        if limit == usize::MAX {
            return false;
        }
        let (mut resident, mut cached) = (0_usize, 0_usize);
        for one in &self.regions {
            let bytes = one.resident();
            resident += bytes;
            cached += one.cached().min(bytes);
        }
        if (resident - cached).saturating_add(size) <= limit {
            // The cached memory may have to make room.
            if resident.saturating_add(size) > limit {
                self.regions.iter_mut().filter(|one| !one.is_retired()).for_each(Region::trim);
            }
            return false;
        }
        true
    }
}

/// A large block, and how many of its bytes are not known to be zero. `None`: glibc shall allocate it. A null pointer: there is no memory.
fn place(size: usize, alignment: usize, room: usize, sparse: bool) -> Option<(*mut c_void, usize)> {
    if size > isize::MAX as usize {
        return Some((std::ptr::null_mut(), 0));
    }
    let mut heap = HEAP.lock();
    if !sparse && heap.exceeds(size) {
        return Some((std::ptr::null_mut(), 0));
    }
    let (start, dirty) = heap.current()?.allocate(size, alignment, room, sparse)?;
    heap.publish();
    Some((start.cast(), dirty))
}

fn no_memory() -> *mut c_void {
    // SAFETY: the error number of this thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    std::ptr::null_mut()
}

/// A large block of `size` bytes at a multiple of `alignment`.
pub fn allocate(size: usize, alignment: usize) -> *mut c_void {
    match place(size, alignment, size, false) {
        Some((block, _)) if block.is_null() => no_memory(),
        Some((block, _)) => block,
        None if alignment <= 16 => glibc::malloc(size),
        None => glibc::memalign(alignment, size),
    }
}

/// A large block of zeros. It takes no memory before it is written to, so the limit does not count it.
pub fn allocate_zeros(size: usize) -> *mut c_void {
    match place(size, 16, size, true) {
        Some((block, _)) if block.is_null() => no_memory(),
        Some((block, dirty)) => {
            // SAFETY: the block has at least `size` bytes.
            unsafe { std::ptr::write_bytes(block.cast::<u8>(), 0, dirty.min(size)) };
            block
        }
        None => glibc::calloc(size, 1),
    }
}

/// `realloc`, where the block lies in a region or the new size is large; the block is not null and the size not 0.
///
/// # Safety
/// The block is live.
pub unsafe fn reallocate(block: *mut c_void, size: usize) -> *mut c_void {
    if !is_ours(block) {
        // SAFETY: the caller's; the block is glibc's.
        let old = unsafe { glibc::usable_size(block) };
        if is_large(old) {
            // glibc moves the pages of its own large blocks without copying them.
            // SAFETY: as above.
            return unsafe { glibc::realloc(block, size) };
        }
        let Some((new, _)) = place(size, 16, size, false) else {
            // SAFETY: as above.
            return unsafe { glibc::realloc(block, size) };
        };
        if new.is_null() {
            return no_memory();
        }
        // SAFETY: both blocks have at least as many bytes, and they are different ones.
        unsafe {
            std::ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old.min(size));
            glibc::free(block);
        }
        return new;
    }
    let mut heap = HEAP.lock();
    let Some((old, retired)) = heap.find(block as usize).and_then(|(region, offset)| {
        let old = region.block(offset)?.size;
        Some((old, region.is_retired()))
    }) else {
        drop(heap);
        foreign("realloc", block);
    };
    if size > old && heap.exceeds(size - old) {
        return no_memory();
    }
    if is_large(size) && !(retired && size > old) {
        if let Some((region, offset)) = heap.find(block as usize) {
            if region.resize(offset, size) {
                return block;
            }
        }
    }
    drop(heap);
    let new = if is_large(size) {
        // A block that grows once will grow again: address space costs nothing.
        match place(size, 16, size.saturating_add(size.min(1 << 36)), false) {
            Some((new, _)) => new,
            None => glibc::malloc(size),
        }
    } else {
        glibc::malloc(size)
    };
    if new.is_null() {
        return no_memory();
    }
    // SAFETY: both blocks have at least as many bytes, and they are different ones.
    unsafe { std::ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old.min(size)) };
    free(block);
    new
}

/// Free a block of a region.
pub fn free(block: *mut c_void) {
    let mut heap = HEAP.lock();
    let freed =
        heap.find(block as usize).is_some_and(|(region, offset)| region.block(offset).is_some() && region.free(offset));
    heap.publish();
    drop(heap);
    if !freed {
        foreign("free", block);
    }
}

/// The bytes of a block of a region.
pub fn usable_size(block: *mut c_void) -> usize {
    let mut heap = HEAP.lock();
    // Not its capacity: what is written beyond the size would not be copied with it.
    heap.find(block as usize).and_then(|(region, offset)| region.block(offset).map(|block| block.size)).unwrap_or(0)
}

/// End the process, as glibc does: the program has freed an address that is not a block, or one twice.
fn foreign(function: &str, block: *mut c_void) -> ! {
    let said = format!("{function}(): {block:p} is not a block\n");
    // SAFETY: writes the bytes to the standard error output, and ends the process.
    unsafe {
        libc::write(2, said.as_ptr().cast(), said.len());
        libc::abort()
    }
}

/// Before a fork: retire all regions, and hold the lock.
pub fn before_fork() {
    let mut heap = HEAP.lock();
    if !heap.regions.iter_mut().all(Region::retire) {
        let said = b"fork(): the memory that is shared with other processes could not be mapped privately\n";
        // SAFETY: as above. To go on would let two processes write to the same memory.
        unsafe {
            libc::write(2, said.as_ptr().cast(), said.len());
            libc::abort()
        }
    }
    // SAFETY: written under the lock, which is held until the thread that forks takes the guard out again.
    unsafe { *HELD.0.get() = Some(heap) };
}

/// The lock during a fork.
struct Held(UnsafeCell<Option<MutexGuard<'static, Heap>>>);

// SAFETY: only the thread that has the lock reads or writes it.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// After a fork: release the lock.
pub fn after_fork(child: bool) {
    // SAFETY: the thread that forked, or its copy in the child, holds the lock.
    if let Some(mut heap) = unsafe { (*HELD.0.get()).take() } {
        heap.child |= child;
        if child {
            publish(std::ptr::null_mut());
        }
    }
}
