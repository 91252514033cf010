//! Sets, pages and memory.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;

use common::*;
use craton_slab::Extent;
use craton_store::*;

const KB: usize = 1 << 10;

#[test]
fn named_sets_live_until_they_are_dropped_and_others_go_with_their_last_user() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 1 << 20);
    let named = pool.create_set(SetOptions { name: Some("a".into()), ..SetOptions::default() }).unwrap();
    assert!(matches!(
        pool.create_set(SetOptions { name: Some("a".into()), ..SetOptions::default() }),
        Err(Error::Exists(name)) if name == "a"
    ));
    assert_eq!(pool.find_set("a").unwrap(), Some(named));
    assert_eq!(pool.find_set("b").unwrap(), None);
    pool.release_set(named);
    assert_eq!(pool.find_set("a").unwrap(), Some(named));

    let other = set(&*pool);
    seal(&*pool, other, 1, KB).unwrap();
    pool.retain_set(other).unwrap();
    pool.release_set(other);
    assert_eq!(pool.pages(other).unwrap().len(), 1);
    pool.release_set(other);
    assert!(matches!(pool.pages(other), Err(Error::NoSet(_))));
    assert!(matches!(pool.retain_set(other), Err(Error::NoSet(_))));
    pool.release_set(other);
    pool.drop_set(named).unwrap();
    assert_eq!(pool.find_set("a").unwrap(), None);
    assert!(matches!(pool.drop_set(named), Err(Error::NoSet(_))));
    let counters = pool.counters().unwrap();
    assert_eq!((counters.sets, counters.pages, counters.page_memory, counters.slab_used), (0, 0, 0, 0));
}

#[test]
fn the_second_page_with_a_key_is_the_first() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 1 << 20);
    let set = set(&*pool);
    let key = |spec: &mut PageSpec| spec.key = Some(b"k".to_vec());
    let first = seal_with(&*pool, set, 1, KB, key).unwrap();
    let used = pool.counters().unwrap().slab_used;
    let second = seal_with(&*pool, set, 2, KB, key).unwrap();
    assert_eq!(first, second);
    assert_eq!(pool.counters().unwrap().slab_used, used);
    check(&pool.pin(first.page).unwrap(), 1);
    let found = pool.find_pages(set, &[b"x".to_vec(), b"k".to_vec()]).unwrap();
    assert_eq!(found, [None, Some(first.clone())]);
    pool.drop_page(first.page).unwrap();
    assert!(matches!(pool.pin(first.page), Err(Error::NoPage(page)) if page == first.page));
    let third = seal_with(&*pool, set, 3, KB, key).unwrap();
    assert!(third.page.number > first.page.number, "numbers are not reused");
}

#[test]
fn pages_share_memory_and_references_to_elsewhere_are_refused() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 1 << 20);
    let set = set(&*pool);
    let first = seal(&*pool, set, 1, 64 * KB).unwrap();
    let pinned = pool.pin(first.page).unwrap();
    let place = |buffer: &PageBuffer| {
        let whole = buffer.extent.reference();
        Reference {
            segment: whole.segment,
            offset: whole.offset + buffer.range.start as u64,
            length: buffer.range.len() as u64,
        }
    };
    let whole = place(&pinned.buffers[1]);
    let half = Reference { length: whole.length / 2, ..whole };
    let spec = |places: Vec<Reference>| {
        let lengths: Vec<usize> = places.iter().map(|place| place.length as usize).collect();
        PageSpec { header: header(&lengths), buffers: buffers(places), ..PageSpec::default() }
    };
    let shared = pool.seal(set, spec(vec![half, whole]), Vec::new()).unwrap();
    let counters = pool.counters().unwrap();
    assert_eq!((counters.copied, counters.shared), (65536, 65536 + 32768));
    for wrong in [
        Reference { length: whole.length + 1, ..whole },
        Reference { offset: whole.offset + whole.length, length: 64, ..whole },
        Reference { segment: whole.segment + 999, ..whole },
        Reference { offset: u64::MAX, ..whole },
    ] {
        assert!(matches!(pool.seal(set, spec(vec![wrong]), Vec::new()), Err(Error::Invalid(_))));
    }
    let mut wrong = spec(vec![whole]);
    wrong.buffers[1].length -= 1;
    assert!(matches!(pool.seal(set, wrong, Vec::new()), Err(Error::Invalid(_))), "not the header's length");
    let wrong = PageSpec { header: b"none".to_vec(), ..spec(vec![whole]) };
    assert!(matches!(pool.seal(set, wrong, Vec::new()), Err(Error::Invalid(_))), "no header");
    drop(pinned);
    // Shared memory lives until the last page that refers to it is dropped.
    pool.drop_page(first.page).unwrap();
    let pinned = pool.pin(shared.page).unwrap();
    assert_eq!(pinned.buffers[1].as_slice(), &pinned.buffers[3].as_slice()[..32768]);
    assert!(pinned.buffers[0].as_slice().is_empty());
    assert!(pool.counters().unwrap().slab_used >= 65536);
    drop(pinned);
    pool.drop_page(shared.page).unwrap();
    assert!(pool.counters().unwrap().slab_used <= 64);
}

