//! What the tests of the pool share.
#![allow(dead_code, missing_docs)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use craton_store::{DataInfo, Home, PageSpec, Pinned, Pool, PoolOptions, Result, SetId, SetOptions};

/// A folder that is removed with its contents at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("craton-test-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn options(scratch: &Scratch, limit: u64) -> PoolOptions {
    PoolOptions { limit, directory: Some(scratch.0.clone()), segment_bytes: 8 << 20, ..PoolOptions::default() }
}

pub fn pool(scratch: &Scratch, limit: u64) -> Arc<Pool> {
    Pool::open(options(scratch, limit)).unwrap()
}

/// The words that page `seed` consists of.
pub fn words(seed: u64, bytes: usize) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..bytes / 8).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

pub fn header(rows: usize) -> Vec<u8> {
    format!("{rows} rows").into_bytes()
}

/// Seal a page of so many bytes that are made from `seed`.
pub fn seal(home: &dyn Home, set: SetId, seed: u64, bytes: usize) -> Result<DataInfo> {
    seal_with(home, set, seed, bytes, |_| {})
}

pub fn seal_with(
    home: &dyn Home,
    set: SetId,
    seed: u64,
    bytes: usize,
    change: impl FnOnce(&mut PageSpec),
) -> Result<DataInfo> {
    let mut extents = home.allocate(set, &[bytes])?;
    for (place, word) in extents[0].as_mut_slice().unwrap().chunks_exact_mut(8).zip(words(seed, bytes)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let rows = (bytes / 8) as u64;
    let buffers = vec![extents[0].reference().into()];
    let mut spec = PageSpec { header: header(bytes / 8), buffers, rows, ..PageSpec::default() };
    change(&mut spec);
    home.seal(set, spec, extents)
}

/// Whether the page is the one that [`seal`] made.
pub fn check(page: &Pinned, seed: u64) {
    let bytes = page.buffers[0].as_slice();
    assert_eq!(bytes.len() as u64, page.info.bytes);
    let found = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    assert!(found.eq(words(seed, bytes.len())), "page {} has not the bytes of seed {seed}", page.info.page);
    assert_eq!(&page.header[..], header(bytes.len() / 8));
}

pub fn set(home: &dyn Home) -> SetId {
    home.create_set(SetOptions::default()).unwrap()
}
