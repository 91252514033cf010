//! The allocator: placement, reuse, limits and lookup.

mod common;

use std::sync::Arc;

use common::{backings, fill, holds, options};
use craton_slab::{ALIGNMENT, BufferRef, Error, Extent, LARGE, LARGE_ALIGNMENT, LARGEST, Slab, SlabOptions, locate};

#[test]
fn aligned_and_apart() {
    for backing in backings() {
        let slab = Slab::new(options(&backing));
        let mut extents = Vec::new();
        for (seed, length) in
            [0, 1, 63, 64, 65, 4095, 4096, 100_000, LARGE - 1, LARGE, LARGE + 1, 0].into_iter().enumerate()
        {
            let mut extent = slab.allocate(length).unwrap();
            assert_eq!((extent.len(), extent.is_empty()), (length, length == 0));
            let alignment = if length >= LARGE { LARGE_ALIGNMENT } else { ALIGNMENT };
            assert_eq!(extent.offset() % alignment, 0);
            assert_eq!(extent.as_ptr().addr() % alignment, 0);
            fill(extent.as_mut_slice().unwrap(), seed as u64);
            extents.push((seed as u64, extent));
        }
        for (seed, extent) in &extents {
            assert!(holds(extent.as_slice(), *seed));
            let (segment, offset) = locate(extent.as_ptr(), extent.len()).unwrap();
            assert_eq!((segment.id(), offset), (extent.segment().id(), extent.offset()));
        }
        let usage = slab.usage();
        assert_eq!(usage.segments, 1);
        assert!(usage.used <= usage.touched && usage.touched < usage.used + (1 << 21), "{usage:?}");
        drop(extents);
        assert_eq!(slab.usage().used, 0);
    }
}

#[test]
fn asked_alignment() {
    let slab = Slab::new(SlabOptions::default());
    let _shift = slab.allocate(64).unwrap();
    for alignment in [64, 128, 512, 4096] {
        let extent = slab.allocate_aligned(10, alignment).unwrap();
        assert_eq!(extent.as_ptr().addr() % alignment, 0);
    }
    for alignment in [0, 1, 32, 96, 8192] {
        assert!(matches!(slab.allocate_aligned(10, alignment), Err(Error::Alignment { .. })));
    }
}

#[test]
fn one_large_extent_always_fits_its_segment() {
    for length in [(3 << 21) + 64, (1 << 28) + 1, 300_000_001, 1_234_567_890, (1 << 34) + 12_345, 200 << 30, LARGEST] {
        let slab = Slab::new(SlabOptions { segment_bytes: 1 << 21, ..SlabOptions::default() });
        let extent = match slab.allocate(length) {
            Ok(extent) => extent,
            // The system does not provide so much address space.
            Err(Error::System { .. }) if length > 1 << 32 => continue,
            Err(other) => panic!("{length}: {other}"),
        };
        assert_eq!(slab.usage().segments, 1);
        let place = extent.reference();
        drop(extent);
        if length <= 256_000_000 {
            assert_eq!(slab.allocate(length).unwrap().reference(), place, "the same place again");
        }
    }
}

#[test]
fn too_large() {
    let slab = Slab::new(SlabOptions::default());
    for length in [LARGEST + 1, usize::MAX] {
        assert!(matches!(slab.allocate(length), Err(Error::TooLarge { .. })));
    }
    assert_eq!(slab.usage(), Slab::new(SlabOptions::default()).usage());
}

#[test]
fn the_limit() {
    let slab = Slab::new(SlabOptions { limit: 1000 * 64, ..SlabOptions::default() });
    let half = slab.allocate(500 * 64).unwrap();
    let error = slab.allocate(500 * 64 + 1).err().unwrap();
    assert_eq!(error.to_string(), "no room for 32001 bytes: 32000 of 64000 bytes of shared memory are in use");
    let rest = slab.allocate(500 * 64).unwrap();
    assert!(matches!(slab.allocate(0), Err(Error::Full { .. })));
    drop(half);
    assert_eq!(slab.allocate(0).unwrap().len(), 0);
    drop(rest);
    assert_eq!(slab.usage().used, 0);
}

#[test]
fn freed_memory_is_used_first() {
    for backing in backings() {
        let slab = Slab::new(SlabOptions { segment_bytes: 1 << 23, ..options(&backing) });
        // A freed extent of any size is reused by the next one of that size, while its neighbours stay allocated.
        for length in [64, 1000, 17 * 64, 4096, 70_001, LARGE, LARGE + 100, 3_000_000] {
            let before: Vec<_> = (0..5).map(|_| slab.allocate(length).unwrap()).collect();
            let touched = slab.usage().touched;
            let mut before = before.into_iter();
            let (_left, middle) = (before.next().unwrap(), before.next().unwrap());
            let place = middle.reference();
            drop(middle);
            let again = slab.allocate(length).unwrap();
            assert_eq!(slab.usage().touched, touched, "{length} bytes");
            assert!(length >= LARGE || again.reference() == place, "{length} bytes");
        }
    }
}

#[test]
fn segments_that_were_used_come_before_fresh_ones() {
    let slab = Slab::new(SlabOptions { segment_bytes: 1 << 23, ..SlabOptions::default() });
    let full: Vec<_> = (0..4).map(|_| slab.allocate(7 << 20).unwrap()).collect();
    assert_eq!(slab.usage().segments, 4);
    let mut full = full;
    let place = full.remove(2).reference();
    // The last segment has a fresh MiB, which would suffice, and the third one has seven MiB that were used before.
    let extent = slab.allocate(900_000).unwrap();
    assert_eq!(extent.segment().id(), place.segment);
    assert_eq!(slab.usage().touched, 28 << 20);
}