#[test]
fn four_times_the_limit_comes_back_equal() {
    for name in ["data-aware", "lru", "mru", "dbmin-1", "dbmin-1000", "dbmin-adaptive"] {
        for (durability, direct_io, compression) in [
            (Durability::WriteBack, false, Compression::None),
            (Durability::WriteThrough, false, Compression::None),
            (Durability::WriteBack, true, Compression::None),
            (Durability::WriteBack, name == "lru", Compression::Lz4),
        ] {
            let scratch = Scratch::new();
            let policy = policy::by_name(name).unwrap();
            let limit = 2 << 20;
            let pool = Pool::open(PoolOptions { policy, direct_io, compression, ..options(&scratch, limit) }).unwrap();
            let set = pool.create_set(SetOptions { durability, ..SetOptions::default() }).unwrap();
            let pages: Vec<_> = (0..128).map(|seed| seal(&*pool, set, seed, 64 * KB + 8).unwrap().page).collect();
            for _ in 0..2 {
                for (seed, page) in (0..).zip(&pages) {
                    check(&pool.pin(*page).unwrap(), seed);
                    assert!(pool.slab().usage().used <= limit + 64);
                }
            }
            let counters = pool.counters().unwrap();
            assert!(counters.hits + counters.misses == 256 && counters.misses > 0, "{name}: {counters:?}");
            if durability == Durability::WriteThrough {
                assert_eq!(counters.evicted_written, 0);
            }
            let info = &pool.describe().unwrap()[0];
            assert_eq!((info.pages, info.rows, info.pins), (128, 128 * 8193, 0));
            assert_eq!(info.bytes, 128 * (64 * KB as u64 + 8));
            let folder = pool.folder().to_owned();
            assert!(folder.exists());
            pool.close();
            assert!(!folder.exists());
            assert!(matches!(pool.pin(pages[0]), Err(Error::Closed)));
            assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
        }
    }
}

#[test]
fn page_images_are_arrow_files() {
    for (compression, direct_io) in
        [(Compression::None, false), (Compression::None, true), (Compression::Lz4, false), (Compression::Lz4, true)]
    {
        let scratch = Scratch::new();
        let pool = Pool::open(PoolOptions { compression, direct_io, ..options(&scratch, 64 << 20) }).unwrap();
        let set = set(&*pool);
        // A page that several threads read, one that compresses well, and one without bytes.
        let large = seal(&*pool, set, 1, 20 << 20).unwrap().page;
        let mut extents = pool.allocate(set, &[100 * KB]).unwrap();
        extents[0].as_mut_slice().unwrap().fill(7);
        let places = buffers([extents[0].reference().into()]);
        let spec = PageSpec { header: header(&[100 * KB]), buffers: places, ..PageSpec::default() };
        let even = pool.seal(set, spec, extents).unwrap().page;
        let nothing = Reference { segment: 0, offset: 0, length: 0 };
        let spec = PageSpec { header: header(&[0]), buffers: buffers([nothing]), ..PageSpec::default() };
        let empty = pool.seal(set, spec, Vec::new()).unwrap().page;
        drop(pool.reserve(64 << 20, 64 << 20).unwrap());
        let path = |page: PageId| pool.folder().join(set.to_string()).join(format!("{}.arrow", page.number));
        for page in [large, even] {
            let file = std::fs::File::open(path(page)).unwrap();
            let mut reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
            let batch = reader.next().unwrap().unwrap();
            let pinned = pool.pin(page).unwrap();
            let data = batch.column(0).to_data();
            assert_eq!(&data.buffers()[0].as_slice()[..pinned.info.bytes as usize], pinned.buffers[1].as_slice());
            assert!(pinned.buffers[1].as_slice().as_ptr().addr() % 64 == 0);
        }
        check(&pool.pin(large).unwrap(), 1);
        assert!(pool.pin(empty).unwrap().buffers.iter().all(|buffer| buffer.as_slice().is_empty()));
        let length = std::fs::metadata(path(even)).unwrap().len();
        assert_eq!(length < 10 << 10, compression == Compression::Lz4, "{length}");
    }
}

