//! Memory of values: pieces of the caller's, which are sent, and blocks that values are received into.

use rustix::mm::{MapFlags, ProtFlags};

/// A piece of the caller's memory that is sent. The pieces of a message follow each other without a gap.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    /// The first byte.
    pub start: *const u8,
    /// The number of bytes.
    pub length: usize,
}

// SAFETY: a piece is an address; whoever sends it promises that the memory stays valid and unchanged during the call.
unsafe impl Send for Piece {}
// SAFETY: as above; it is only read.
unsafe impl Sync for Piece {}

impl Piece {
    /// The memory of a slice.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { start: bytes.as_ptr(), length: bytes.len() }
    }

    pub(crate) fn part(self, from: usize, length: usize) -> Self {
        debug_assert!(from + length <= self.length);
        Self { start: self.start.wrapping_add(from), length }
    }
}

/// The total length of pieces, in bytes.
pub(crate) fn total(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.length).sum()
}

/// The pieces of the bytes `from..from + length` of a message.
pub(crate) fn slice(pieces: &[Piece], mut from: usize, mut length: usize) -> Vec<Piece> {
    let mut found = Vec::new();
    for piece in pieces {
        if from >= piece.length {
            from -= piece.length;
            continue;
        }
        let taken = (piece.length - from).min(length);
        if taken > 0 {
            found.push(piece.part(from, taken));
        }
        (from, length) = (0, length - taken);
        if length == 0 {
            break;
        }
    }
    found
}

/// From this size on, a block is a mapping of its own, for which huge pages are asked.
const MAPPED_FROM: usize = 4 << 20;
const ALIGNMENT: usize = 64;

/// A new mapping that begins where a huge page does, so that the kernel can use them; `None` without memory.
fn map_at_huge_page(length: usize) -> Option<*mut u8> {
    const HUGE: usize = 2 << 20;
    let page = rustix::param::page_size();
    let (whole, used) = (length.checked_add(HUGE)?.next_multiple_of(page), length.next_multiple_of(page));
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
    let first = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), whole, protection, MapFlags::PRIVATE) };
    let first = first.ok()?.cast::<u8>();
    let before = first.addr().next_multiple_of(HUGE) - first.addr();
    let start = first.wrapping_add(before);
    let after = whole - before - used;
    // SAFETY: the ends of the mapping, which nothing refers to; the advice changes no byte. A kernel without huge pages refuses it: ignored.
    unsafe {
        if before > 0 {
            let _ = rustix::mm::munmap(first.cast(), before);
        }
        if after > 0 {
            let _ = rustix::mm::munmap(start.wrapping_add(used).cast(), after);
        }
        #[cfg(target_os = "linux")]
        let _ = rustix::mm::madvise(start.cast(), used, rustix::mm::Advice::LinuxHugepage);
    }
    Some(start)
}

/// Memory that a value was received into, aligned to 64 bytes.
#[derive(Debug)]
pub struct Block {
    start: *mut u8,
    length: usize,
}

// SAFETY: the block owns its memory.
unsafe impl Send for Block {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Block {}

impl Block {
    /// Memory of unspecified contents.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn new(length: usize) -> crate::Result<Self> {
        let failed = || crate::Error::System { what: "allocate memory for a value", reason: format!("{length} bytes") };
        if length == 0 {
            return Ok(Self { start: ALIGNMENT as *mut u8, length });
        }
        if length < MAPPED_FROM {
            // SAFETY: the layout's size is not 0.
            let start = unsafe { std::alloc::alloc(Self::layout(length)) };
            return if start.is_null() { Err(failed()) } else { Ok(Self { start, length }) };
        }
        let start = map_at_huge_page(length).ok_or_else(failed)?;
        Ok(Self { start, length })
    }

    fn layout(length: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(length, ALIGNMENT).expect("a length below isize::MAX")
    }

    pub(crate) fn copy_of(pieces: &[Piece]) -> crate::Result<Self> {
        let block = Self::new(total(pieces))?;
        let mut at = 0;
        for piece in pieces {
            // SAFETY: the sender keeps the piece valid; the block has room for all of them.
            unsafe { std::ptr::copy_nonoverlapping(piece.start, block.start.add(at), piece.length) };
            at += piece.length;
        }
        Ok(block)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block owns `length` bytes at `start`; every byte was written when the value was received.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.length == 0 {
            return;
        }
        if self.length < MAPPED_FROM {
            // SAFETY: allocated with the same layout.
            unsafe { std::alloc::dealloc(self.start, Self::layout(self.length)) };
        } else {
            // SAFETY: mapped by `new` with this length, and nothing refers to it any more.
            let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Piece, slice};

    #[test]
    fn pieces_are_cut_where_asked() {
        let (first, second, third) = ([1_u8, 2, 3], [4_u8], [5_u8, 6]);
        let pieces = [Piece::of(&first), Piece::of(&second), Piece::of(&third)];
        for from in 0..=6 {
            for length in 0..=6 - from {
                let block = Block::copy_of(&slice(&pieces, from, length)).unwrap();
                assert_eq!(block.bytes(), &[1, 2, 3, 4, 5, 6][from..from + length]);
            }
        }
    }

    #[test]
    fn large_blocks_are_mappings() {
        let bytes = vec![7_u8; 5 << 20];
        assert_eq!(Block::copy_of(&[Piece::of(&bytes)]).unwrap().bytes(), &bytes[..]);
    }
}
