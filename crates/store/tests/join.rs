//! Join maps against nested loops: random keys, several pages, little memory, other processes' pages, and damaged pages.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;

use arrow_buffer::Buffer;
use common::*;
use craton_store::remote::{Address, Client, Server, ServerOptions, Serving};
use craton_store::services::hash::*;
use craton_store::services::join::*;
use craton_store::*;
use craton_wire::object::encode_object;

type Key = Option<Vec<u8>>;

/// Pseudorandom numbers.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 ^ self.0 >> 29) * u128::from(below)) >> 64) as u64
    }

    fn keys(&mut self, count: usize, kinds: u64, long: bool) -> Vec<Key> {
        let one = |number: u64| match number % 9 {
            0 => None,
            1 => Some(Vec::new()),
            2 if long => Some(format!("a key that is not in its view {number}").into_bytes()),
            3 if long => Some(format!("eleven {:04}", number % 10_000).into_bytes()),
            4 => Some(vec![255; 8]),
            _ => Some(number.to_le_bytes().to_vec()),
        };
        (0..count).map(|_| one(self.next(kinds))).collect()
    }
}

/// Keys in pieces of a few rows.
struct Pieces {
    keys: Vec<Key>,
    each: usize,
}

impl KeyPieces for Pieces {
    fn count(&self) -> usize {
        self.keys.len().div_ceil(self.each)
    }

    fn rows(&self, piece: usize) -> (u64, usize) {
        let start = piece * self.each;
        (start as u64, self.each.min(self.keys.len() - start))
    }

    fn with<T>(&self, piece: usize, work: impl FnOnce(&Keys<'_>) -> Result<T>) -> Result<T> {
        let (start, count) = self.rows(piece);
        let mut bytes = b"before the keys".to_vec();
        let mut views = Vec::new();
        for key in &self.keys[start as usize..start as usize + count] {
            views.push(key.as_ref().map_or(NULL_KEY, |key| view_of(key, 1, bytes.len() as u32)));
            bytes.extend_from_slice(key.as_deref().unwrap_or_default());
        }
        work(&Keys { views: &views, buffers: vec![&[], &bytes] })
    }
}

fn pieces(keys: &[Key], each: usize) -> Pieces {
    Pieces { keys: keys.to_vec(), each }
}

fn made(home: &Arc<dyn Home>, keys: &Pieces, page_bytes: Option<u64>) -> (SetId, Vec<DataInfo>, JoinIndex) {
    let set = home.create_set(SetOptions::default()).unwrap();
    let built = build(home, set, keys, page_bytes).unwrap();
    assert_eq!(built.rows, keys.keys.len() as u64);
    let index = opened(home, set, &built.pages, built.rows).unwrap();
    (set, built.pages, index)
}

fn opened(home: &Arc<dyn Home>, set: SetId, pages: &[DataInfo], rows: u64) -> Result<JoinIndex> {
    let numbers: Vec<u32> = pages.iter().map(|info| info.page.number).collect();
    JoinIndex::new(home, set, &numbers, rows, pages.iter().map(|info| info.bytes).sum())
}

fn expected(ours: &[Key], theirs: &[Key], keep: bool) -> Matches {
    let mut rows = std::collections::HashMap::<&Key, Vec<u32>>::new();
    for (row, key) in theirs.iter().enumerate() {
        rows.entry(key).or_default().push(row as u32);
    }
    let mut found = Matches::default();
    for (row, key) in ours.iter().enumerate() {
        let none = if keep { vec![NO_ROW] } else { Vec::new() };
        for their in rows.get(key).unwrap_or(&none) {
            found.ours.push(row as u32);
            found.theirs.push(*their);
        }
    }
    found
}

fn check(index: &JoinIndex, ours: &[Key], theirs: &[Key], each: usize) {
    for keep in [false, true] {
        assert!(index.probe(&pieces(ours, each), keep).unwrap() == expected(ours, theirs, keep));
    }
}

#[test]
fn random_keys_match_like_in_nested_loops() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let scratch = Scratch::new();
        let home: Arc<dyn Home> = pool(&scratch, 8 << 20);
        let long = seed % 2 == 0;
        let mut keys = |most| {
            let (count, kinds) = (random.next(most) as usize, [20, 3000][random.next(2) as usize]);
            random.keys(count, kinds, long)
        };
        let (theirs, ours) = (keys(if seed % 5 == 0 { 2 } else { 3000 }), keys(2000));
        let page_bytes = [None, Some(1 << 12), Some(1 << 15)][seed as usize % 3];
        let (_, pages, index) = made(&home, &pieces(&theirs, 97), page_bytes);
        assert!(pages.len().is_power_of_two());
        check(&index, &ours, &theirs, 101);
        check(&index, &[], &theirs, 101);
    }
}