#[test]
fn what_is_pinned_stays_and_too_much_is_refused() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 256 * KB as u64);
    let set = set(&*pool);
    let first = seal(&*pool, set, 1, 128 * KB).unwrap();
    let pinned = pool.pin(first.page).unwrap();
    let error = pool.allocate(set, &[192 * KB]).unwrap_err();
    assert!(matches!(error, Error::Full { asked: 196_608, used: 131_072, limit: 262_144 }), "{error}");
    assert!(matches!(pool.allocate(set, &[1 << 30]), Err(Error::Full { .. })));
    let unsealed = pool.allocate(set, &[64 * KB, 64 * KB]).unwrap();
    assert!(matches!(pool.allocate(set, &[1]), Err(Error::Full { .. })));
    drop(unsealed);
    // A dropped page's memory counts until its last view is dropped.
    pool.drop_page(first.page).unwrap();
    check(&pinned, 1);
    assert!(matches!(pool.allocate(set, &[192 * KB]), Err(Error::Full { .. })));
    drop(pinned);
    assert_eq!(pool.slab().usage().used, 0);
    assert_eq!(pool.allocate(set, &[192 * KB]).unwrap().len(), 1);
}

#[test]
fn a_pinned_set_is_not_evicted() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 256 * KB as u64);
    let set = pool.create_set(SetOptions { pinned: true, ..SetOptions::default() }).unwrap();
    let page = seal(&*pool, set, 1, 192 * KB).unwrap().page;
    assert!(matches!(pool.allocate(set, &[128 * KB]), Err(Error::Full { .. })));
    pool.set_attributes(set, Attributes { pinned: Some(false), ..Attributes::default() }).unwrap();
    drop(pool.allocate(set, &[128 * KB]).unwrap());
    assert_eq!(pool.pages(set).unwrap()[0].location, Location::Disk);
    check(&pool.pin(page).unwrap(), 1);
    assert_eq!(pool.pages(set).unwrap()[0].location, Location::Both);
}

#[test]
fn what_is_reserved_is_not_kept_by_the_slab() {
    const MB: usize = 1 << 20;
    let scratch = Scratch::new();
    let pool = pool(&scratch, 16 * MB as u64);
    let set = set(&*pool);
    for seed in 0..24 {
        seal(&*pool, set, seed, MB).unwrap();
    }
    let usage = || pool.slab().usage();
    assert!(usage().touched > 12 * MB as u64);
    let reservation = pool.reserve(12 * MB as u64, 12 * MB as u64).unwrap();
    assert!(usage().touched <= 4 * MB as u64, "{:?}", usage());
    assert!(usage().resident <= 4 * MB as u64, "{:?}", usage());
    drop(reservation);
    for seed in 24..48 {
        seal(&*pool, set, seed, MB).unwrap();
    }
    for (seed, info) in pool.pages(set).unwrap().iter().enumerate() {
        check(&pool.pin(info.page).unwrap(), seed as u64);
    }
    pool.drop_set(set).unwrap();
    assert!(usage().idle <= 4 * MB as u64, "{:?}", usage());
}

#[test]
fn reservations_evict_and_count() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 256 * KB as u64);
    let set = set(&*pool);
    let pages: Vec<_> = (0..4).map(|seed| seal(&*pool, set, seed, 64 * KB).unwrap().page).collect();
    let reservation = pool.reserve(0, 128 * KB as u64).unwrap();
    assert_eq!(reservation.bytes, 128 * KB as u64);
    let counters = pool.counters().unwrap();
    assert!(counters.slab_used <= 128 * KB as u64 && counters.reserved == 128 * KB as u64);
    let pinned = pool.pin(pages[0]).unwrap();
    // All available memory, and at least as much as was requested.
    let rest = pool.reserve(KB as u64, 1 << 40).unwrap();
    assert_eq!(rest.bytes, 64 * KB as u64);
    assert!(matches!(pool.reserve(1, 1), Err(Error::Full { .. })));
    assert!(matches!(pool.pin(pages[1]), Err(Error::Full { .. })));
    drop((reservation, rest));
    check(&pinned, 0);
    check(&pool.pin(pages[1]).unwrap(), 1);
    assert_eq!(pool.counters().unwrap().reserved, 0);
}

