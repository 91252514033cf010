//! Taking over a memfd that another process wrote.

#![cfg(target_os = "linux")]

use std::os::fd::OwnedFd;
use std::sync::Arc;

use craton_slab::{Error, Segment, Slab, SlabOptions, locate};
use rustix::fs::{MemfdFlags, SealFlags};

const PAGE: usize = 4096;
const LENGTH: usize = 1 << 30;

/// A sparse memfd that has the byte `value` in each of the ranges.
fn written(ranges: &[(usize, usize, u8)]) -> OwnedFd {
    let fd = rustix::fs::memfd_create("adopted", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, LENGTH as u64).unwrap();
    for &(offset, length, value) in ranges {
        assert_eq!(rustix::io::pwrite(&fd, &vec![value; length], offset as u64).unwrap(), length);
    }
    fd
}

fn resident(segment: &Segment) -> u64 {
    segment.resident().unwrap()
}

#[test]
fn blocks_are_readable_and_all_else_is_returned() {
    let slab = Slab::new(SlabOptions::default());
    let fd = written(&[(0, 10 * PAGE, 1), (1 << 20, 3 * PAGE, 2), (1 << 25, 50 * PAGE, 3), (1 << 29, PAGE, 4)]);
    // The first, of which one page is a block, and the third.
    let mut extents = slab.adopt(fd, LENGTH, &[(1 << 25, 50 * PAGE), (2 * PAGE, PAGE)]).unwrap();
    let (large, small) = (extents.pop().unwrap(), extents.pop().unwrap());
    assert_eq!((small.len(), large.len()), (PAGE, 50 * PAGE));
    assert!(small.as_slice().iter().all(|&byte| byte == 1) && large.as_slice().iter().all(|&byte| byte == 3));
    let segment = Arc::clone(small.segment());
    assert_eq!(resident(&segment), 51 * PAGE as u64);
    assert!(segment.len() < 1 << 26 && !segment.is_writable());
    assert_eq!(slab.usage().used, 51 * PAGE as u64);
    let (found, offset) = locate(small.as_ptr(), PAGE).unwrap();
    assert_eq!((found.id(), offset), (segment.id(), 2 * PAGE));
    let small = slab.share(small);
    assert!(Arc::ptr_eq(&slab.find(segment.id(), 2 * PAGE + 7).unwrap(), &small));
    assert!(slab.find(segment.id(), 0).is_none());
    drop(large);
    assert_eq!(resident(&segment), PAGE as u64);
    assert!(small.as_slice().iter().all(|&byte| byte == 1));
    drop(small);
    drop((found, segment));
    let usage = slab.usage();
    assert_eq!((usage.used, usage.touched, usage.segments), (0, 0, 0));
}

#[test]
fn neighbours_keep_the_pages_that_they_share() {
    let slab = Slab::new(SlabOptions::default());
    let fd = written(&[(0, 4 * PAGE, 9)]);
    let mut extents =
        slab.adopt(fd, LENGTH, &[(0, PAGE + 64), (PAGE + 64, PAGE), (2 * PAGE + 64, 2 * PAGE - 64)]).unwrap();
    let segment = Arc::clone(extents[0].segment());
    drop(extents.remove(1));
    assert!(extents.iter().all(|extent| extent.as_slice().iter().all(|&byte| byte == 9)));
    drop(extents.remove(0));
    assert!(extents[0].as_slice().iter().all(|&byte| byte == 9));
    assert!(resident(&segment) <= 3 * PAGE as u64);
}

#[test]
fn others_can_only_read() {
    let slab = Slab::new(SlabOptions::default());
    let extents = slab.adopt(written(&[(0, PAGE, 5)]), LENGTH, &[(0, PAGE)]).unwrap();
    let segment = extents[0].segment();
    assert!(segment.writable_fd().is_err());
    let shared = segment.share_fd().unwrap().try_clone_to_owned().unwrap();
    assert!(rustix::io::pwrite(&shared, b"x", 0).is_err());
    let length = segment.len();
    assert!(Segment::attach(7, shared.try_clone().unwrap(), length, true).is_err());
    let theirs = Segment::attach(7, shared, length, false).unwrap();
    // SAFETY: the mapping has at least a page.
    assert_eq!(unsafe { *theirs.as_ptr() }, 5);
    drop(extents);
    // The memory was returned to the system also after others had got the descriptor.
    assert_eq!(theirs.resident().unwrap(), 0);
}

#[test]
fn what_cannot_be_adopted_is_refused() {
    let slab = Slab::new(SlabOptions { limit: 1 << 20, ..SlabOptions::default() });
    let refused = |blocks: &[(usize, usize)]| slab.adopt(written(&[]), LENGTH, blocks).unwrap_err();
    assert!(matches!(refused(&[(0, LENGTH + 1)]), Error::Outside { .. }));
    assert!(matches!(refused(&[(usize::MAX, 64)]), Error::Outside { .. }));
    assert!(matches!(refused(&[(32, 64)]), Error::Foreign { .. }));
    assert!(matches!(refused(&[(0, 65), (64, 64)]), Error::Foreign { .. }));
    assert!(matches!(refused(&[(0, 0)]), Error::Foreign { .. }));
    assert!(matches!(refused(&[(0, (1 << 20) + 1)]), Error::Full { .. }));
    let sealed = written(&[]);
    rustix::fs::fcntl_add_seals(&sealed, SealFlags::FUTURE_WRITE).unwrap();
    assert!(slab.adopt(sealed, LENGTH, &[(0, 64)]).is_err());
    let file = rustix::fs::open("/dev/zero", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    assert!(slab.adopt(file, 0, &[]).is_err());
    assert!(slab.adopt(written(&[]), LENGTH, &[]).unwrap().is_empty());
    assert_eq!(slab.usage().used, 0);
}