#[test]
fn more_pages_than_memory_are_probed_one_after_another() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let mut random = Random(1);
    let mut key = || (random.next(90_000) > 0).then(|| format!("number {}", random.next(70_000)).into_bytes());
    let theirs: Vec<Key> = (0..100_000).map(|_| key()).collect();
    let ours: Vec<Key> = (0..20_000).map(|_| key()).collect();
    let (_, pages, index) = made(&home, &pieces(&theirs, 5000), None);
    assert!(pages.iter().map(|info| info.bytes).sum::<u64>() > 2 << 20);
    check(&index, &ours, &theirs, 4000);
    assert!(home.counters().unwrap().evicted_written > 0);
    // Pages that are in use leave less memory.
    let held = home.reserve(500 << 10, 500 << 10).unwrap();
    check(&index, &ours, &theirs, 4000);
    drop(held);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| check(&index, &ours, &theirs, 3000));
        }
    });
}

#[test]
fn a_client_with_a_quota_builds_and_probes() {
    let scratch = Scratch::new();
    let serving: Arc<dyn Serving> = pool(&scratch, 8 << 20);
    let options = ServerOptions { quota: 1 << 18, ..ServerOptions::default() };
    let server = Server::start(serving, Address::unique(), options).unwrap();
    let home: Arc<dyn Home> = Arc::new(Client::connect(server.address()).unwrap());
    let theirs = Random(3).keys(30_000, 1 << 40, true);
    let (_, _, index) = made(&home, &pieces(&theirs, 5000), Some(1 << 15));
    check(&index, &theirs[..2000], &theirs, 500);
}

#[test]
fn what_one_process_builds_others_probe_by_name() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 8 << 20);
    let serving: Arc<dyn Serving> = Arc::<Pool>::clone(&pool);
    let server = Server::start(serving, Address::unique(), ServerOptions::default()).unwrap();
    let builder: Arc<dyn Home> = Arc::new(Client::connect(server.address()).unwrap());
    let theirs = Random(4).keys(5000, 3000, true);
    let (set, pages, index) = made(&builder, &pieces(&theirs, 1000), Some(1 << 15));
    assert!(builder.find_set("map").unwrap().is_none());
    builder.name_set(set, "map").unwrap();
    assert!(matches!(builder.name_set(set, "other"), Err(Error::Invalid(_))));
    let another = builder.create_set(SetOptions::default()).unwrap();
    assert!(matches!(builder.name_set(another, "map"), Err(Error::Exists(_))));
    assert!(matches!(builder.name_set(SetId(999), "new"), Err(Error::NoSet(_))));
    builder.release_set(another);
    drop(index);
    drop(builder);
    let home: Arc<dyn Home> = Arc::new(Client::connect(server.address()).unwrap());
    assert_eq!(home.find_set("map").unwrap(), Some(set));
    let before = home.counters().unwrap();
    let index = opened(&home, set, &pages, 5000).unwrap();
    check(&index, &theirs[..1000], &theirs, 300);
    let after = home.counters().unwrap();
    assert_eq!((before.copied, before.slab_used), (after.copied, after.slab_used));
    pool.drop_set(set).unwrap();
    assert!(matches!(index.probe(&pieces(&theirs, 100), false), Err(Error::NoPage(_) | Error::NoSet(_))));
    assert!(pool.find_set("map").unwrap().is_none());
}

/// Write a page of an object with these metadata and parts.
fn write(home: &Arc<dyn Home>, set: SetId, meta: &[u64], parts: [&[u8]; 3]) -> DataInfo {
    let meta: Vec<u8> = meta.iter().flat_map(|word| word.to_le_bytes()).collect();
    let buffers = parts.iter().map(|part| Buffer::from(*part)).collect();
    let encoded = encode_object(meta, buffers).unwrap();
    let lengths: Vec<usize> = encoded.buffers.iter().map(Buffer::len).filter(|length| *length > 0).collect();
    let mut extents = home.allocate(set, &lengths).unwrap();
    let mut unused = extents.iter_mut();
    let mut references = Vec::new();
    for buffer in &encoded.buffers {
        let mut reference = Reference { segment: 0, offset: 0, length: 0 };
        if !buffer.is_empty() {
            let extent = unused.next().unwrap();
            extent.as_mut_slice().unwrap()[..buffer.len()].copy_from_slice(buffer);
            reference = Reference { length: buffer.len() as u64, ..extent.reference().into() };
        }
        references.push(reference);
    }
    let spec = PageSpec { header: encoded.header, buffers: references, rows: 1, ..PageSpec::default() };
    home.seal(set, spec, extents).unwrap()
}

