//! Segments: the rights that their descriptors grant, and the errors of invalid descriptors.

mod common;

use std::os::fd::{AsFd, OwnedFd};

use common::{backings, is_file};
use craton_slab::{Backing, Error, Segment, SegmentOptions, locate};
use rustix::mm::{MapFlags, ProtFlags, mmap, mprotect, munmap};

const LENGTH: usize = 1 << 21;

fn made(backing: &Backing, client: bool) -> std::sync::Arc<Segment> {
    let options = SegmentOptions { backing: backing.clone(), client, ..SegmentOptions::default() };
    let segment = Segment::create_with(7, LENGTH, &options).unwrap();
    segment.reserve(0, LENGTH).unwrap();
    segment
}

fn write(segment: &Segment, offset: usize, byte: u8) {
    assert!(segment.is_writable() && offset < segment.len());
    // SAFETY: in the mapping, which is writable; no reference to the byte exists.
    unsafe { segment.as_ptr().cast_mut().add(offset).write_volatile(byte) };
}

fn read(segment: &Segment, offset: usize) -> u8 {
    assert!(offset < segment.len());
    // SAFETY: in the mapping.
    unsafe { segment.as_ptr().add(offset).read_volatile() }
}

/// Nothing that a receiver may try changes the segment.
fn assert_harmless(fd: &OwnedFd, kind: &str) {
    // SAFETY: fresh mappings that nothing else uses; created and removed here.
    unsafe {
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        assert!(
            mmap(std::ptr::null_mut(), LENGTH, writable, MapFlags::SHARED, fd, 0).is_err(),
            "{kind}: mapped for writing"
        );
        let read_only = mmap(std::ptr::null_mut(), LENGTH, ProtFlags::READ, MapFlags::SHARED, fd, 0).unwrap();
        let protection = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
        assert!(mprotect(read_only, LENGTH, protection).is_err(), "{kind}: made writable");
        munmap(read_only, LENGTH).unwrap();
    }
    assert!(rustix::fs::ftruncate(fd, 4096).is_err(), "{kind}: shrunk");
    assert!(rustix::fs::ftruncate(fd, 2 * LENGTH as u64).is_err(), "{kind}: grown");
    assert!(rustix::io::write(fd, b"x").is_err(), "{kind}: written");
    assert!(rustix::io::pwrite(fd, b"x", 0).is_err(), "{kind}: written");
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals};
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(fallocate(fd, hole, 0, 4096).is_err(), "{kind}: punched");
        assert!(fcntl_add_seals(fd, SealFlags::WRITE).is_err(), "{kind}: sealed further");
    }
}

#[test]
fn a_receiver_can_only_read() {
    for backing in backings() {
        for client in [false, true] {
            let kind = format!("{backing:?} client={client}");
            let home = made(&backing, client);
            write(&home, 5, 42);
            let sent = home.share_fd().unwrap().try_clone_to_owned().unwrap();
            assert!(home.is_sealed());
            assert_harmless(&sent, &kind);
            let there = Segment::attach(7, sent, LENGTH, false).unwrap();
            assert!(there.is_sealed() && !there.is_writable() && !there.is_for_client());
            assert_eq!(read(&there, 5), 42);
            // The creator can still write, and the reader sees it.
            write(&home, 5, 43);
            assert_eq!((read(&there, 5), read(&there, 6)), (43, 0));
            // A receiver may pass the descriptor on, with the same restrictions.
            assert_harmless(&there.share_fd().unwrap().try_clone_to_owned().unwrap(), &kind);
            assert!(matches!(there.writable_fd(), Err(Error::Foreign { .. })));
            // A second call returns a descriptor with the same restrictions.
            assert_harmless(&home.share_fd().unwrap().try_clone_to_owned().unwrap(), &kind);
        }
    }
}

#[test]
fn only_the_client_can_map_for_writing() {
    for backing in backings() {
        let home = made(&backing, true);
        assert!(home.is_for_client());
        let granted = home.writable_fd().unwrap().try_clone_to_owned().unwrap();
        let kept = granted.try_clone().unwrap();
        let client = Segment::attach(7, granted, LENGTH, true).unwrap();
        assert!(matches!(client.seal(), Err(Error::Foreign { id: 7, .. })));
        assert!(matches!(client.share_fd(), Err(Error::Foreign { id: 7, .. })));
        home.seal().unwrap();
        home.seal().unwrap();
        assert!(matches!(home.writable_fd(), Err(Error::Sealed { id: 7 })));
        write(&client, 100, 9);
        assert_eq!(read(&home, 100), 9);
        if !is_file(&backing) {
            // The descriptor that the client still has permits neither another writable mapping nor a change of the length.
            assert!(rustix::fs::ftruncate(&kept, 0).is_err());
            assert!(rustix::io::pwrite(&kept, b"x", 0).is_err());
            assert!(matches!(Segment::attach(7, kept, LENGTH, true), Err(Error::System { .. })));
        }
        let reader = Segment::attach(7, home.share_fd().unwrap().try_clone_to_owned().unwrap(), LENGTH, false).unwrap();
        write(&client, 101, 10);
        assert_eq!((read(&reader, 100), read(&reader, 101)), (9, 10));
    }
}

