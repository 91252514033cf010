//! Helpers shared by the tests of the pool.
#![allow(dead_code, missing_docs)]

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{ArrayRef, FixedSizeBinaryArray, RecordBatch};
use craton_store::{DataInfo, Home, PageSpec, Pinned, Pool, PoolOptions, Reference, Result, SetId, SetOptions};

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

/// The header of a page of one row, with a column of each of these lengths in bytes; each column has two buffers, an empty one and its bytes.
pub fn header(lengths: &[usize]) -> Vec<u8> {
    thread_local! {
        static LAST: RefCell<(Vec<usize>, Vec<u8>)> = RefCell::default();
    }
    LAST.with_borrow_mut(|(last, header)| {
        if last != lengths || header.is_empty() {
            *last = lengths.to_vec();
            *header = encode(lengths);
        }
        header.clone()
    })
}

fn encode(lengths: &[usize]) -> Vec<u8> {
    let column = |length: &usize| {
        let length = i32::try_from(*length).unwrap();
        Arc::new(FixedSizeBinaryArray::new(length, vec![0u8; length as usize].into(), None)) as ArrayRef
    };
    let batch = RecordBatch::try_from_iter(lengths.iter().map(|length| (length.to_string(), column(length)))).unwrap();
    craton_wire::encode_batch(&batch, craton_wire::Trim::Never).unwrap().header
}

/// The buffers of such a page.
pub fn buffers(places: impl IntoIterator<Item = Reference>) -> Vec<Reference> {
    places.into_iter().flat_map(|place| [Reference { segment: 0, offset: 0, length: 0 }, place]).collect()
}

/// Seal a page of that many pseudorandom bytes, generated from `seed`.
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
    let buffers = buffers([extents[0].reference().into()]);
    let mut spec = PageSpec { header: header(&[bytes]), buffers, rows, ..PageSpec::default() };
    change(&mut spec);
    home.seal(set, spec, extents)
}

/// Check that the page has the contents that [`seal`] wrote.
pub fn check(page: &Pinned, seed: u64) {
    let bytes = page.buffers[1].as_slice();
    assert_eq!(bytes.len() as u64, page.info.bytes);
    let found = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    assert!(found.eq(words(seed, bytes.len())), "page {} does not have the bytes of seed {seed}", page.info.page);
    assert_eq!(&page.header[..], header(&[bytes.len()]));
}

pub fn set(home: &dyn Home) -> SetId {
    home.create_set(SetOptions::default()).unwrap()
}
