//! Range partitions, compared with sorting by comparison.

mod common;

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::*;
use craton_shuffle::*;

/// The partition of each row.
fn assign(keys: Vec<ArrayRef>, boundaries: Vec<ArrayRef>, orders: &[Order]) -> Vec<usize> {
    let rows = keys[0].len();
    let ranges = Ranges::new(&boundaries, orders).unwrap();
    let width = keys.len();
    let mut columns: Vec<(String, ArrayRef)> =
        keys.into_iter().enumerate().map(|(number, key)| (number.to_string(), key)).collect();
    columns.push(("row".into(), Arc::new(UInt64Array::from_iter_values(0..rows as u64))));
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, key)| (name, key, true))).unwrap();
    let route = Route::Ranges { columns: (0..width).collect(), ranges: &ranges };
    let found = partition(&batch.schema(), &[batch], &route, ranges.count(), &Heap, 0).unwrap();
    let mut places = vec![usize::MAX; rows];
    for (number, partition) in found.iter().enumerate() {
        let rows = partition.batches[0].column(width).as_any().downcast_ref::<UInt64Array>().unwrap().clone();
        assert!(rows.values().windows(2).all(|pair| pair[0] < pair[1]), "rows of partition {number} keep their order");
        rows.values().iter().for_each(|row| places[*row as usize] = number);
    }
    places
}

type Key = Vec<Option<f64>>;

fn compare(a: &Key, b: &Key, orders: &[Order]) -> Ordering {
    a.iter().zip(b).zip(orders).fold(Ordering::Equal, |before, ((a, b), order)| {
        before.then_with(|| match (a, b) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) if order.nulls_first => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) if order.nulls_first => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) => {
                let ascending = a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
                if order.descending { ascending.reverse() } else { ascending }
            }
        })
    })
}

fn numbers(seed: u64, rows: usize, kinds: u64) -> impl Iterator<Item = Option<f64>> {
    let mut state = seed;
    (0..rows).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (state >> 33) % (kinds + 3) {
            0 => None,
            1 => Some(f64::NAN),
            2 => Some(-0.0),
            value => Some((value - 3) as f64),
        }
    })
}

#[test]
fn one_and_several_columns_in_every_order() {
    for width in 1..=3 {
        for flags in 0..1_u32 << (2 * width) {
            let bit = |bit: usize| flags >> bit & 1 == 1;
            let orders: Vec<_> =
                (0..width).map(|c| Order { descending: bit(2 * c), nulls_first: bit(2 * c + 1) }).collect();
            let columns: Vec<Key> = (0..width).map(|c| numbers(c as u64 + 1, 300, 6).collect()).collect();
            let rows: Vec<Key> = (0..300).map(|row| columns.iter().map(|column| column[row]).collect()).collect();
            let columns: Vec<Key> = (0..width).map(|c| numbers(c as u64 + 77, 12, 6).collect()).collect();
            let mut boundaries: Vec<Key> =
                (0..12).map(|row| columns.iter().map(|column| column[row]).collect()).collect();
            boundaries.sort_by(|a, b| compare(a, b, &orders));
            let arrays = |rows: &[Key]| -> Vec<ArrayRef> {
                (0..width)
                    .map(|c| Arc::new(rows.iter().map(|row| row[c]).collect::<Float64Array>()) as ArrayRef)
                    .collect()
            };
            let found = assign(arrays(&rows), arrays(&boundaries), &orders);
            for (row, found) in rows.iter().zip(found) {
                let expected = boundaries.iter().filter(|b| compare(b, row, &orders).is_le()).count();
                assert_eq!(found, expected, "{row:?} among {boundaries:?} in {orders:?}");
            }
        }
    }
}

#[test]
fn text_in_every_form() {
    let words = ["pear", "apple", "fig", "", "banana and a long tail of it", "zebra"].map(Some);
    let keys = || words.into_iter().chain([None]);
    let expected = vec![2, 0, 1, 0, 1, 2, 2];
    let boundaries = || -> Vec<ArrayRef> { vec![Arc::new(StringArray::from(vec!["banana", "fog"]))] };
    let forms: Vec<ArrayRef> = vec![
        Arc::new(keys().collect::<StringArray>()),
        Arc::new(keys().collect::<LargeStringArray>()),
        Arc::new(keys().collect::<StringViewArray>()),
        Arc::new(keys().collect::<DictionaryArray<types::Int32Type>>()),
    ];
    for form in forms {
        assert_eq!(assign(vec![form], boundaries(), &[Order::default()]), expected);
    }
}

#[test]
fn every_type_with_an_order() {
    for (name, array) in common::every_type(60) {
        // Rows 5, 10 and 20 are not null, and ascending in all types except these.
        let picked = array.slice(5, 1);
        match Ranges::new(std::slice::from_ref(&picked), &[Order::default()]) {
            Ok(_) => {
                let found = assign(vec![array.clone()], vec![picked], &[Order::default()]);
                assert_eq!(found[5], 1, "{name}: a row that equals a boundary belongs to the range after it");
            }
            Err(error) => assert!(
                name.contains("list")
                    || name.contains("union")
                    || ["null", "struct", "map", "runs", "interval", "days"].contains(&name.as_str()),
                "{name}: {error}"
            ),
        }
    }
}

#[test]
fn errors_of_invalid_input() {
    let ints = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let error = |boundaries: &[ArrayRef], orders: &[Order]| Ranges::new(boundaries, orders).err().unwrap().to_string();
    let plain = Order::default();
    assert_eq!(
        error(&[ints(&[1, 5, 3])], &[plain]),
        "boundaries: boundary 2 comes before boundary 1 in the given order; sort them"
    );
    assert_eq!(error(&[ints(&[1])], &[]), "boundaries: 0 orders were given for 1 columns");
    assert_eq!(error(&[ints(&[1]), ints(&[])], &[plain; 2]), "column 1 has 0 rows, the first one 1");
    let ranges = Ranges::new(&[ints(&[1])], &[plain]).unwrap();
    let batch = RecordBatch::try_from_iter([("a", Arc::new(Float64Array::from(vec![1.0])) as ArrayRef)]).unwrap();
    let route = Route::Ranges { columns: vec![0], ranges: &ranges };
    let found = partition(&batch.schema(), std::slice::from_ref(&batch), &route, 2, &Heap, 0).unwrap_err();
    assert_eq!(found.to_string(), "boundaries: they are of type Int64, the key of type Float64");
}

#[test]
fn no_boundaries_are_one_range() {
    let none: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(Vec::<i64>::new()))];
    let found = assign(vec![Arc::new(Int64Array::from(vec![Some(1), None]))], none, &[Order::default()]);
    assert_eq!(found, [0, 0]);
}
