//! A region: a sparse memfd, its mapping, and the blocks in it.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;

use crate::ranges::Ranges;

/// Bytes of a page. Blocks start at pages.
pub const PAGE: usize = 4096;

/// Descriptors of regions have at least this number, if the limit of the process allows it.
const HIGH: c_int = 500;

/// Pages of a region that belong to the program.
pub struct Block {
    /// Bytes that the program asked for.
    pub size: usize,
    // Of the pages, the first `touched` may have memory.
    pages: u32,
    touched: u32,
    /// Whether it was zeros at first, so that pages to which nothing was written have no memory.
    sparse: bool,
}

impl Block {
    /// Bytes that it can have without being moved.
    pub fn capacity(&self) -> usize {
        self.pages as usize * PAGE
    }
}

/// A sparse memfd and its mapping.
pub struct Region {
    base: *mut u8,
    length: usize,
    fd: RawFd,
    /// The file's number, by which a descriptor that the program closed and used again is told from the region's.
    inode: libc::ino_t,
    blocks: BTreeMap<u32, Block>,
    /// Free pages without memory, which are zeros when they are read.
    clean: Ranges,
    /// Free pages that may have memory.
    dirty: Ranges,
    keep: usize,
    retired: bool,
}

// SAFETY: the pointer is to a mapping that is never removed.
unsafe impl Send for Region {}