#[test]
fn pages_that_can_be_made_again_are_never_written() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 256 * KB as u64);
    let durability = Durability::Discard;
    let set = pool.create_set(SetOptions { durability, ..SetOptions::default() }).unwrap();
    let infos: Vec<_> = (0..8u8)
        .map(|seed| {
            seal_with(&*pool, set, seed.into(), 64 * KB, |spec| {
                spec.key = Some(vec![seed]);
                spec.rebuild = 1000;
            })
            .unwrap()
        })
        .collect();
    let gone = infos.iter().filter(|info| matches!(pool.pin(info.page), Err(Error::NoPage(_)))).count();
    let counters = pool.counters().unwrap();
    assert_eq!((counters.evicted_discarded, counters.written, counters.pages), (gone as u64, 0, 8 - gone as u64));
    assert_eq!(gone, 4);
    assert!(!pool.folder().exists());
}

#[test]
fn what_has_ended_goes_first_and_is_not_written() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 256 * KB as u64);
    let (first, second) = (set(&*pool), set(&*pool));
    seal(&*pool, first, 1, 64 * KB).unwrap();
    let kept = seal(&*pool, first, 2, 64 * KB).unwrap().page;
    let ended = seal(&*pool, second, 3, 128 * KB).unwrap().page;
    pool.set_attributes(second, Attributes { ended: Some(true), ..Attributes::default() }).unwrap();
    seal(&*pool, first, 4, 128 * KB).unwrap();
    assert!(matches!(pool.pin(ended), Err(Error::NoPage(_))));
    let counters = pool.counters().unwrap();
    assert_eq!((counters.evicted_ended, counters.written), (1, 0));
    check(&pool.pin(kept).unwrap(), 2);
}

#[test]
fn threads_pin_unpin_and_seal_under_pressure() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 3 << 20);
    let set = set(&*pool);
    let temporary = set_of(&pool);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let pool = &pool;
            scope.spawn(move || {
                let mut pages = Vec::new();
                let mut random = words(thread + 77, 8 * 4096);
                for step in 0..400u64 {
                    let seed = thread * 1_000_000 + step;
                    match random.next().unwrap() % 4 {
                        0 => pages.push((
                            seal(&**pool, set, seed, 8 * (1 + seed as usize * 7919 % 8000)).unwrap().page,
                            seed,
                        )),
                        1 => drop(seal(&**pool, temporary, seed, KB).map(|info| pool.drop_page(info.page))),
                        _ if pages.is_empty() => {}
                        other => {
                            let at = random.next().unwrap() as usize % pages.len();
                            let (page, seed) = pages[at];
                            check(&pool.pin(page).unwrap(), seed);
                            if other == 2 && pages.len() > 40 {
                                pool.drop_page(page).unwrap();
                                pages.swap_remove(at);
                            }
                        }
                    }
                }
                for (page, seed) in pages {
                    check(&pool.pin(page).unwrap(), seed);
                }
            });
        }
    });
    let counters = pool.counters().unwrap();
    assert!(counters.evicted_written > 0 && counters.misses > 0, "{counters:?}");
    assert!(counters.slab_used <= 3 << 20);
    pool.drop_set(set).unwrap();
    pool.drop_set(temporary).unwrap();
    let counters = pool.counters().unwrap();
    assert_eq!((counters.pages, counters.page_memory, counters.page_disk), (0, 0, 0));
    // Writes that were under way when the sets were dropped may still hold memory; all of it must become available.
    drop(pool.reserve(3 << 20, 3 << 20).unwrap());
}

fn set_of(pool: &Arc<Pool>) -> SetId {
    set(&**pool)
}

#[test]
fn a_scan_has_its_next_pages_read_ahead() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 1 << 20);
    let set = set(&*pool);
    let pages: Vec<_> = (0..64).map(|seed| seal(&*pool, set, seed, 64 * KB).unwrap().page).collect();
    pool.set_attributes(set, Attributes { operation: Some(Operation::Read), ..Attributes::default() }).unwrap();
    for (seed, page) in (0..).zip(&pages) {
        check(&pool.pin(*page).unwrap(), seed);
    }
    // Read-ahead must not evict pages while the memory is in use by unsealed extents.
    let held: Vec<Extent> = pool.allocate(set, &[1 << 20]).unwrap();
    pool.prefetch(&pages);
    assert_eq!(held.len(), 1);
    drop(held);
    check(&pool.pin(pages[5]).unwrap(), 5);
}

#[test]
fn counters_are_told_as_text() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 1 << 20);
    let set = pool.create_set(SetOptions { name: Some("a \"b\"".into()), ..SetOptions::default() }).unwrap();
    seal(&*pool, set, 1, KB).unwrap();
    let text = prometheus(&*pool).unwrap();
    for line in [
        "craton_slab_used_bytes 1024",
        "craton_page_bytes{place=\"memory\"} 1024",
        "craton_set_pages{set=\"a \\\"b\\\"\"} 1",
        "# TYPE craton_evictions_total counter",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}
