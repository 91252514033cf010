//! Hash aggregation against `HashMap`: random programs, more groups than memory, several threads, and errors.
#![allow(missing_docs)]

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use common::*;
use craton_store::remote::{Address, Client, Server, ServerOptions, Serving};
use craton_store::services::hash::*;
use craton_store::*;

const ALL: [Aggregate; 8] = [
    Aggregate::Count,
    Aggregate::Sum(Number::Int),
    Aggregate::Sum(Number::Float),
    Aggregate::Min(Number::Int),
    Aggregate::Max(Number::Int),
    Aggregate::Min(Number::Float),
    Aggregate::Max(Number::Float),
    Aggregate::Last(Number::Int),
];

type Key = Option<Vec<u8>>;
/// A key with the values of both types.
type Row = (Key, Option<i64>, Option<f64>);
/// The results, in the order of `ALL`.
type Results = (i64, i64, f64, Option<i64>, Option<i64>, Option<f64>, Option<f64>, Option<i64>);

/// Pseudorandom numbers.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0 ^ self.0 >> 29) * u128::from(below)) >> 64) as u64
    }

    fn key(&mut self, kinds: u64) -> Key {
        let number = self.next(kinds);
        match number % 7 {
            0 if number < 7 => None,
            1 if number < 7 => Some(Vec::new()),
            2 => Some(format!("a key that is not in its view {number}").into_bytes()),
            3 => Some([b"x".repeat((number % 300) as usize), number.to_string().into_bytes()].concat()),
            _ => Some(number.to_string().into_bytes()),
        }
    }

    fn rows(&mut self, count: usize, kinds: u64) -> Vec<Row> {
        let value = |random: &mut Self| (random.next(10) > 0).then(|| random.next(1000) as i64 - 500);
        (0..count).map(|_| (self.key(kinds), value(self), value(self).map(|value| value as f64 / 4.0))).collect()
    }
}

/// Call a function with keys in the layout of Arrow.
fn with_keys<T>(keys: &[Key], call: impl FnOnce(Keys<'_>) -> T) -> T {
    let mut bytes = Vec::new();
    let mut views = Vec::new();
    for key in keys {
        views.push(key.as_ref().map_or(NULL_KEY, |key| view_of(key, 0, bytes.len() as u32)));
        bytes.extend_from_slice(key.as_deref().unwrap_or_default());
    }
    call(Keys { views: &views, buffers: vec![&bytes] })
}

fn add(buffer: &HashBuffer, rows: &[Row]) -> Result<()> {
    let keys: Vec<Key> = rows.iter().map(|row| row.0.clone()).collect();
    let ints: Vec<i64> = rows.iter().map(|row| row.1.unwrap_or(i64::MAX)).collect();
    let floats: Vec<f64> = rows.iter().map(|row| row.2.unwrap_or(f64::NAN)).collect();
    let int_nulls = NullBuffer::from_iter(rows.iter().map(|row| row.1.is_some()));
    let float_nulls = NullBuffer::from_iter(rows.iter().map(|row| row.2.is_some()));
    let values = buffer.aggregates().iter().map(|aggregate| match aggregate {
        Aggregate::Count => Values::Rows,
        aggregate if aggregate.number() == Number::Int => Values::Int(&ints, Some(&int_nulls)),
        _ => Values::Float(&floats, Some(&float_nulls)),
    });
    let values = values.collect();
    with_keys(&keys, |keys| buffer.add(&Rows { keys, values }))
}

fn expect(model: &mut HashMap<Key, Results>, rows: &[Row]) {
    for (key, int, float) in rows {
        let found = model.entry(key.clone()).or_insert((0, 0, 0.0, None, None, None, None, None));
        found.0 += 1;
        found.1 += int.unwrap_or(0);
        found.2 += float.unwrap_or(0.0);
        let better = |old: Option<f64>, new: Option<f64>, choose: fn(f64, f64) -> f64| match (old, new) {
            (Some(old), Some(new)) => Some(choose(old, new)),
            (old, new) => old.or(new),
        };
        found.3 = [found.3, *int].into_iter().flatten().min();
        found.4 = [found.4, *int].into_iter().flatten().max();
        found.5 = better(found.5, *float, f64::min);
        found.6 = better(found.6, *float, f64::max);
        found.7 = int.or(found.7);
    }
}

fn int(array: &ArrayRef, row: usize) -> Option<i64> {
    array.is_valid(row).then(|| array.as_primitive::<Int64Type>().value(row))
}

fn float(array: &ArrayRef, row: usize) -> Option<f64> {
    array.is_valid(row).then(|| array.as_primitive::<Float64Type>().value(row))
}

fn results(columns: &[ArrayRef], row: usize) -> Results {
    (
        int(&columns[0], row).unwrap(),
        int(&columns[1], row).unwrap(),
        float(&columns[2], row).unwrap(),
        int(&columns[3], row),
        int(&columns[4], row),
        float(&columns[5], row),
        float(&columns[6], row),
        int(&columns[7], row),
    )
}

fn batches(mut groups: HashGroups) -> Vec<RecordBatch> {
    std::iter::from_fn(|| groups.next_batch().unwrap()).collect()
}

fn groups(batches: &[RecordBatch]) -> HashMap<Key, Results> {
    let mut found = HashMap::new();
    for batch in batches {
        let keys = batch.column(0).as_binary_view();
        for row in 0..batch.num_rows() {
            let key = keys.is_valid(row).then(|| keys.value(row).to_vec());
            assert_eq!(found.insert(key, results(&batch.columns()[1..], row)), None, "a key has two groups");
        }
    }
    found
}

fn same(found: &HashMap<Key, Results>, model: &HashMap<Key, Results>) {
    assert_eq!(found.len(), model.len());
    for (key, expected) in model {
        assert_eq!(found.get(key), Some(expected), "{key:?}");
    }
}

fn taken(buffer: HashBuffer) -> HashMap<Key, Results> {
    groups(&batches(HashGroups::take(Arc::new(buffer)).unwrap()))
}

fn buffer(home: &Arc<dyn Home>, memory: u64) -> HashBuffer {
    HashBuffer::new(home, ALL.to_vec(), HashOptions { memory: Some(memory), page_bytes: None }).unwrap()
}

#[test]
fn groups_are_those_of_a_hash_map() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 64 << 20);
    for (seed, (count, kinds)) in
        [(0, 1), (1, 1), (100, 3), (5000, 50), (40_000, 5000), (60_000, 1 << 40)].into_iter().enumerate()
    {
        let buffer = HashBuffer::new(&home, ALL.to_vec(), HashOptions::default()).unwrap();
        let (mut model, mut random) = (HashMap::new(), Random(seed as u64));
        for part in random.rows(count, kinds).chunks(count / 3 + 1) {
            add(&buffer, part).unwrap();
            expect(&mut model, part);
        }
        assert_eq!(buffer.count().unwrap(), model.len() as u64);
        assert_eq!(buffer.sealed(), 0);
        same(&taken(buffer), &model);
    }
    assert!(home.describe().unwrap().is_empty(), "a set was left");
}

