//! Pages in memory that another process handed over to the store.
#![allow(missing_docs)]
#![cfg(target_os = "linux")]

mod common;

use std::os::fd::OwnedFd;

use common::*;
use craton_store::*;
use rustix::fs::MemfdFlags;

const PAGE: usize = 4096;
const LENGTH: usize = 1 << 30;

/// A sparse memfd with the words of each seed at an offset.
fn written(parts: &[(usize, u64, usize)]) -> OwnedFd {
    let fd = rustix::fs::memfd_create("handed-over", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, LENGTH as u64).unwrap();
    for &(offset, seed, bytes) in parts {
        let bytes_of: Vec<u8> = words(seed, bytes).flat_map(u64::to_le_bytes).collect();
        assert_eq!(rustix::io::pwrite(&fd, &bytes_of, offset as u64).unwrap(), bytes);
    }
    fd
}

fn spec(memfd: u64, offset: usize, bytes: usize) -> PageSpec {
    let place = Reference { segment: memfd, offset: offset as u64, length: bytes as u64 };
    PageSpec { header: header(&[bytes]), buffers: buffers([place]), rows: (bytes / 8) as u64, ..PageSpec::default() }
}

#[test]
fn pages_of_several_memfds_are_sealed_without_a_copy_evicted_and_read_back() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 1 << 20);
    let set = set(&*pool);
    let (first, second) =
        (written(&[(0, 1, 64 * PAGE), (1 << 20, 2, 32 * PAGE), (1 << 21, 9, 500 * PAGE)]), written(&[(PAGE, 3, PAGE)]));
    let memfds = vec![
        HandedOver { fd: first, length: LENGTH, blocks: vec![(0, 64 * PAGE), (1 << 20, 32 * PAGE)] },
        HandedOver { fd: second, length: LENGTH, blocks: vec![(PAGE, PAGE)] },
    ];
    let pages =
        pool.adopt(set, memfds, vec![spec(0, 0, 64 * PAGE), spec(1, PAGE, PAGE), spec(0, 1 << 20, 32 * PAGE)]).unwrap();
    for (info, seed) in pages.iter().zip([1, 3, 2]) {
        check(&pool.pin(info.page).unwrap(), seed);
    }
    let counters = pool.counters().unwrap();
    assert_eq!((counters.copied, counters.shared, counters.adopted), (0, 0, 97 * PAGE as u64));
    assert_eq!(counters.page_memory, 97 * PAGE as u64);
    // Others push them out to disk.
    for seed in 10..20 {
        seal(&*pool, set, seed, 60 * PAGE).unwrap();
    }
    assert!(pool.counters().unwrap().written > 0);
    for (info, seed) in pages.iter().zip([1, 3, 2]) {
        check(&pool.pin(info.page).unwrap(), seed);
    }
    pool.drop_set(set).unwrap();
    let counters = pool.counters().unwrap();
    assert_eq!((counters.slab_used, counters.page_memory), (0, 0));
}

#[test]
fn several_pages_use_one_block_and_other_pages_share_it() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 1 << 22);
    let set = set(&*pool);
    let memfd = HandedOver { fd: written(&[(0, 5, 2 * PAGE)]), length: LENGTH, blocks: vec![(0, 2 * PAGE)] };
    let pages =
        pool.adopt(set, vec![memfd], vec![spec(0, 0, 2 * PAGE), spec(0, PAGE, PAGE), spec(0, 64, PAGE)]).unwrap();
    check(&pool.pin(pages[0].page).unwrap(), 5);
    let second = pool.pin(pages[1].page).unwrap();
    let place: Reference = second.buffers[1].extent.reference().into();
    pool.drop_page(pages[0].page).unwrap();
    assert_eq!(second.buffers[1].as_slice().len(), PAGE);
    let again = pool.seal(set, spec(place.segment, PAGE, PAGE), Vec::new()).unwrap();
    assert_eq!(pool.pin(again.page).unwrap().buffers[1].as_slice(), second.buffers[1].as_slice());
    drop(second);
    for page in [pages[1].page, pages[2].page, again.page] {
        pool.drop_page(page).unwrap();
    }
    assert_eq!(pool.counters().unwrap().slab_used, 0);
}

#[test]
fn nothing_stays_of_what_is_refused() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 1 << 20);
    let set = set(&*pool);
    let memfd = |blocks: Vec<(usize, usize)>| vec![HandedOver { fd: written(&[(0, 1, PAGE)]), length: LENGTH, blocks }];
    let refused = |memfds, pages| pool.adopt(set, memfds, pages).unwrap_err();
    assert!(matches!(refused(memfd(vec![(0, LENGTH + 1)]), vec![]), Error::Full { .. }));
    assert!(matches!(refused(memfd(vec![(LENGTH, PAGE)]), vec![]), Error::Invalid(_)));
    assert!(matches!(refused(memfd(vec![(0, PAGE)]), vec![spec(0, PAGE, PAGE)]), Error::Invalid(_)));
    assert!(matches!(refused(memfd(vec![(0, PAGE)]), vec![spec(0, 0, PAGE), spec(0, 64, PAGE)]), Error::Invalid(_)));
    assert!(matches!(refused(memfd(vec![(0, PAGE)]), vec![spec(1, 0, PAGE)]), Error::Invalid(_)));
    assert!(matches!(refused(memfd(vec![(0, 2 << 20)]), vec![]), Error::Full { .. }));
    assert!(pool.pages(set).unwrap().is_empty());
    assert_eq!(pool.counters().unwrap().slab_used, 0);
    pool.drop_set(set).unwrap();
    assert!(matches!(pool.adopt(set, memfd(vec![]), vec![]), Err(Error::NoSet(_))));
}
