//! Partitions have each row of the input once, in order.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::*;
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Schema};
use craton_shuffle::*;

fn numbers(rows: usize, partitions: usize) -> Vec<u32> {
    // An irregular order, with runs, and with some partitions empty.
    let number = |row: usize| ((row * row / 7 + row / 3) % partitions) as u32;
    (0..rows).map(|row| if number(row) == 3 { 0 } else { number(row) }).collect()
}

/// Gather rows of several arrays by a slow reference implementation.
fn gather(batches: &[RecordBatch], column: usize, rows: impl Iterator<Item = usize>) -> ArrayData {
    let arrays: Vec<_> = batches.iter().map(|batch| batch.column(column).to_data()).collect();
    let mut out = MutableArrayData::new(arrays.iter().collect(), false, 0);
    for mut row in rows {
        let mut batch = 0;
        while row >= batches[batch].num_rows() {
            row -= batches[batch].num_rows();
            batch += 1;
        }
        out.try_extend(batch, row, row + 1).unwrap();
    }
    out.freeze()
}

fn check(batches: &[RecordBatch], given: &[u32], partitions: &[Partition]) {
    for (number, partition) in partitions.iter().enumerate() {
        let rows = || (0..given.len()).filter(|row| given[*row] as usize == number);
        assert_eq!(partition.rows, rows().count(), "rows of partition {number}");
        assert_eq!(partition.batches.len(), 1);
        let batch = &partition.batches[0];
        assert_eq!(batch.num_rows(), partition.rows);
        for (column, array) in batch.columns().iter().enumerate() {
            let found = array.to_data();
            found.validate_full().unwrap();
            let name = batch.schema_ref().field(column).name().clone();
            if !batches.is_empty() {
                let expected = gather(batches, column, rows());
                assert!(found == expected, "{name} in partition {number}");
            }
        }
    }
}