#[test]
fn more_groups_than_memory_are_combined_from_partial_results() {
    for (limit, memory, kinds) in
        [(1 << 20, 1 << 19, 20_000), (1 << 20, 1 << 18, 1 << 40), (1 << 18, 1 << 15, 6000), (1 << 17, 1 << 14, 1 << 40)]
    {
        let scratch = Scratch::new();
        let home: Arc<dyn Home> = pool(&scratch, limit);
        let buffer = buffer(&home, memory);
        let (mut model, mut random) = (HashMap::new(), Random(limit + kinds));
        for _ in 0..5 {
            let rows = random.rows(8_000, kinds);
            add(&buffer, &rows).unwrap();
            expect(&mut model, &rows);
        }
        assert!(buffer.sealed() > 10, "{} pages were sealed", buffer.sealed());
        let counters = home.counters().unwrap();
        assert!(counters.slab_used <= limit && counters.written > 0, "{counters:?}");
        // All batches together may be larger than the limit.
        same(&taken(buffer), &model);
        assert!(home.describe().unwrap().is_empty());
    }
}

/// Additions, removals, lookups and copies, in any order, with more groups than memory.
#[test]
fn a_map_that_is_changed_and_read_at_once() {
    for (limit, memory, kinds) in [(64u64 << 20, 1u64 << 25, 3000), (1 << 18, 1 << 16, 6000), (1 << 18, 1 << 14, 2000)]
    {
        let scratch = Scratch::new();
        let home: Arc<dyn Home> = pool(&scratch, limit);
        let buffer = Arc::new(buffer(&home, memory));
        let (mut model, mut random) = (HashMap::new(), Random(memory));
        for step in 0..30 {
            let count = random.next(2000) as usize;
            match random.next(5) {
                0 | 1 => {
                    let rows = random.rows(count, kinds);
                    add(&buffer, &rows).unwrap();
                    expect(&mut model, &rows);
                }
                2 => {
                    let keys: Vec<Key> = (0..count).map(|_| random.key(kinds)).collect();
                    let before = model.len();
                    for key in &keys {
                        model.remove(key);
                    }
                    let removed = with_keys(&keys, |keys| buffer.remove(&keys)).unwrap();
                    assert_eq!(removed, (before - model.len()) as u64);
                }
                3 => {
                    let keys: Vec<Key> = (0..count).map(|_| random.key(kinds)).collect();
                    let (known, columns) = with_keys(&keys, |keys| buffer.find(&keys)).unwrap();
                    for (row, key) in keys.iter().enumerate() {
                        assert_eq!(known[row], model.contains_key(key), "step {step}");
                        assert_eq!(known[row].then(|| results(&columns, row)).as_ref(), model.get(key));
                    }
                }
                _ => {
                    assert_eq!(buffer.count().unwrap(), model.len() as u64);
                    same(&groups(&batches(HashGroups::copy(Arc::clone(&buffer)).unwrap())), &model);
                }
            }
        }
        same(&groups(&batches(HashGroups::take(buffer).unwrap())), &model);
    }
}