#[test]
fn before_it_is_sealed_a_client_cannot_change_its_length() {
    let home = Segment::create_for_client(1, LENGTH).unwrap();
    if is_file(&Backing::default()) {
        return;
    }
    let fd = home.writable_fd().unwrap().try_clone_to_owned().unwrap();
    assert!(rustix::fs::ftruncate(&fd, 0).is_err());
    assert!(rustix::fs::ftruncate(&fd, 2 * LENGTH as u64).is_err());
}

#[test]
fn a_segment_that_is_not_for_a_client_has_no_writable_descriptor() {
    let segment = Segment::create(3, LENGTH).unwrap();
    assert!(!segment.is_for_client() && !segment.is_sealed());
    assert!(matches!(segment.writable_fd(), Err(Error::Foreign { id: 3, .. })));
}

#[test]
fn wrong_descriptors_are_refused() {
    for backing in backings() {
        let segment = made(&backing, false);
        let fd = || segment.fd().as_fd().try_clone_to_owned().unwrap();
        for length in [0, LENGTH - 4096, LENGTH + 4096, usize::MAX] {
            let error = Segment::attach(7, fd(), length, false).err().unwrap();
            assert!(error.to_string().starts_with("segment 0x7: its length"), "{error}");
        }
        let (pipe, _other) = std::io::pipe().unwrap();
        assert!(matches!(Segment::attach(7, pipe.into(), LENGTH, false), Err(Error::Foreign { .. })));
        let shared = segment.share_fd().unwrap().try_clone_to_owned().unwrap();
        assert!(matches!(Segment::attach(7, shared, LENGTH, true), Err(Error::System { .. })));
    }
    let folder = std::fs::File::open(std::env::temp_dir()).unwrap();
    assert!(Segment::attach(7, folder.into(), LENGTH, false).is_err());
}

#[test]
fn segments_that_cannot_be_created() {
    for backing in backings() {
        let options = SegmentOptions { backing, ..SegmentOptions::default() };
        assert!(Segment::create_with(1, 0, &options).is_err());
        assert!(Segment::create_with(1, usize::MAX / 2, &options).is_err());
    }
    let nowhere = Backing::File(std::env::temp_dir().join("no such folder of craton"));
    let options = SegmentOptions { backing: nowhere, ..SegmentOptions::default() };
    let error = Segment::create_with(1, LENGTH, &options).err().unwrap();
    assert!(error.to_string().starts_with("make a file for a segment: "), "{error}");
}

#[test]
fn ranges_are_checked() {
    let segment = Segment::create(5, LENGTH).unwrap();
    for (offset, length) in [(0, LENGTH + 1), (LENGTH, 1), (LENGTH + 1, 0), (1, usize::MAX)] {
        assert!(matches!(segment.prefault(offset, length), Err(Error::Outside { id: 5, .. })));
        assert!(matches!(segment.reserve(offset, length), Err(Error::Outside { id: 5, .. })));
    }
    segment.prefault(LENGTH, 0).unwrap();
    segment.reserve(LENGTH, 0).unwrap();
}

#[test]
fn prefault_fetches_pages_and_changes_nothing() {
    for backing in backings() {
        let home = made(&backing, false);
        write(&home, 4097, 1);
        home.prefault(4000, 1 << 20).unwrap();
        assert_eq!((read(&home, 4097), read(&home, 4098)), (1, 0));
        if cfg!(target_os = "linux") {
            assert!(home.resident().unwrap() >= 1 << 20);
        }
        let there = Segment::attach(7, home.share_fd().unwrap().try_clone_to_owned().unwrap(), LENGTH, false).unwrap();
        there.prefault(0, LENGTH).unwrap();
        assert_eq!(read(&there, 4097), 1);
    }
}

#[test]
fn located_while_it_is_mapped() {
    for backing in backings() {
        let segment = made(&backing, false);
        let start = segment.as_ptr();
        let (found, offset) = locate(start.wrapping_add(10), 20).unwrap();
        assert!(std::sync::Arc::ptr_eq(&found, &segment));
        assert_eq!(offset, 10);
        assert!(locate(start, LENGTH).is_some() && locate(start.wrapping_add(LENGTH), 0).is_some());
        assert!(locate(start.wrapping_add(1), LENGTH).is_none());
        assert!(locate(start.wrapping_add(LENGTH - 1), 2).is_none());
        assert!(locate(start.wrapping_add(5), usize::MAX).is_none());
        let here = 5;
        assert!(locate((&raw const here).cast(), 4).is_none());
        assert!(locate(std::ptr::null(), 0).is_none());
    }
}

/// A memfd is not limited by the size of `/dev/shm`.
#[cfg(target_os = "linux")]
#[test]
fn larger_than_dev_shm() {
    let Ok(stat) = rustix::fs::statvfs("/dev/shm") else { return };
    let size = stat.f_blocks * stat.f_frsize;
    let length = if size <= 1 << 28 { usize::try_from(size).unwrap() + (1 << 21) } else { 1 << 27 };
    let length = length.next_multiple_of(1 << 21);
    let free = || rustix::fs::statvfs("/dev/shm").unwrap().f_bavail;
    let before = free();
    let segment = Segment::create(9, length).unwrap();
    segment.prefault(0, length).unwrap();
    assert!(segment.resident().unwrap() >= length as u64);
    // Other processes may use `/dev/shm` meanwhile, but not by that much.
    assert!(before.saturating_sub(free()) * stat.f_frsize < length as u64 / 2);
}
