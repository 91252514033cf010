//! The hash of rows: its definition, which values are equal, and its distribution.

mod common;

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Fields};
use craton_shuffle::hash::partition_of;
use craton_shuffle::{Error, hash_rows};
use xxhash_rust::xxh3::xxh3_64_with_seed as xxh3;

fn hash(array: impl Array + 'static) -> Vec<u64> {
    hash_rows(&[Arc::new(array)], 0).unwrap()
}

fn class(name: &str) -> u64 {
    xxh3(name.as_bytes(), 0)
}

#[test]
fn the_hash_follows_its_definition() {
    for seed in [0, 42, u64::MAX] {
        let one = |array: ArrayRef| hash_rows(&[array], seed).unwrap()[0];
        let of = |bytes: &[u8], name: &str| xxh3(bytes, seed ^ class(name));
        assert_eq!(one(Arc::new(Int16Array::from(vec![-7]))), xxh3(&(-7_i64).to_le_bytes(), seed));
        assert_eq!(one(Arc::new(UInt64Array::from(vec![u64::MAX]))), of(&[0xff; 8], "UNSIGNED"));
        assert_eq!(one(Arc::new(Float32Array::from(vec![0.5]))), of(&0.5_f64.to_le_bytes(), "FLOAT"));
        assert_eq!(one(Arc::new(NullArray::new(1))), of(b"", "NULL"));
        assert_eq!(one(Arc::new(StringArray::from(vec!["größer"]))), of("größer".as_bytes(), "STRING"));
        let long = "long".repeat(200);
        assert_eq!(one(Arc::new(StringViewArray::from(vec![long.as_str()]))), of(long.as_bytes(), "STRING"));
        assert_eq!(one(Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]]))), of(b"\x00\xff", "BINARY"));
        let day = 86_400_000_000_000_i128;
        assert_eq!(one(Arc::new(Date32Array::from(vec![-2]))), of(&(-2 * day).to_le_bytes(), "INSTANT"));
        assert_eq!(one(Arc::new(Time32SecondArray::from(vec![2]))), of(&2_000_000_000_i64.to_le_bytes(), "TIME"));
        let long = DurationSecondArray::from(vec![i64::MAX]);
        assert_eq!(one(Arc::new(long)), of(&(i128::from(i64::MAX) * 1_000_000_000).to_le_bytes(), "DURATION"));
        let months = IntervalYearMonthArray::from(vec![3]);
        assert_eq!(one(Arc::new(months)), of(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "INTERVAL"));
        let decimal = Decimal128Array::from(vec![1500]).with_precision_and_scale(10, 3).unwrap();
        let mut bytes = 15_i128.to_le_bytes().to_vec();
        bytes.extend(1_i16.to_le_bytes());
        assert_eq!(one(Arc::new(decimal)), of(&bytes, "DECIMAL"));
        let list = ListArray::from_iter_primitive::<Int8Type, _, _>([Some(vec![Some(1), None])]);
        let items = [xxh3(&1_i64.to_le_bytes(), seed), of(b"", "NULL")].map(u64::to_le_bytes).concat();
        assert_eq!(one(Arc::new(list)), of(&items, "LIST"));
        let fields = Fields::from(vec![Field::new("a", DataType::Int8, true), Field::new("b", DataType::Int8, true)]);
        let children: Vec<ArrayRef> = vec![Arc::new(Int8Array::from(vec![1])), Arc::new(Int8Array::from(vec![None]))];
        assert_eq!(one(Arc::new(StructArray::new(fields, children.clone(), None))), of(&items, "STRUCT"));
        assert_eq!(hash_rows(&children, seed).unwrap()[0], xxh3(&items, seed));
    }
}

#[test]
fn frozen_values() {
    let one = |array: ArrayRef, seed| format!("{:016x}", hash_rows(&[array], seed).unwrap()[0]);
    let found = [
        one(Arc::new(Int64Array::from(vec![0])), 0),
        one(Arc::new(Int64Array::from(vec![1])), 0),
        one(Arc::new(Int64Array::from(vec![1])), 1),
        one(Arc::new(Float64Array::from(vec![0.1])), 0),
        one(Arc::new(StringArray::from(vec!["craton"])), 0),
        one(Arc::new(NullArray::new(1)), 0),
        one(Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_000])), 0),
    ];
    assert_eq!(found, FROZEN);
}

/// These hashes must never change, because stored partitions depend on them.
const FROZEN: [&str; 7] = [
    "c77b3abb6f87acd9",
    "2fbc593564db792e",
    "85671091eda75eb5",
    "157f564bdd78ae58",
    "593bc1c1dece3e6c",
    "a290add2d247d73f",
    "053d15c067a49724",
];

fn all_equal(arrays: Vec<ArrayRef>) {
    let hashes: Vec<_> = arrays.iter().map(|array| hash_rows(std::slice::from_ref(array), 7).unwrap()).collect();
    for (array, hash) in arrays.iter().zip(&hashes) {
        assert_eq!(*hash, hashes[0], "{} and {}", array.data_type(), arrays[0].data_type());
    }
}

