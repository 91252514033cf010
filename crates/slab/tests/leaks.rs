//! Dropped slabs leak no descriptors, mappings or memory. A single test, because it counts those of the whole process.
#![cfg(target_os = "linux")]

mod common;

use common::{backings, options};
use craton_slab::{Segment, SegmentOptions, Slab, SlabOptions};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("/memfd:craton") || line.contains("(deleted)")).count()
}

#[test]
fn dropped_slabs_leak_nothing() {
    for backing in backings() {
        let before = (descriptors(), mappings());
        for round in 0..1000 {
            let options =
                SegmentOptions { backing: backing.clone(), client: round % 3 == 0, ..SegmentOptions::default() };
            let segment = Segment::create_with(round, 1 << 21, &options).unwrap();
            if round % 2 == 0 {
                let fd = segment.share_fd().unwrap().try_clone_to_owned().unwrap();
                drop(Segment::attach(round, fd, 1 << 21, false).unwrap());
            }
        }
        for _ in 0..1000 {
            let slab = Slab::new(SlabOptions { segment_bytes: 1 << 21, keep_free: Some(0), ..options(&backing) });
            let extent = slab.allocate(1000).unwrap();
            let extent = slab.share(extent);
            extent.segment().share_fd().unwrap();
            drop(slab);
            drop(extent);
        }
        let slab = Slab::new(SlabOptions { segment_bytes: 1 << 21, keep_free: Some(0), ..options(&backing) });
        for _ in 0..1000 {
            let extent = slab.allocate(3 << 20).unwrap();
            extent.segment().seal().unwrap();
        }
        // Failed calls leak nothing either.
        let segment = Segment::create(1, 1 << 21).unwrap();
        for _ in 0..100 {
            let fd = segment.fd().try_clone_to_owned().unwrap();
            assert!(Segment::attach(1, fd, 1 << 20, false).is_err());
        }
        drop((slab, segment));
        assert_eq!((descriptors(), mappings()), before, "{backing:?}");
    }
}