#[test]
fn threads_add_at_once_in_this_process_and_over_a_socket() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 2 << 20);
    let serving: Arc<dyn Serving> = Arc::<Pool>::clone(&pool);
    let server = Server::start(serving, Address::unique(), ServerOptions::default()).unwrap();
    let clients: [Arc<dyn Home>; 2] = [pool, Arc::new(Client::connect(server.address()).unwrap())];
    for home in &clients {
        let buffer = buffer(home, 1 << 18);
        let mut model = HashMap::new();
        let parts: Vec<Vec<Row>> = (0..4).map(|seed| Random(seed).rows(15_000, 8000)).collect();
        std::thread::scope(|scope| {
            for part in &parts {
                scope.spawn(|| part.chunks(4000).for_each(|rows| add(&buffer, rows).unwrap()));
            }
        });
        parts.iter().for_each(|part| expect(&mut model, part));
        assert!(buffer.sealed() > 0);
        // The last value depends on the threads.
        let mut found = taken(buffer);
        found.values_mut().chain(model.values_mut()).for_each(|results| results.7 = None);
        same(&found, &model);
    }
}

#[test]
fn a_client_with_a_small_quota_uses_smaller_pages() {
    let scratch = Scratch::new();
    let serving: Arc<dyn Serving> = pool(&scratch, 8 << 20);
    let options = ServerOptions { quota: 1 << 18, ..ServerOptions::default() };
    let server = Server::start(serving, Address::unique(), options).unwrap();
    let home: Arc<dyn Home> = Arc::new(Client::connect(server.address()).unwrap());
    let buffer = buffer(&home, 4 << 20);
    let rows = Random(3).rows(50_000, 1 << 40);
    let mut model = HashMap::new();
    rows.chunks(9000).for_each(|rows| add(&buffer, rows).unwrap());
    expect(&mut model, &rows);
    same(&taken(buffer), &model);
}

#[test]
fn others_take_the_memory_meanwhile() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 2 << 20);
    let buffer = buffer(&home, 1 << 20);
    let rows = Random(5).rows(40_000, 1 << 40);
    let mut model = HashMap::new();
    expect(&mut model, &rows);
    let (first, second) = rows.split_at(20_000);
    add(&buffer, first).unwrap();
    let held = home.reserve(700 << 10, 700 << 10).unwrap();
    add(&buffer, second).unwrap();
    drop(held);
    same(&taken(buffer), &model);
}

#[test]
fn sums_of_floats_depend_on_the_order_of_rows_alone() {
    let sums = || {
        let scratch = Scratch::new();
        let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
        let aggregates = vec![Aggregate::Sum(Number::Float)];
        let buffer =
            HashBuffer::new(&home, aggregates, HashOptions { memory: Some(1 << 18), page_bytes: None }).unwrap();
        let mut random = Random(9);
        for _ in 0..10 {
            let rows: Vec<Row> = (0..20_000)
                .map(|_| {
                    (
                        Some(random.next(9000).to_string().into_bytes()),
                        None,
                        Some(1.0 / (1.0 + random.next(1 << 50) as f64)),
                    )
                })
                .collect();
            add(&buffer, &rows).unwrap();
        }
        assert!(buffer.sealed() > 0);
        let mut found: Vec<(Vec<u8>, u64)> = Vec::new();
        for batch in batches(HashGroups::take(Arc::new(buffer)).unwrap()) {
            let (keys, sums) = (batch.column(0).as_binary_view(), batch.column(1).as_primitive::<Float64Type>());
            found.extend((0..batch.num_rows()).map(|row| (keys.value(row).to_vec(), sums.value(row).to_bits())));
        }
        found.sort();
        found
    };
    assert!(sums() == sums());
}