#[test]
fn whole_numbers_are_equal_whatever_their_type() {
    let some = [Some(0), Some(1), None, Some(100)];
    let scaled = |scale: i128| some.map(|value: Option<i128>| value.map(|value| value * scale));
    all_equal(vec![
        Arc::new(Int8Array::from_iter(some.map(|v| v.map(|v| v as i8)))),
        Arc::new(Int16Array::from_iter(some.map(|v| v.map(|v| v as i16)))),
        Arc::new(Int32Array::from_iter(some.map(|v| v.map(|v| v as i32)))),
        Arc::new(Int64Array::from_iter(some.map(|v| v.map(|v| v as i64)))),
        Arc::new(UInt8Array::from_iter(some.map(|v| v.map(|v| v as u8)))),
        Arc::new(UInt16Array::from_iter(some.map(|v| v.map(|v| v as u16)))),
        Arc::new(UInt32Array::from_iter(some.map(|v| v.map(|v| v as u32)))),
        Arc::new(UInt64Array::from_iter(some.map(|v| v.map(|v| v as u64)))),
        Arc::new(Float32Array::from_iter(some.map(|v| v.map(|v| v as f32)))),
        Arc::new(Float64Array::from_iter(some.map(|v| v.map(|v| v as f64)))),
        Arc::new(Decimal128Array::from_iter(scaled(100)).with_precision_and_scale(20, 2).unwrap()),
        Arc::new(Decimal128Array::from_iter(scaled(1)).with_precision_and_scale(20, 0).unwrap()),
        Arc::new(
            Decimal256Array::from_iter(scaled(1000).map(|v| v.map(i256::from_i128)))
                .with_precision_and_scale(50, 3)
                .unwrap(),
        ),
    ]);
    all_equal(vec![Arc::new(BooleanArray::from(vec![false, true])), Arc::new(Int8Array::from(vec![0, 1]))]);
    // Floats beyond the exact ones, and at the ends of the integers.
    let ends = [i64::MIN, -(1 << 60), 1 << 53, 1 << 62];
    all_equal(vec![
        Arc::new(Int64Array::from_iter_values(ends)),
        Arc::new(Float64Array::from_iter_values(ends.map(|end| end as f64))),
    ]);
    let large = [1_u64 << 63, (1 << 63) + (1 << 20), u64::MAX - 2047];
    let decimals = Decimal128Array::from_iter_values(large.map(|value| i128::from(value) * 10));
    all_equal(vec![
        Arc::new(UInt64Array::from_iter_values(large)),
        Arc::new(Float64Array::from_iter_values(large.map(|value| value as f64))),
        Arc::new(decimals.with_precision_and_scale(30, 1).unwrap()),
    ]);
}

#[test]
fn floats_have_one_zero_and_one_nan() {
    let found = hash(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)]));
    assert_eq!(found[0], found[1]);
    assert!(found[2] == found[3] && found[3] == found[4]);
    assert_eq!(hash(Float32Array::from(vec![f32::NAN]))[0], found[2]);
    let odd = [f64::INFINITY, f64::NEG_INFINITY, 0.5, 1e300, -1e300, 18_446_744_073_709_551_616.0, i64::MAX as f64];
    let mut found = hash(Float64Array::from_iter_values(odd));
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), odd.len());
}

#[test]
fn decimals_are_equal_by_value() {
    let narrow =
        |digits: i128, scale| hash(Decimal128Array::from(vec![digits]).with_precision_and_scale(38, scale).unwrap())[0];
    let wide =
        |digits: i256, scale| hash(Decimal256Array::from(vec![digits]).with_precision_and_scale(76, scale).unwrap())[0];
    assert_eq!(narrow(150, 2), narrow(15, 1));
    assert_ne!(narrow(150, 2), narrow(15, 2));
    assert_eq!(narrow(5, -2), hash(Int64Array::from(vec![500]))[0]);
    let large = 10_i128.pow(37) + 10;
    assert_eq!(narrow(large, 1), wide(i256::from_i128(large) * i256::from_i128(1000), 4));
    assert_eq!(narrow(10_i128.pow(30), 0), wide(i256::from_i128(10).pow_wrapping(45), 15));
}

#[test]
fn moments_are_equal_whatever_their_unit() {
    all_equal(vec![
        Arc::new(Date32Array::from(vec![Some(-1), None, Some(19_000)])),
        Arc::new(Date64Array::from(vec![Some(-86_400_000), None, Some(19_000 * 86_400_000)])),
        Arc::new(TimestampSecondArray::from(vec![Some(-86_400), None, Some(19_000 * 86_400)])),
        Arc::new(TimestampMillisecondArray::from(vec![Some(-86_400_000), None, Some(19_000 * 86_400_000)])),
        Arc::new(TimestampMicrosecondArray::from(vec![Some(-86_400_000_000), None, Some(19_000 * 86_400_000_000)])),
        Arc::new(
            TimestampNanosecondArray::from(vec![Some(-86_400_000_000_000), None, Some(19_000 * 86_400_000_000_000)])
                .with_timezone("UTC"),
        ),
    ]);
    all_equal(vec![
        Arc::new(Time32SecondArray::from(vec![7])),
        Arc::new(Time64MicrosecondArray::from(vec![7_000_000])),
    ]);
    all_equal(vec![
        Arc::new(DurationSecondArray::from(vec![7])),
        Arc::new(DurationNanosecondArray::from(vec![7_000_000_000])),
    ]);
}

