//! Random operations on a slab, checked against a model of which bytes are allocated.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Random, backings, fill, holds, is_file, options};
use craton_slab::{Backing, Extent, SegmentId, Slab, SlabOptions, SlabUsage, locate};
use parking_lot::Mutex;

/// The allocated ranges of each segment: added after an allocation, removed before the extent is freed.
#[derive(Default)]
struct Shadow(Mutex<BTreeMap<(SegmentId, usize), usize>>);

impl Shadow {
    fn enter(&self, extent: &Extent) {
        // An extent of 0 bytes occupies a place too.
        let (id, start, end) = (extent.segment().id(), extent.offset(), extent.offset() + extent.len().max(1));
        let mut taken = self.0.lock();
        if let Some(((other, _), before)) = taken.range(..=(id, start)).next_back() {
            assert!(*other != id || *before <= start, "{extent:?} overlaps what starts before it");
        }
        if let Some(((other, after), _)) = taken.range((id, start)..).next() {
            assert!(*other != id || end <= *after, "{extent:?} overlaps what starts after it");
        }
        assert!(end <= extent.segment().len());
        taken.insert((id, start), end);
    }

    fn leave(&self, extent: &Extent) {
        assert!(self.0.lock().remove(&(extent.segment().id(), extent.offset())).is_some());
    }
}

enum Held {
    Mine(Extent, u64),
    Shared(Arc<Extent>, u64),
}

impl Held {
    fn check(&self) -> &Extent {
        let (extent, seed) = match self {
            Self::Mine(extent, seed) => (extent, seed),
            Self::Shared(extent, seed) => (&**extent, seed),
        };
        assert!(holds(extent.as_slice(), *seed), "{extent:?} was changed");
        extent
    }
}

fn step(slab: &Arc<Slab>, shadow: &Shadow, random: &mut Random, held: &mut Vec<Held>) {
    match random.below(10) {
        0..=4 => {
            let alignment = 64 << random.below(7);
            let mut extent = slab.allocate_aligned(random.length(21), alignment).unwrap();
            assert_eq!(extent.offset() % alignment, 0);
            shadow.enter(&extent);
            let seed = random.next();
            fill(extent.as_mut_slice().unwrap(), seed);
            held.push(Held::Mine(extent, seed));
        }
        5 | 6 if !held.is_empty() => match held.swap_remove(random.below(held.len())) {
            Held::Mine(extent, seed) => held.push(Held::Shared(slab.share(extent), seed)),
            shared @ Held::Shared(..) => held.push(shared),
        },
        7 if !held.is_empty() => {
            let one = &held[random.below(held.len())];
            let extent = one.check();
            let at = random.below(extent.len().max(1));
            let found = slab.find(extent.segment().id(), extent.offset() + at);
            match one {
                Held::Mine(..) => assert!(found.is_none()),
                Held::Shared(shared, _) => assert!(Arc::ptr_eq(&found.unwrap(), shared)),
            }
            let (segment, offset) = locate(extent.as_ptr(), extent.len()).unwrap();
            assert_eq!((segment.id(), offset), (extent.segment().id(), extent.offset()));
        }
        8 if random.below(50) == 0 => {
            slab.trim(random.below(1 << 24) as u64);
        }
        9 if random.below(100) == 0 && !held.is_empty() => {
            // From now on no holes can be punched into the segment.
            held[random.below(held.len())].check().segment().share_fd().unwrap();
        }
        _ if !held.is_empty() && (held.len() > 200 || random.below(3) > 0) => {
            let one = held.swap_remove(random.below(held.len()));
            shadow.leave(one.check());
        }
        _ => {}
    }
}

fn run(slab: &Arc<Slab>, threads: u64, steps: usize) {
    let shadow = Shadow::default();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let shadow = &shadow;
            scope.spawn(move || {
                let (mut random, mut held) = (Random(thread + 1), Vec::new());
                for _ in 0..steps {
                    step(slab, shadow, &mut random, &mut held);
                }
                for one in held {
                    shadow.leave(one.check());
                }
            });
        }
    });
    assert!(shadow.0.lock().is_empty());
    assert_eq!(slab.usage().used, 0);
    slab.trim(0);
    assert_eq!(slab.usage(), SlabUsage::default());
}

/// Fewer steps for files: a disk is slow at reserving and freeing space.
fn steps(backing: &Backing) -> usize {
    if is_file(backing) { 1_000 } else { 5_000 }
}

#[test]
fn one_after_the_other() {
    for backing in backings() {
        // Small segments and a low watermark, so that segments are created, trimmed and dropped often.
        run(
            &Slab::new(SlabOptions { segment_bytes: 1 << 21, keep_free: Some(1 << 21), ..options(&backing) }),
            1,
            steps(&backing),
        );
        run(
            &Slab::new(SlabOptions { segment_bytes: 1 << 25, keep_free: Some(1 << 23), ..options(&backing) }),
            1,
            steps(&backing),
        );
    }
}

#[test]
fn four_threads() {
    for backing in backings() {
        run(
            &Slab::new(SlabOptions { segment_bytes: 1 << 23, keep_free: Some(1 << 23), ..options(&backing) }),
            4,
            steps(&backing),
        );
    }
    run(&Slab::new(SlabOptions::default()), 4, 5_000);
}

/// A lookup that races with the drop of an extent's last owner returns either nothing or an intact extent, of which it is then the owner.
#[test]
fn lookups_race_with_drops() {
    let slab = Slab::new(SlabOptions { segment_bytes: 1 << 21, keep_free: Some(0), ..SlabOptions::default() });
    let (stop, found, place) = (AtomicBool::new(false), AtomicU64::new(0), Mutex::new((0, 0)));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let (segment, offset) = *place.lock();
                    for at in [offset, offset + 64, offset + 4096] {
                        if let Some(extent) = slab.find(segment, at) {
                            let seed = u64::from_le_bytes(extent.as_slice()[..8].try_into().unwrap());
                            assert!(holds(extent.as_slice(), seed));
                            found.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        let mut random = Random(1);
        let (mut rounds, mut last) = (0, None);
        while rounds < 5_000 || found.load(Ordering::Relaxed) < 100 {
            rounds += 1;
            let mut extent = slab.allocate(8 + random.below(5000)).unwrap();
            fill(extent.as_mut_slice().unwrap(), random.next());
            let extent = slab.share(extent);
            // Some threads look up this extent now, others still the previous one, which is being dropped.
            *place.lock() = (extent.segment().id(), extent.offset());
            last = Some(extent);
        }
        drop(last);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(slab.usage().used, 0);
}
