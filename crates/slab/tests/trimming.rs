//! Trimming: when and how much memory a slab returns to the system.

mod common;

use common::{backings, fill, holds, is_file, options};
use craton_slab::{Extent, Segment, Slab, SlabOptions, SlabUsage};

const MIB: usize = 1 << 20;
const MANY: Option<u64> = Some(u64::MAX);

/// Extents that fill a segment of 32 MiB, with their contents.
fn filled(slab: &std::sync::Arc<Slab>) -> Vec<Option<Extent>> {
    let make = |seed| {
        let mut extent = slab.allocate(MIB - 64).unwrap();
        fill(extent.as_mut_slice().unwrap(), seed);
        Some(extent)
    };
    (0..32).map(make).collect()
}

fn intact(extents: &[Option<Extent>]) -> bool {
    let holds = |(seed, extent): (usize, &Option<Extent>)| {
        extent.as_ref().is_none_or(|extent| holds(extent.as_slice(), seed as u64))
    };
    extents.iter().enumerate().all(holds)
}

fn resident(usage: SlabUsage) -> usize {
    usage.resident as usize
}

#[test]
fn holes_between_extents() {
    for backing in backings() {
        let slab = Slab::new(SlabOptions { segment_bytes: 32 << 20, keep_free: MANY, ..options(&backing) });
        let mut extents = filled(&slab);
        assert_eq!(slab.usage().segments, 1);
        assert!(resident(slab.usage()) >= 32 * MIB - 4096);
        for at in (0..32).filter(|at| at % 4 != 0) {
            extents[at] = None;
        }
        assert!(resident(slab.usage()) >= 32 * MIB - 4096, "they are kept");
        let idle = slab.usage().idle;
        assert!(idle >= 24 * MIB as u64 - 4096);
        if !cfg!(target_os = "linux") {
            return;
        }
        let given = slab.trim(12 << 20);
        assert_eq!(slab.usage().idle, idle - given);
        assert!((11 << 20..=12 << 20).contains(&slab.usage().idle), "{:?}", slab.usage());
        assert!(resident(slab.usage()) <= 21 * MIB);
        assert_eq!(slab.trim(12 << 20), 0);
        // All of it except the pages that overlap an extent.
        slab.trim(0);
        assert!(resident(slab.usage()) <= 8 * MIB + 16 * 4096);
        assert!(slab.usage().idle <= 16 * 4096);
        assert!(intact(&extents));
        for (at, extent) in extents.iter_mut().enumerate() {
            extent.get_or_insert_with(|| {
                let mut extent = slab.allocate(MIB - 64).unwrap();
                fill(extent.as_mut_slice().unwrap(), at as u64);
                extent
            });
        }
        assert!(intact(&extents));
        assert_eq!(slab.usage().segments, 1, "the holes are used again");
    }
}

#[test]
fn a_sealed_segment_gives_back_its_tail() {
    for backing in backings() {
        let slab = Slab::new(SlabOptions { segment_bytes: 32 << 20, keep_free: MANY, ..options(&backing) });
        let mut extents = filled(&slab);
        let segment = extents[0].as_ref().unwrap().segment().clone();
        let fd = || segment.share_fd().unwrap().try_clone_to_owned().unwrap();
        let there = Segment::attach(segment.id(), fd(), segment.len(), false).unwrap();
        extents.sort_by_key(|extent| extent.as_ref().map(Extent::offset));
        extents[3] = None;
        extents.truncate(20);
        slab.trim(0);
        let least = if is_file(&backing) { 0 } else { 19 * MIB };
        // On systems other than Linux, a file that was shared is never truncated.
        if cfg!(target_os = "linux") || !is_file(&backing) {
            let taken = resident(slab.usage());
            assert!(least <= taken && taken <= 20 * MIB + 8192, "{:?}", slab.usage());
            assert!(slab.usage().idle <= MIB as u64 + 8192);
        }
        assert_eq!(slab.trim(0), 0);
        // The reader still sees the same memory, including new contents in the tail, and others can still attach.
        let mut extent = slab.allocate(11 * MIB).unwrap();
        assert_eq!(extent.segment().id(), segment.id());
        fill(extent.as_mut_slice().unwrap(), 5);
        let seen = Extent::new(there, extent.offset(), extent.len(), None);
        assert!(holds(seen.as_slice(), 5));
        let late = Segment::attach(segment.id(), fd(), segment.len(), false).unwrap();
        assert!(holds(Extent::new(late, extent.offset(), extent.len(), None).as_slice(), 5));
        assert!(intact(&extents[..3]));
    }
}