#[test]
fn text_is_equal_in_every_layout() {
    let text: Vec<Option<String>> = (0..60).map(|row| (!common::is_null(row)).then(|| common::text(row / 2))).collect();
    let refs = || text.iter().map(Option::as_deref);
    let mut runs = builder::StringRunBuilder::<Int16Type>::new();
    runs.extend(refs());
    all_equal(vec![
        Arc::new(refs().collect::<StringArray>()),
        Arc::new(refs().collect::<LargeStringArray>()),
        Arc::new(refs().collect::<StringViewArray>()),
        Arc::new(refs().collect::<DictionaryArray<Int8Type>>()),
        Arc::new(refs().collect::<DictionaryArray<UInt64Type>>()),
        Arc::new(runs.finish()),
    ]);
    let bytes = || refs().map(|text| text.map(str::as_bytes));
    all_equal(vec![
        Arc::new(bytes().collect::<BinaryArray>()),
        Arc::new(bytes().collect::<LargeBinaryArray>()),
        Arc::new(bytes().collect::<BinaryViewArray>()),
    ]);
    let fixed = FixedSizeBinaryArray::try_from_iter([b"ab", b"cd"].into_iter()).unwrap();
    all_equal(vec![Arc::new(fixed), Arc::new(BinaryArray::from(vec![&b"ab"[..], b"cd"]))]);
    assert_ne!(hash(StringArray::from(vec!["a"])), hash(BinaryArray::from(vec![&b"a"[..]])));
}

#[test]
fn lists_are_equal_whatever_their_kind() {
    let items = || [Some(vec![Some(1), Some(2)]), None, Some(vec![None, Some(3)])];
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(items());
    all_equal(vec![
        Arc::new(ListViewArray::from(list.clone())),
        Arc::new(list),
        Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(items())),
        Arc::new(FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(items(), 2)),
    ]);
}

#[test]
fn every_type_hashes_alike_in_parts_and_with_one_null() {
    let null = hash(NullArray::new(1))[0];
    for (name, array) in common::every_type(300) {
        let whole = hash_rows(std::slice::from_ref(&array), 0).unwrap();
        let parts = [array.slice(0, 1), array.slice(1, 100), array.slice(101, 0), array.slice(101, 199)];
        let parts: Vec<u64> = parts.iter().flat_map(|part| hash_rows(std::slice::from_ref(part), 0).unwrap()).collect();
        assert_eq!(whole, parts, "{name}");
        if let Some(nulls) = array.logical_nulls() {
            assert!((0..300).all(|row| nulls.is_valid(row) || whole[row] == null), "{name}");
        }
    }
}

#[test]
fn the_order_of_columns_counts() {
    let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from(vec![1, 5])), Arc::new(Int64Array::from(vec![2, 5]))];
    let forth = hash_rows(&columns, 0).unwrap();
    let back = hash_rows(&[columns[1].clone(), columns[0].clone()], 0).unwrap();
    assert_ne!(forth[0], back[0]);
    assert_eq!(forth[1], back[1]);
    assert!(matches!(hash_rows(&[], 0), Err(Error::NoKeys)));
    let error = hash_rows(&[columns[0].clone(), columns[1].slice(0, 1)], 0).unwrap_err();
    assert_eq!(error.to_string(), "column 1 has 1 rows, the first one 2");
}

/// Check that chi-square over the partitions is within five standard deviations of its expectation for random hashes.
fn spreads(what: &str, array: ArrayRef) {
    let hashes = hash_rows(&[array], 0).unwrap();
    for partitions in [64, 1000] {
        let mut counts = vec![0_u32; partitions];
        hashes.iter().for_each(|hash| counts[partition_of(*hash, partitions as u64) as usize] += 1);
        let expected = hashes.len() as f64 / partitions as f64;
        let chi: f64 = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        let freedom = (partitions - 1) as f64;
        let deviations = (chi - freedom) / (2.0 * freedom).sqrt();
        assert!(deviations.abs() < 5.0, "{what} over {partitions}: {deviations} standard deviations from chance");
    }
}

#[test]
fn partitions_fill_evenly() {
    let rows = 300_000_i64;
    spreads("0, 1, 2, …", Arc::new(Int64Array::from_iter_values(0..rows)));
    spreads("multiples of 64", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * 64))));
    spreads("multiples of 2⁴⁰", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row << 40))));
    spreads("floats", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 8.0))));
    spreads("days", Arc::new(Date32Array::from_iter_values(0..rows as i32)));
    spreads("text", Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("key {row:09}")))));
}