impl Region {
    /// A region of `length` bytes at `base`, where address space is reserved for it; `None` if the system refuses.
    pub fn create(base: *mut u8, length: usize, keep: usize) -> Option<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a new file that nothing else refers to, mapped over address space that was reserved for it.
        unsafe {
            let low = libc::memfd_create(c"craton-preload".as_ptr(), flags);
            if low < 0 {
                return None;
            }
            // A program that closes a descriptor by mistake, or opens the standard output again, uses the low numbers.
            let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, HIGH);
            let fd = if high < 0 { low } else { high };
            if fd != low {
                libc::close(low);
            }
            let mut stat: libc::stat = std::mem::zeroed();
            let shared = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            if libc::fstat(fd, &raw mut stat) != 0
                || libc::ftruncate(fd, length as libc::off_t) != 0
                || libc::mmap(base.cast(), length, access, shared, fd, 0) == libc::MAP_FAILED
            {
                libc::close(fd);
                return None;
            }
            libc::madvise(base.cast(), length, libc::MADV_HUGEPAGE);
            libc::madvise(base.cast(), length, libc::MADV_DONTDUMP);
            let (blocks, mut clean, dirty) = (BTreeMap::new(), Ranges::new(), Ranges::new());
            clean.put(0, u32::try_from(length / PAGE).unwrap_or(u32::MAX));
            Some(Self { base, length, fd, inode: stat.st_ino, blocks, clean, dirty, keep, retired: false })
        }
    }

    /// Its descriptor.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Its length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether its descriptor is still that of its file: the program may have closed it.
    pub fn has_descriptor(&self) -> bool {
        // SAFETY: `stat` is written before it is read, and all of its bit patterns are valid.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            libc::fstat(self.fd, &raw mut stat) == 0 && stat.st_ino == self.inode
        }
    }

    /// Whether it was retired by a fork.
    pub fn is_retired(&self) -> bool {
        self.retired
    }

    /// The offset of an address, if it is in the region.
    pub fn offset_of(&self, address: usize) -> Option<usize> {
        address.checked_sub(self.base as usize).filter(|&offset| offset < self.length)
    }

    /// Bytes of memory that the file has.
    pub fn resident(&self) -> usize {
        // SAFETY: `stat` is written before it is read, and all of its bit patterns are valid.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(self.fd, &raw mut stat) != 0 {
                return 0;
            }
            usize::try_from(stat.st_blocks).unwrap_or(0) * 512
        }
    }

    /// Bytes of freed blocks that kept their memory.
    pub fn cached(&self) -> usize {
        self.dirty.pages() * PAGE
    }

    /// A block of `size` bytes at a multiple of `alignment`, and how many of its bytes, from its start on, are not known to be zero. `room` is
    /// the capacity that it should have in order to grow. `None` if there is no room.
    pub fn allocate(&mut self, size: usize, alignment: usize, room: usize, sparse: bool) -> Option<(*mut u8, usize)> {
        if self.retired {
            return None;
        }
        let pages = u32::try_from(size.max(1).div_ceil(PAGE)).ok()?;
        let wanted = u32::try_from(room.max(size).max(1).div_ceil(PAGE)).ok()?;
        if alignment <= PAGE {
            let most = self.dirty.largest().min(wanted).max(pages);
            let taken = self.dirty.take(most);
            self.keep_at_most(self.keep);
            if let Some(first) = taken {
                self.blocks.insert(first, Block { size, pages: most, touched: most, sparse: false });
                return Some((self.at(first), most as usize * PAGE));
            }
        }
        self.keep_at_most(self.keep);
        let unit = alignment.div_ceil(PAGE).max(1);
        let asked = wanted.checked_add(u32::try_from(unit - 1).ok()?)?;
        let start = loop {
            if let Some(start) = self.clean.take(asked) {
                break start;
            }
            if self.dirty.pages() == 0 {
                return None;
            }
            self.trim();
        };
        let address = (self.base as usize + start as usize * PAGE).next_multiple_of(unit * PAGE);
        let first = ((address - self.base as usize) / PAGE) as u32;
        self.clean.put(start, first - start);
        self.clean.put(first + wanted, start + asked - first - wanted);
        self.blocks.insert(first, Block { size, pages: wanted, touched: pages, sparse });
        Some((self.at(first), 0))
    }

    fn at(&self, first: u32) -> *mut u8 {
        // SAFETY: the page is within the mapping.
        unsafe { self.base.add(first as usize * PAGE) }
    }

    /// The block that starts at an offset.
    pub fn block(&self, offset: usize) -> Option<&Block> {
        if offset % PAGE != 0 {
            return None;
        }
        self.blocks.get(&u32::try_from(offset / PAGE).ok()?)
    }

    /// The block that contains an offset: its start and its bytes.
    pub fn containing(&self, offset: usize) -> Option<(usize, usize)> {
        let page = u32::try_from(offset / PAGE).ok()?;
        let (&first, block) = self.blocks.range(..=page).next_back()?;
        let start = first as usize * PAGE;
        (offset - start < block.size.max(1)).then_some((start, block.size))
    }

    /// Give a block another size without moving it; `false` if it has not enough pages.
    pub fn resize(&mut self, offset: usize, size: usize) -> bool {
        let Ok(first) = u32::try_from(offset / PAGE) else { return false };
        let Some(block) = self.blocks.get_mut(&first) else { return false };
        if size > block.capacity() {
            return false;
        }
        let pages = size.max(1).div_ceil(PAGE) as u32;
        block.size = size;
        block.touched = block.touched.max(pages);
        let freed = block.pages - pages;
        // What remains is that much smaller: its end is free. Else it may grow again.
        if !self.retired && freed as usize * PAGE >= 1 << 20 && pages <= block.touched / 2 {
            let touched = std::mem::replace(&mut block.touched, pages);
            block.pages = pages;
            self.dirty.put(first + pages, touched - pages);
            self.clean.put(first + touched, pages + freed - touched);
            self.keep_at_most(self.keep);
        }
        true
    }

    /// Free the block at an offset; `false` if there is none.
    pub fn free(&mut self, offset: usize) -> bool {
        let Ok(first) = u32::try_from(offset / PAGE) else { return false };
        let Some(block) = self.blocks.remove(&first) else { return false };
        let touched = block.touched as usize * PAGE;
        if self.retired {
            // A child of the fork may still read the file; only what this process wrote since then is its own.
            // SAFETY: the range is a block of the mapping that nothing uses any more.
            unsafe { libc::madvise(self.at(first).cast(), touched, libc::MADV_DONTNEED) };
            return true;
        }
        if block.sparse && self.has_holes(first, block.touched) {
            self.punch(first, block.touched);
            self.clean.put(first, block.pages);
            return true;
        }
        self.dirty.put(first, block.touched);
        self.clean.put(first + block.touched, block.pages - block.touched);
        // A program often frees a large block and asks for another of that size at once: what is freed last keeps its memory until then.
        self.keep_at_most(self.keep.saturating_add(touched));
        true
    }

    /// Return memory of free pages to the system, until at most so many bytes have memory.
    fn keep_at_most(&mut self, bytes: usize) {
        while self.dirty.pages() * PAGE > bytes {
            let excess = self.dirty.pages() - bytes / PAGE;
            let Some((start, pages)) = self.dirty.take_end(u32::try_from(excess).unwrap_or(u32::MAX)) else { break };
            self.punch(start, pages);
            self.clean.put(start, pages);
        }
    }

    /// Whether some of the pages have no memory.
    fn has_holes(&self, first: u32, pages: u32) -> bool {
        if !self.has_descriptor() {
            return true;
        }
        let start = first as libc::off_t * PAGE as libc::off_t;
        // SAFETY: reads the descriptor's file; nothing uses the position that it sets.
        let hole = unsafe { libc::lseek(self.fd, start, libc::SEEK_HOLE) };
        hole < start + pages as libc::off_t * PAGE as libc::off_t
    }

    fn punch(&self, first: u32, pages: u32) {
        let (start, length) = (first as usize * PAGE, pages as usize * PAGE);
        // By the mapping, not by the descriptor, which may be another file's if the program closed it.
        // SAFETY: the pages are in no block that the program uses. If the system refuses, they keep their contents, which is why a failure
        // is made good by writing zeros.
        unsafe {
            let address = self.base.add(start);
            while libc::madvise(address.cast(), length, libc::MADV_REMOVE) != 0 {
                if *libc::__errno_location() != libc::EINTR {
                    std::ptr::write_bytes(address, 0, length);
                    break;
                }
            }
        }
    }

    /// Return the memory of all freed blocks to the system.
    pub fn trim(&mut self) {
        self.keep_at_most(0);
    }

    /// Map the file privately, before a fork. `false` if the system refuses.
    pub fn retire(&mut self) -> bool {
        if self.retired {
            return true;
        }
        if !self.has_descriptor() {
            return false;
        }
        self.trim();
        let private = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the same file at the same addresses; the bytes are those that were there.
        let mapped = unsafe { libc::mmap(self.base.cast::<c_void>(), self.length, access, private, self.fd, 0) };
        self.retired = mapped != libc::MAP_FAILED;
        self.retired
    }
}