#[test]
fn damaged_pages_are_errors() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 8 << 20);
    let magic = u64::from_le_bytes(*b"CrJoin01");
    let long = b"a key that is not in its view".to_vec();
    let key = pieces(&[Some(long.clone())], 1);
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let starts = |starts: &[u32]| starts.iter().flat_map(|start| start.to_le_bytes()).collect::<Vec<u8>>();
    let prefix = u64::from(u32::from_le_bytes([long[0], long[1], long[2], long[3]]));
    let entry = |length: u64, row: u64, at: u64| words(&[prefix, length << 32 | row, at]);
    let (length, meta) = (long.len() as u64, [magic, 0, 0, 1, 3, 0, long.len() as u64]);
    let probe = |meta: &[u64], starts: &[u8], entries: &[u8], heap: &[u8], rows: u64| {
        let set = home.create_set(SetOptions::default()).unwrap();
        let info = write(&home, set, meta, [starts, entries, heap]);
        opened(&home, set, &[info], rows).unwrap().probe(&key, false)
    };
    let sound = probe(&meta, &starts(&[0, 1]), &entry(length, 0, 0), &long, 1).unwrap();
    assert_eq!((sound.ours, sound.theirs), (vec![0], vec![0]));
    let damaged = [
        probe(&[magic + 1, 0, 0, 1, 3, 0, length], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&[magic, 1, 0, 1, 3, 0, length], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&[magic, 0, 1, 1, 3, 0, length], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&[magic, 0, 0, 2, 3, 0, length], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&[magic, 0, 0, u64::MAX, 3, 0, length], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&[magic, 0, 0, 1, 2, 0, length], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&[magic, 0, 0, 1, 4, 0, length], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&[magic, 0, 0, 1, 3, 60, length], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&[magic, 0, 0, 1, 3, 0, length + 1], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&meta[..6], &starts(&[0, 1]), &entry(length, 0, 0), &long, 1),
        probe(&meta, &starts(&[0, 1, 1]), &entry(length, 0, 0), &long, 1),
        probe(&meta, &starts(&[0, 2]), &entry(length, 0, 0), &long, 1),
        probe(&meta, &starts(&[1, 0]), &entry(length, 0, 0), &long, 1),
        probe(&meta, &starts(&[0, u32::MAX]), &entry(length, 0, 0), &long, 1),
        probe(&meta, &starts(&[0, 1]), &entry(length, 1, 0), &long, 1),
        probe(&meta, &starts(&[0, 1]), &entry(length, 0, 1), &long, 1),
        probe(&meta, &starts(&[0, 1]), &entry(length, 0, u64::MAX), &long, 1),
    ];
    for (number, result) in damaged.into_iter().enumerate() {
        assert!(matches!(result, Err(Error::Damaged { .. })), "{number}: {result:?}");
    }
    // A key of another length, or another key, does not match.
    assert!(probe(&meta, &starts(&[0, 1]), &entry(length - 1, 0, 0), &long, 1).unwrap().ours.is_empty());
    assert!(probe(&meta, &starts(&[0, 1]), &entry(length, 0, 0), &vec![b'a'; long.len()], 1).unwrap().ours.is_empty());
    // A page that is no object, and a set with another number of pages.
    let set = home.create_set(SetOptions::default()).unwrap();
    let info = seal(home.as_ref(), set, 1, 4096).unwrap();
    let index = opened(&home, set, std::slice::from_ref(&info), 1).unwrap();
    assert!(matches!(index.probe(&key, false), Err(Error::Damaged { .. })));
    assert!(matches!(opened(&home, set, &[], 1), Err(Error::Invalid(_))));
    assert!(matches!(opened(&home, set, &[info], u64::MAX), Err(Error::Invalid(_))));
}

#[test]
fn a_failed_build_leaves_no_memory_in_use() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let set = home.create_set(SetOptions::default()).unwrap();
    // All rows have one key, so one page has all of them: it does not fit.
    let keys = pieces(&vec![Some(b"key".to_vec()); 100_000], 10_000);
    assert!(matches!(build(&home, set, &keys, None), Err(Error::Full { .. })));
    home.release_set(set);
    assert_eq!(home.counters().unwrap().slab_used, 0);
}