#[test]
fn many_small_extents_need_more_segments_only() {
    let slab = Slab::new(SlabOptions { segment_bytes: 1 << 21, ..SlabOptions::default() });
    let extents: Vec<_> = (0..10_000).map(|_| slab.allocate(8).unwrap()).collect();
    let mut places: Vec<_> = extents.iter().map(|extent| (extent.segment().id(), extent.offset())).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 10_000);
    assert_eq!(slab.usage().used, 640_000);
    assert!(slab.usage().segments <= 8);
}

#[test]
fn names_are_not_repeated() {
    let mut names = std::collections::HashSet::new();
    for _ in 0..100 {
        let slab = Slab::new(SlabOptions { segment_bytes: 1, ..SlabOptions::default() });
        let extents: Vec<_> = (0..3).map(|_| slab.allocate(2 << 20).unwrap()).collect();
        assert!(extents.iter().all(|extent| names.insert(extent.segment().id())));
        let mut ids = slab.segment_ids();
        ids.sort_unstable();
        let mut expected: Vec<_> = extents.iter().map(|extent| extent.segment().id()).collect();
        expected.sort_unstable();
        assert_eq!(ids, expected);
        // Identifiers of different slabs differ in more than the counter.
        assert!(
            ids.iter().all(|id| id >> 24 == ids[0] >> 24)
                && names.iter().filter(|id| *id >> 24 == ids[0] >> 24).count() == 3
        );
    }
}

fn place(extent: &Extent, from: usize, length: usize) -> BufferRef {
    BufferRef { segment: extent.segment().id(), offset: (extent.offset() + from) as u64, length: length as u64 }
}

#[test]
fn shared_extents_are_found() {
    for backing in backings() {
        let slab = Slab::new(options(&backing));
        let (first, empty, second) =
            (slab.allocate(128).unwrap(), slab.allocate(0).unwrap(), slab.allocate(100).unwrap());
        let id = first.segment().id();
        assert!(slab.find(id, first.offset()).is_none(), "its owner may still write to it");
        let (first, empty, second) = (slab.share(first), slab.share(empty), slab.share(second));
        for (extent, inside, outside) in
            [(&first, vec![0, 1, 127], vec![128]), (&empty, vec![0], vec![1]), (&second, vec![0, 99], vec![100])]
        {
            for at in inside {
                assert!(Arc::ptr_eq(&slab.find(id, extent.offset() + at).unwrap(), extent));
            }
            for at in outside {
                let found = slab.find(id, extent.offset() + at);
                assert!(found.is_none_or(|found| !Arc::ptr_eq(&found, extent)));
            }
        }
        assert!(slab.find(id ^ 1, 0).is_none() && slab.find(id, usize::MAX).is_none());
        for (from, length, found) in [(0, 100, true), (99, 1, true), (100, 0, true), (0, 101, false), (101, 0, false)] {
            assert_eq!(slab.find_range(&place(&second, from, length)).is_some(), found, "{from} {length}");
        }
        let end = slab.find_range(&place(&first, 128, 0)).unwrap();
        assert!(end.offset() + end.len() == first.offset() + 128 || end.offset() == first.offset() + 128);
        assert!(slab.find_range(&BufferRef { segment: id, offset: u64::MAX, length: 1 }).is_none());
        assert!(slab.find_range(&BufferRef { segment: id, offset: 0, length: u64::MAX }).is_none());
        let at = second.offset();
        drop(second);
        assert!(slab.find(id, at).is_none());
        assert!(slab.segment(id).is_some() && slab.segment(id + 1).is_none());
    }
}

#[test]
fn an_extent_of_another_slab_is_not_found_in_this() {
    let (one, other) = (Slab::new(SlabOptions::default()), Slab::new(SlabOptions::default()));
    let extent = one.share(other.allocate(10).unwrap());
    assert!(one.find(extent.segment().id(), extent.offset()).is_none());
    drop(extent);
    assert_eq!(other.usage().used, 0);
}

#[test]
fn an_extent_outlives_the_handle_of_its_slab() {
    let slab = Slab::new(SlabOptions::default());
    let mut extent = slab.allocate(1000).unwrap();
    drop(slab);
    fill(extent.as_mut_slice().unwrap(), 1);
    assert!(holds(extent.as_slice(), 1));
}

#[test]
fn prefaulted() {
    for backing in backings() {
        let slab = Slab::new(SlabOptions { prefault: true, ..options(&backing) });
        let extent = slab.allocate(5 << 20).unwrap();
        if cfg!(target_os = "linux") {
            assert!(slab.usage().resident >= 5 << 20);
        }
        extent.prefault().unwrap();
    }
}

#[test]
fn for_a_client() {
    let slab = Slab::new(SlabOptions { client: true, segment_bytes: 1 << 21, ..SlabOptions::default() });
    let extent = slab.allocate(1000).unwrap();
    let segment = extent.segment();
    assert!(segment.is_for_client());
    let fd = segment.writable_fd().unwrap().try_clone_to_owned().unwrap();
    let client = craton_slab::Segment::attach(segment.id(), fd, segment.len(), true).unwrap();
    segment.seal().unwrap();
    assert_eq!(slab.usage().sealed, 1);
    // The client makes an extent of the range in its own mapping, and writes to it.
    let mut granted = Extent::new(client, extent.offset(), extent.len(), None);
    fill(granted.as_mut_slice().unwrap(), 3);
    assert!(holds(extent.as_slice(), 3));
}
