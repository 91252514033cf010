//! Threads append rows to pages: each row is stored once, and the rows of each writer keep their order.

mod common;

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::*;
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, SchemaRef};
use craton_shuffle::*;

/// Memory that is initially filled with garbage.
struct Block(NonNull<u8>, Layout);

// SAFETY: plain memory.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(bytes: usize) -> Arc<Self> {
        let layout = Layout::from_size_align(bytes.max(64), 64).unwrap();
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc(layout) }).unwrap();
        // SAFETY: just allocated.
        unsafe { start.write_bytes(0xa5, layout.size()) };
        Arc::new(Self(start, layout))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), self.1) };
    }
}

struct Page {
    block: Arc<Block>,
    room: Vec<u64>,
    used: Vec<u64>,
    lost: Vec<Lost>,
}

/// Pages of a few hundred rows on the heap, all of which are kept.
struct Heaps {
    form: Form,
    bytes: usize,
    pages: Vec<Mutex<Vec<Page>>>,
    // Partitions whose next grant fails.
    failing: Mutex<Vec<usize>>,
}

// SAFETY: parts of a page are granted one after another; pages live as long as this.
unsafe impl Pages for Heaps {
    fn grant(&self, partition: usize, counts: &[u64]) -> std::result::Result<Granted, MemoryError> {
        if self.failing.lock().unwrap().contains(&partition) {
            return Err("no more".into());
        }
        let mut pages = self.pages[partition].lock().unwrap();
        let fits = |page: &Page| (0..counts.len()).all(|at| page.used[at] + counts[at] <= page.room[at]);
        if !pages.last().is_some_and(fits) {
            let room = self.form.room(self.bytes, counts, counts)?;
            let block = Block::new(self.form.bytes(&room));
            // SAFETY: the block has the required length and is not shared yet.
            unsafe { self.form.prepare(block.0, &room) };
            pages.push(Page { block, used: vec![0; room.len()], room, lost: Vec::new() });
        }
        let page = pages.last_mut().unwrap();
        let before = page.used.clone();
        page.used.iter_mut().zip(counts).for_each(|(used, count)| *used += count);
        Ok(Granted { start: page.block.0, room: page.room.clone(), before })
    }
}

impl Heaps {
    fn new(schema: &SchemaRef, partitions: usize, bytes: usize) -> Self {
        let form = Form::new(schema).unwrap().unwrap();
        let pages = (0..partitions).map(|_| Mutex::default()).collect();
        Self { form, bytes, pages, failing: Mutex::default() }
    }

    fn batches(&self, partition: usize) -> Vec<RecordBatch> {
        let pages = self.pages[partition].lock().unwrap();
        let batch = |page: &Page| {
            let bytes = page.block.1.size();
            // SAFETY: all writers have finished.
            let region = unsafe { Region::new(page.block.0, bytes, page.block.clone()) };
            let batch = self.form.batch(region, &page.room, &page.used, &page.lost).unwrap();
            batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
            batch
        };
        pages.iter().map(batch).collect()
    }
}

/// Columns of every type that can be appended.
fn batch(rows: usize) -> RecordBatch {
    let appends = |data_type: &DataType| {
        !data_type.is_nested() && !matches!(data_type, DataType::Dictionary(..) | DataType::RunEndEncoded(..))
            || matches!(data_type, DataType::Struct(fields) if fields.iter().all(|field| !field.data_type().is_nested()))
    };
    let columns = common::every_type(rows).into_iter().filter(|(_, array)| appends(array.data_type()));
    let columns: Vec<_> = columns.map(|(name, array)| (name, array, true)).collect();
    assert!(columns.len() > 30, "{} columns", columns.len());
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn joined<'a>(batches: impl Iterator<Item = &'a RecordBatch> + Clone, column: usize) -> ArrayData {
    let arrays: Vec<_> = batches.map(|batch| batch.column(column).to_data()).collect();
    let mut out = MutableArrayData::new(arrays.iter().collect(), false, 0);
    for (number, array) in arrays.iter().enumerate() {
        out.try_extend(number, 0, array.len()).unwrap();
    }
    out.freeze()
}

#[test]
fn appending_equals_partitioning_for_every_type() {
    let whole = batch(3000);
    let schema = whole.schema();
    for partitions in [1, 7, 300] {
        let heaps = Heaps::new(&schema, partitions, 40_000);
        let given: Vec<u32> = (0..3000_usize).map(|row| (row * row / 7 % partitions) as u32).collect();
        let mut start = 0;
        for rows in [1, 0, 63, 64, 65, 700, 1107, 1000] {
            let route = Route::Numbers(&given[start..start + rows]);
            append(&heaps.form, &[whole.slice(start, rows)], &route, partitions, &heaps, 2).unwrap();
            start += rows;
        }
        let expected =
            partition(&schema, std::slice::from_ref(&whole), &Route::Numbers(&given), partitions, &Heap, 2).unwrap();
        for (number, expected) in expected.iter().enumerate() {
            let found = heaps.batches(number);
            assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), expected.rows);
            if found.is_empty() {
                continue;
            }
            assert!(partitions > 1 || found.len() > 1, "one page");
            for column in 0..whole.num_columns() {
                let (found, expected) = (joined(found.iter(), column), joined(expected.batches.iter(), column));
                assert!(found == expected, "{} in partition {number}", schema.field(column).name());
            }
        }
    }
}