#[test]
fn invalid_rows_are_refused_and_nothing_is_lost() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let buffer = buffer(&home, 1 << 19);
    let rows = Random(1).rows(1000, 100);
    add(&buffer, &rows).unwrap();
    let long = vec![(Some(b"y".to_vec()), Some(1), None), (Some(vec![b'x'; buffer.longest_key() + 1]), Some(1), None)];
    let error = add(&buffer, &long).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    let fits = vec![(Some(vec![b'x'; buffer.longest_key()]), Some(1), None)];
    add(&buffer, &fits).unwrap();
    let keys = [Some(b"y".to_vec()), Some(b"z".to_vec())];
    for values in
        [vec![], vec![Values::Int(&[1], None); 8], vec![Values::Rows; 8], vec![Values::Float(&[1.0, 2.0], None); 8]]
    {
        let refused = with_keys(&keys, |keys| buffer.add(&Rows { keys, values }));
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
    let mut model = HashMap::new();
    expect(&mut model, &rows);
    expect(&mut model, &fits);
    same(&taken(buffer), &model);
    for options in
        [HashOptions { page_bytes: Some(100), memory: None }, HashOptions { page_bytes: Some(1 << 20), memory: None }]
    {
        assert!(matches!(HashBuffer::new(&home, ALL.to_vec(), options), Err(Error::Invalid(_))));
    }
}

#[test]
fn keys_that_are_nearly_as_long_as_pages() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let buffer = buffer(&home, 1 << 17);
    let longest = buffer.longest_key() as u64;
    let (mut random, mut model) = (Random(2), HashMap::new());
    for _ in 0..20 {
        let row = |random: &mut Random| {
            let number = random.next(300);
            let length = if number % 3 == 0 { longest - number % 10 } else { number };
            let key = [number.to_string().into_bytes(), vec![b'k'; length as usize]].concat();
            (Some(key[..key.len().min(longest as usize)].to_vec()), Some(1), None)
        };
        let rows: Vec<Row> = (0..50).map(|_| row(&mut random)).collect();
        add(&buffer, &rows).unwrap();
        expect(&mut model, &rows);
    }
    same(&taken(buffer), &model);
}

#[test]
fn sums_that_overflow_and_later_calls_fail() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let buffer = Arc::new(buffer(&home, 1 << 19));
    let row = |value| vec![(Some(b"a".to_vec()), Some(value), None)];
    add(&buffer, &row(i64::MAX)).unwrap();
    add(&buffer, &row(-1)).unwrap();
    assert!(matches!(add(&buffer, &row(2)), Err(Error::Overflow(1))));
    let error = add(&buffer, &row(-5)).unwrap_err();
    assert!(error.to_string().contains("failed"), "{error}");
    assert!(HashGroups::take(Arc::clone(&buffer)).is_err() && buffer.count().is_err());
}

#[test]
fn a_finished_buffer_and_a_closed_store_are_refused() {
    let scratch = Scratch::new();
    let pool = pool(&scratch, 1 << 20);
    let home: Arc<dyn Home> = pool.clone();
    let (rows, mut model) = (Random(1).rows(30_000, 1 << 40), HashMap::new());
    expect(&mut model, &rows);
    let finished = Arc::new(buffer(&home, 1 << 18));
    add(&finished, &rows).unwrap();
    let mut groups_left = HashGroups::take(Arc::clone(&finished)).unwrap();
    assert!(add(&finished, &rows[..1]).unwrap_err().to_string().contains("finished"));
    assert!(HashGroups::take(Arc::clone(&finished)).is_err());
    assert!(groups_left.next_batch().unwrap().is_some());
    pool.close();
    let error = loop {
        match groups_left.next_batch() {
            Ok(batch) => assert!(batch.is_some(), "groups are missing"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Closed | Error::NoPage(_)), "{error}");
    assert!(groups_left.next_batch().is_err());
    assert!(HashBuffer::new(&home, ALL.to_vec(), HashOptions::default()).is_err());
}

#[test]
fn a_disk_that_cannot_be_written_is_an_error() {
    let scratch = Scratch::new();
    let file = scratch.0.join("file");
    std::fs::write(&file, b"").unwrap();
    let home: Arc<dyn Home> =
        Pool::open(PoolOptions { limit: 1 << 20, directory: Some(file), ..PoolOptions::default() }).unwrap();
    let buffer = buffer(&home, 1 << 19);
    let mut random = Random(4);
    let error = (0..100).find_map(|_| add(&buffer, &random.rows(10_000, 1 << 40)).err()).expect("an error");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(add(&buffer, &[]).unwrap_err().to_string().contains("failed"));
}