fn batch(columns: Vec<(String, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn run(batches: &[RecordBatch], partitions: usize) {
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let given = numbers(rows, partitions);
    let found = partition(&batches[0].schema(), batches, &Route::Numbers(&given), partitions, &Heap, 0).unwrap();
    assert_eq!(found.len(), partitions);
    check(batches, &given, &found);
}

#[test]
fn every_type_whole() {
    run(&[batch(common::every_type(500))], 7);
}

#[test]
fn every_type_in_slices_of_several_batches() {
    let whole = batch(common::every_type(700));
    run(
        &[whole.slice(3, 61), whole.slice(64, 0), whole.slice(65, 300), batch(common::every_type(130)).slice(9, 120)],
        5,
    );
}

#[test]
fn one_partition_and_more_partitions_than_rows() {
    run(&[batch(common::every_type(100))], 1);
    run(&[batch(common::every_type(40)).slice(1, 39)], 4096);
}

#[test]
fn no_rows_and_no_batches() {
    let empty = batch(common::every_type(10)).slice(4, 0);
    run(std::slice::from_ref(&empty), 3);
    let found = partition(&empty.schema(), &[], &Route::Numbers(&[]), 3, &Heap, 2).unwrap();
    assert!(found.iter().all(|partition| partition.rows == 0 && partition.batches[0].schema() == empty.schema()));
}

#[test]
fn no_columns() {
    let options = RecordBatchOptions::new().with_row_count(Some(10));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    run(&[batch], 4);
}

#[test]
fn many_chunks_and_thousands_of_partitions() {
    let rows = 200_000_usize;
    let columns: Vec<(String, ArrayRef)> = vec![
        ("number".into(), Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ("flag".into(), Arc::new((0..rows).map(|row| (row % 9 > 0).then_some(row % 2 == 0)).collect::<BooleanArray>())),
        ("text".into(), Arc::new(StringArray::from_iter_values((0..rows).map(common::text)))),
        (
            "view".into(),
            Arc::new((0..rows).map(|row| (row % 9 > 0).then(|| common::text(row))).collect::<StringViewArray>()),
        ),
    ];
    let batch = batch(columns);
    for (partitions, threads) in [(2, 1), (64, 2), (4096, 3)] {
        let route = Route::Hash { columns: vec![0], seed: 5 };
        let found = partition(
            &batch.schema(),
            &[batch.slice(0, 70_000), batch.slice(70_000, rows - 70_000)],
            &route,
            partitions,
            &Heap,
            threads,
        );
        let hashes = hash_rows(&batch.columns()[..1], 5).unwrap();
        let mut rows_of = vec![Vec::new(); partitions];
        for (row, hash) in hashes.iter().enumerate() {
            rows_of[craton_shuffle::hash::partition_of(*hash, partitions as u64) as usize].push(row);
        }
        for (number, (partition, rows)) in found.unwrap().iter().zip(rows_of).enumerate() {
            let found = &partition.batches[0];
            assert_eq!(found.num_rows(), rows.len());
            if number % 97 == 0 {
                for column in 0..batch.num_columns() {
                    let expected = gather(std::slice::from_ref(&batch), column, rows.iter().copied());
                    assert!(found.column(column).to_data() == expected);
                }
            }
        }
    }
}

fn view_bytes(partition: &Partition) -> usize {
    partition.batches[0].column(0).to_data().buffers()[1..].iter().map(|buffer| buffer.len()).sum()
}

fn is_ours(partition: &Partition, input: &ArrayData) -> bool {
    let found = partition.batches[0].column(0).to_data();
    found.buffers()[1..].iter().all(|ours| input.buffers()[1..].iter().all(|theirs| ours.as_ptr() != theirs.as_ptr()))
}

#[test]
fn a_partition_owns_the_bytes_of_its_views() {
    let own: StringViewArray = (0..1000).map(|row| Some(format!("a string of some length {row}"))).collect();
    let batch = batch(vec![("view".into(), Arc::new(own.clone()))]);
    let given = numbers(1000, 4);
    let found = partition(&batch.schema(), std::slice::from_ref(&batch), &Route::Numbers(&given), 4, &Heap, 0).unwrap();
    check(&[batch], &given, &found);
    assert!(found.iter().all(|partition| is_ours(partition, &own.to_data())));
    let longs: usize = own.iter().flatten().map(str::len).sum();
    assert_eq!(found.iter().map(view_bytes).sum::<usize>(), longs);
}

#[test]
fn a_few_bytes_that_views_share_are_copied_whole() {
    let words = ["DELIVER IN PERSON", "TAKE BACK RETURN", "NONE"];
    let mut builder = builder::StringViewBuilder::new().with_deduplicate_strings();
    (0..5000).for_each(|row| builder.append_value(words[row % 3]));
    let shared = builder.finish();
    let batch = batch(vec![("view".into(), Arc::new(shared.clone()))]);
    let given = numbers(5000, 4);
    let batches = [batch.slice(1, 2000), batch.slice(2001, 2999)];
    let found = partition(&batch.schema(), &batches, &Route::Numbers(&given[..4999]), 4, &Heap, 0).unwrap();
    check(&batches, &given[..4999], &found);
    assert!(found.iter().all(|partition| is_ours(partition, &shared.to_data()) && view_bytes(partition) <= 33));
}

#[test]
fn many_bytes_that_views_share_stay_shared() {
    let mut builder = builder::StringViewBuilder::new().with_deduplicate_strings();
    (0..500).for_each(|row| builder.append_value(format!("{}{}", "x".repeat(2000), row % 2)));
    let shared = builder.finish();
    let batch = batch(vec![("view".into(), Arc::new(shared.clone()))]);
    let given = numbers(500, 64);
    let found =
        partition(&batch.schema(), std::slice::from_ref(&batch), &Route::Numbers(&given), 64, &Heap, 0).unwrap();
    check(&[batch], &given, &found);
    assert!(found.iter().map(|partition| partition.bytes).sum::<usize>() < 64 * 300);
}

#[test]
fn dictionaries_that_differ_are_united_without_repeating_a_value() {
    let column =
        |words: &[&str]| -> ArrayRef { Arc::new(words.iter().copied().collect::<DictionaryArray<types::Int8Type>>()) };
    let batches = [
        batch(vec![("words".into(), column(&["a", "b", "a", "c"]))]),
        batch(vec![("words".into(), column(&["c", "d", "a"]))]),
    ];
    let given = [0, 1, 1, 0, 0, 0, 1];
    let found = partition(&batches[0].schema(), &batches, &Route::Numbers(&given), 2, &Heap, 0).unwrap();
    check(&batches, &given, &found);
    let found = found[0].batches[0].column(0).as_any().downcast_ref::<DictionaryArray<types::Int8Type>>().unwrap();
    assert_eq!(found.values().len(), 4);
    let words: Vec<String> = (0..200).map(|word| format!("{word}")).collect();
    let half =
        |words: &[String]| batch(vec![("words".into(), column(&words.iter().map(String::as_str).collect::<Vec<_>>()))]);
    let batches = [half(&words[..100]), half(&words[100..])];
    let error = partition(&batches[0].schema(), &batches, &Route::Numbers(&[0; 200]), 1, &Heap, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the dictionaries of a column have 200 distinct values in total, more than keys of type Int8 can index"
    );
}

struct Counting {
    bytes: AtomicUsize,
    regions: AtomicUsize,
    limit: usize,
}

impl Memory for Counting {
    fn allocate(&self, partition: usize, bytes: usize) -> std::result::Result<Region, MemoryError> {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit {
            return Err("the slab is full".into());
        }
        self.regions.fetch_add(1, Ordering::Relaxed);
        let region = Heap.allocate(partition, bytes)?;
        // Fill the region with garbage, so that bytes that are not written later are noticed.
        // SAFETY: the region is exclusive and has this length.
        unsafe { region.as_mut_ptr().write_bytes(0xaa, bytes) };
        Ok(region)
    }
}

#[test]
fn memory_is_one_region_a_partition_no_longer_than_needed() {
    let batch = batch(common::every_type(5000));
    let memory = Counting { bytes: AtomicUsize::new(0), regions: AtomicUsize::new(0), limit: usize::MAX };
    let given = numbers(5000, 5);
    let found =
        partition(&batch.schema(), std::slice::from_ref(&batch), &Route::Numbers(&given), 5, &memory, 0).unwrap();
    check(std::slice::from_ref(&batch), &given, &found);
    let filled = found.iter().filter(|partition| partition.rows > 0).count();
    assert_eq!(memory.regions.into_inner(), filled);
    let bytes = memory.bytes.into_inner();
    assert_eq!(bytes, found.iter().map(|partition| partition.bytes).sum::<usize>());
    let input = batch.get_array_memory_size();
    assert!(bytes * 10 <= input * 11, "{bytes} bytes for {input}");
}

#[test]
fn a_failed_allocation_is_an_error() {
    let batch = batch(common::every_type(500));
    let memory = Counting { bytes: AtomicUsize::new(0), regions: AtomicUsize::new(0), limit: 1000 };
    let error = partition(&batch.schema(), std::slice::from_ref(&batch), &Route::Numbers(&[0; 500]), 1, &memory, 0)
        .unwrap_err();
    assert!(matches!(error, Error::Memory { .. }) && error.to_string().ends_with("the slab is full"), "{error}");
}

#[test]
fn errors_of_invalid_input() {
    let batch = batch(vec![("a".into(), Arc::new(Int64Array::from(vec![1, 2])))]);
    let schema = batch.schema();
    let batches = [batch];
    let go =
        |route: &Route, partitions| partition(&schema, &batches, route, partitions, &Heap, 0).unwrap_err().to_string();
    assert_eq!(go(&Route::Numbers(&[0, 0]), 0), "the number of partitions must be from 1 to 65536, got 0");
    assert_eq!(go(&Route::Numbers(&[0]), 2), "1 partition numbers were given for 2 rows");
    assert_eq!(go(&Route::Numbers(&[0, 9]), 2), "row 1 has the partition number 9, but there are 2 partitions");
    let hash = |columns| Route::Hash { columns, seed: 0 };
    assert_eq!(go(&hash(vec![3]), 2), "key column 3 does not exist: the batches have 1 columns");
    assert!(go(&hash(vec![]), 2).starts_with("no key columns were given"));
    let other = Arc::new(Schema::new(vec![arrow_schema::Field::new("a", DataType::Utf8, true)]));
    let error = partition(&other, &batches, &Route::Numbers(&[0, 0]), 2, &Heap, 0).unwrap_err();
    assert_eq!(error.to_string(), "batch 0 has the column types Int64, expected Utf8");
}