#[test]
fn a_few_bytes_that_views_share_are_copied_once_a_part() {
    let words = ["a word of more than twelve bytes", "another one, longer", "short"];
    let text = |row: usize| (row % 13 != 0).then(|| words[row % 3]);
    let schema_batch = |rows: std::ops::Range<usize>| {
        let mut array = arrow_array::builder::StringViewBuilder::new().with_deduplicate_strings();
        rows.clone().for_each(|row| array.append_option(text(row)));
        let columns: [(&str, ArrayRef); 1] = [("view", Arc::new(array.finish()))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
    };
    let heaps = Heaps::new(&schema_batch(0..1).schema(), 3, 200_000);
    for start in (0..9000).step_by(3000) {
        let given: Vec<u32> = (start..start + 3000).map(|row| (row / 3 % 3) as u32).collect();
        append(&heaps.form, &[schema_batch(start..start + 3000)], &Route::Numbers(&given), 3, &heaps, 0).unwrap();
    }
    for partition in 0..3 {
        let expected: Vec<_> = (0..9000).filter(|row| row / 3 % 3 == partition).map(text).collect();
        let batches = heaps.batches(partition);
        let found: Vec<_> = batches.iter().flat_map(|batch| batch.column(0).as_string_view().iter()).collect();
        assert_eq!(found, expected);
        let used: u64 = heaps.pages[partition].lock().unwrap().iter().map(|page| page.used[1]).sum();
        assert!(used < 1000, "{used} bytes of two words");
    }
}

fn numbered(writer: i64, from: i64, rows: i64) -> RecordBatch {
    let text = |row: i64| (row % 11 != 0).then(|| format!("{row:0width$}", width = (row % 40) as usize));
    let columns: [(&str, ArrayRef); 5] = [
        ("row", Arc::new(Int64Array::from_iter_values(from..from + rows))),
        ("writer", Arc::new(Int64Array::from(vec![writer; rows as usize]))),
        ("text", Arc::new((from..from + rows).map(text).collect::<StringArray>())),
        ("view", Arc::new((from..from + rows).map(text).collect::<StringViewArray>())),
        (
            "odd",
            Arc::new((from..from + rows).map(|row| (row % 5 != 0).then_some(row % 2 == 1)).collect::<BooleanArray>()),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// The row numbers of each writer in one partition, in order; checks that the other columns belong to the row.
fn rows_of(batches: &[RecordBatch], writers: i64) -> Vec<Vec<i64>> {
    let mut found = vec![Vec::new(); writers as usize];
    for batch in batches {
        let (rows, writers) =
            (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
        for at in 0..batch.num_rows() {
            let (row, writer) = (rows.value(at), writers.value(at));
            let expected = numbered(writer, row, 1);
            for column in 2..5 {
                let (one, other) = (batch.column(column).slice(at, 1).to_data(), expected.column(column).to_data());
                assert!(one == other, "column {column} of row {row}");
            }
            found[writer as usize].push(row);
        }
    }
    found
}

#[test]
fn threads_append_to_one_page() {
    let heaps = Heaps::new(&numbered(0, 0, 1).schema(), 3, 100_000);
    let route = || Route::Hash { columns: vec![0], seed: 0 };
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let heaps = &heaps;
            scope.spawn(move || {
                for from in (0..6000).step_by(50) {
                    append(&heaps.form, &[numbered(writer, from, 50)], &route(), 3, heaps, 0).unwrap();
                }
            });
        }
    });
    let mut all = vec![Vec::new(); 6];
    for partition in 0..3 {
        let found = rows_of(&heaps.batches(partition), 6);
        assert!(found.iter().all(|rows| rows.is_sorted() && *rows == found[0]));
        all.iter_mut().zip(found).for_each(|(all, rows)| all.extend(rows));
    }
    for mut rows in all {
        rows.sort_unstable();
        assert!(rows.into_iter().eq(0..6000));
    }
}

#[test]
fn granted_parts_that_were_not_written_are_left_out() {
    let heaps = Heaps::new(&numbered(0, 0, 1).schema(), 2, 1 << 20);
    let give_up = |partition: usize, rows: u64| {
        // A part that was granted and never written.
        let counts = [rows, 5 * rows, 3 * rows];
        let granted = heaps.grant(partition, &counts).unwrap();
        heaps.pages[partition].lock().unwrap().last_mut().unwrap().lost.push((granted.before, counts.to_vec()));
    };
    give_up(0, 3);
    for from in (0..1000).step_by(100) {
        append(&heaps.form, &[numbered(0, from, 100)], &Route::Numbers(&[0; 100]), 2, &heaps, 0).unwrap();
        give_up(0, 1 + from as u64 / 50);
    }
    let batches = heaps.batches(0);
    assert_eq!(batches.len(), 1);
    assert!(rows_of(&batches, 1)[0].iter().copied().eq(0..1000));
    give_up(1, 10);
    assert_eq!(heaps.batches(1)[0].num_rows(), 0);
}

#[test]
fn types_that_cannot_be_appended_are_refused() {
    let heaps = Heaps::new(&numbered(0, 0, 1).schema(), 2, 1000);
    heaps.failing.lock().unwrap().push(1);
    let route = Route::Hash { columns: vec![0], seed: 0 };
    let error = append(&heaps.form, &[numbered(0, 0, 100)], &route, 2, &heaps, 0).unwrap_err();
    assert!(error.to_string().contains("no more"), "{error}");
    let other = RecordBatch::try_from_iter([("row", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
    assert!(matches!(append(&heaps.form, &[other], &route, 2, &heaps, 0), Err(Error::Schema { .. })));
    assert!(matches!(append(&heaps.form, &[], &route, 0, &heaps, 0), Err(Error::Partitions { .. })));
    for (name, array) in common::every_type(10) {
        let nested = array.data_type().is_nested() && !matches!(array.data_type(), DataType::Struct(_));
        let schema = RecordBatch::try_from_iter([(name.clone(), array)]).unwrap().schema();
        let form = Form::new(&schema).unwrap();
        assert!(form.is_none() || !nested, "{name}");
    }
}