#[test]
fn a_clients_segment_is_freed_only_as_a_whole() {
    let slab =
        Slab::new(SlabOptions { segment_bytes: 32 << 20, keep_free: MANY, client: true, ..SlabOptions::default() });
    let mut extents = filled(&slab);
    extents[0].as_ref().unwrap().segment().seal().unwrap();
    extents.truncate(1);
    if cfg!(target_os = "linux") {
        assert_eq!(slab.trim(0), 0);
        assert!(slab.usage().idle >= 30 << 20);
    }
    extents.clear();
    assert!(slab.trim(0) >= 31 << 20);
    assert_eq!(slab.usage(), SlabUsage::default());
}

#[test]
fn empty_segments_go() {
    for backing in backings() {
        let slab = Slab::new(SlabOptions { segment_bytes: 8 << 20, keep_free: MANY, ..options(&backing) });
        let extents: Vec<_> = (0..5).map(|_| slab.allocate(7 * MIB).unwrap()).collect();
        extents[1].segment().seal().unwrap();
        let gone = extents[0].segment().id();
        drop(extents);
        assert_eq!(slab.usage().segments, 5);
        slab.trim(14 << 20);
        let usage = slab.usage();
        assert_eq!((usage.segments, usage.used), (2, 0));
        assert!(usage.idle <= 14 << 20);
        slab.trim(0);
        assert_eq!(slab.usage(), SlabUsage::default());
        assert!(slab.segment(gone).is_none());
        // The slab can allocate again.
        assert_eq!(slab.allocate(10).unwrap().len(), 10);
    }
}

#[test]
fn memory_beyond_the_watermark_is_trimmed_automatically() {
    for backing in backings() {
        let kept = 16 << 20;
        let slab = Slab::new(SlabOptions { segment_bytes: 32 << 20, keep_free: Some(kept), ..options(&backing) });
        let mut extents = filled(&slab);
        extents.extend(filled(&slab));
        let mut most = 0;
        for at in (0..64).rev() {
            extents[at] = None;
            most = most.max(slab.usage().idle);
        }
        assert!(most > kept / 2 && most <= kept + 4096, "{most}");
        assert_eq!(slab.usage().used, 0);
        assert!(slab.usage().idle <= kept && slab.usage().segments <= 1);
    }
}

#[test]
fn memory_below_the_default_watermark_is_kept() {
    let slab = Slab::new(SlabOptions { limit: 1 << 30, ..SlabOptions::default() });
    for _ in 0..3 {
        drop(slab.allocate(100 * MIB).unwrap());
        assert!(slab.usage().touched >= 100 << 20);
        assert_eq!(slab.usage().segments, 1);
    }
    drop(slab.allocate(300 * MIB).unwrap());
    assert!(slab.usage().touched <= 256_000_000, "{:?}", slab.usage());
}

#[test]
fn memory_that_cannot_be_freed_is_not_tried_again_each_time() {
    let slab = Slab::new(SlabOptions { segment_bytes: 32 << 20, keep_free: Some(1 << 20), ..SlabOptions::default() });
    let mut extents = filled(&slab);
    extents[0].as_ref().unwrap().segment().seal().unwrap();
    extents.sort_by_key(|extent| extent.as_ref().map(Extent::offset));
    extents[..31].fill_with(|| None);
    if cfg!(target_os = "linux") {
        assert!(slab.usage().idle >= 30 << 20, "the last extent holds the tail");
    }
    let again = filled(&slab);
    assert_eq!(slab.usage().segments, 2);
    drop(again);
    extents.clear();
    assert!(slab.usage().idle <= 1 << 20, "{:?}", slab.usage());
}
