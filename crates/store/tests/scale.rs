//! Many sets and many pages.
#![allow(missing_docs)]

mod common;

use common::*;
use craton_store::*;

#[test]
fn ten_thousand_sets_under_pressure() {
    let scratch = Scratch::new();
    for name in ["data-aware", "lru", "dbmin-adaptive"] {
        let policy = policy::by_name(name).unwrap();
        let pool = Pool::open(PoolOptions { policy, ..options(&scratch, 9_000 * 4096) }).unwrap();
        let sets: Vec<SetId> = (0..10_000).map(|_| set(&*pool)).collect();
        let pages: Vec<PageId> =
            (0..).zip(&sets).map(|(seed, set)| seal(&*pool, *set, seed, 4096).unwrap().page).collect();
        for (seed, page) in (0..).zip(&pages).step_by(10) {
            check(&pool.pin(*page).unwrap(), seed);
        }
        assert_eq!(pool.describe().unwrap().len(), 10_000);
        for set in sets {
            pool.release_set(set);
        }
        assert_eq!(pool.counters().unwrap().pages, 0);
    }
}

#[test]
fn a_hundred_thousand_pages() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 98_000 * 128);
    let set = set(&*pool);
    let pages: Vec<PageId> = (0..100_000).map(|seed| seal(&*pool, set, seed, 128).unwrap().page).collect();
    for (seed, page) in (0..).zip(&pages) {
        check(&pool.pin(*page).unwrap(), seed);
    }
    let info = &pool.describe().unwrap()[0];
    assert_eq!((info.pages, info.bytes), (100_000, 12_800_000));
    assert_eq!(pool.pages(set).unwrap().len(), 100_000);
}
