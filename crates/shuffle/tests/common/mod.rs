//! Arrays of every type, with nulls among them.

// Each test file uses its part of this.
#![allow(dead_code)]

use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, Fields, UnionFields};

/// Whether the row is null in the arrays of [`every_type`].
pub fn is_null(row: usize) -> bool {
    row % 5 == 3
}

fn option<T>(row: usize, value: T) -> Option<T> {
    (!is_null(row)).then_some(value)
}

/// Texts of various lengths around the limits of inline views and of short copies.
pub fn text(row: usize) -> String {
    let length = [0, 1, 11, 12, 13, 16, 17, 31, 33, 64, 65, 200][row % 12];
    format!("{row}").chars().cycle().take(length).collect()
}

fn primitive<T: ArrowPrimitiveType>(rows: usize, value: impl Fn(usize) -> T::Native) -> ArrayRef {
    let values: PrimitiveArray<T> = (0..rows).map(|row| option(row, value(row))).collect();
    Arc::new(values.with_data_type(T::DATA_TYPE))
}

fn nulls(rows: usize) -> Option<NullBuffer> {
    Some((0..rows).map(|row| !is_null(row)).collect())
}

/// Children of lists: row `r` has `r % 4` of them.
fn offsets(rows: usize) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths((0..rows).map(|row| row % 4))
}

fn list(rows: usize, items: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    Arc::new(ListArray::new(field, offsets(rows), items, nulls(rows)))
}

/// One column of every type, with a name.
pub fn every_type(rows: usize) -> Vec<(String, ArrayRef)> {
    let items = offsets(rows).last() as usize;
    let texts: Vec<Option<String>> = (0..rows).map(|row| option(row, text(row))).collect();
    let bytes: Vec<Option<&[u8]>> = texts.iter().map(|text| text.as_ref().map(|text| text.as_bytes())).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("null", Arc::new(NullArray::new(rows))),
        ("bool", Arc::new((0..rows).map(|row| option(row, row % 3 == 0)).collect::<BooleanArray>())),
        ("i8", primitive::<Int8Type>(rows, |row| row as i8)),
        ("i16", primitive::<Int16Type>(rows, |row| row as i16)),
        ("i32", primitive::<Int32Type>(rows, |row| row as i32)),
        ("i64", primitive::<Int64Type>(rows, |row| row as i64)),
        ("i64 without nulls", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row as i64)))),
        ("u8", primitive::<UInt8Type>(rows, |row| row as u8)),
        ("u16", primitive::<UInt16Type>(rows, |row| row as u16)),
        ("u32", primitive::<UInt32Type>(rows, |row| row as u32)),
        ("u64", primitive::<UInt64Type>(rows, |row| row as u64)),
        ("f32", primitive::<Float32Type>(rows, |row| row as f32 / 2.0)),
        ("f64", primitive::<Float64Type>(rows, |row| row as f64 / 2.0)),
        ("date32", primitive::<Date32Type>(rows, |row| row as i32)),
        ("date64", primitive::<Date64Type>(rows, |row| row as i64 * 86_400_000)),
        ("timestamp", primitive::<TimestampMicrosecondType>(rows, |row| row as i64)),
        ("time32", primitive::<Time32SecondType>(rows, |row| row as i32)),
        ("time64", primitive::<Time64NanosecondType>(rows, |row| row as i64)),
        ("duration", primitive::<DurationMillisecondType>(rows, |row| row as i64)),
        ("months", primitive::<IntervalYearMonthType>(rows, |row| row as i32)),
        ("interval", primitive::<IntervalMonthDayNanoType>(rows, |row| IntervalMonthDayNano::new(row as i32, 1, 2))),
        ("days", primitive::<IntervalDayTimeType>(rows, |row| IntervalDayTime::new(row as i32, 5))),
        ("decimal32", primitive::<Decimal32Type>(rows, |row| row as i32)),
        ("decimal64", primitive::<Decimal64Type>(rows, |row| row as i64)),
        ("decimal128", primitive::<Decimal128Type>(rows, |row| row as i128)),
        ("decimal256", primitive::<Decimal256Type>(rows, |row| i256::from_i128(row as i128))),
        ("string", Arc::new(StringArray::from(texts.clone()))),
        ("large string", Arc::new(LargeStringArray::from(texts.clone()))),
        ("string view", Arc::new(texts.iter().map(|text| text.as_deref()).collect::<StringViewArray>())),
        ("binary", Arc::new(BinaryArray::from(bytes.clone()))),
        ("large binary", Arc::new(LargeBinaryArray::from(bytes.clone()))),
        ("binary view", Arc::new(bytes.iter().copied().collect::<BinaryViewArray>())),
    ];
    let mut fixed = FixedSizeBinaryBuilder::new(5);
    for row in 0..rows {
        match option(row, row) {
            Some(row) => fixed.append_value([row as u8, 1, 2, 3, (row >> 8) as u8]).unwrap(),
            None => fixed.append_null(),
        }
    }
    columns.push(("fixed binary", Arc::new(fixed.finish())));
    let short = (0..rows).map(|row| option(row, format!("{}", row % 7)));
    columns
        .push(("dictionary", Arc::new(short.map(|text| text.map(|_| "abc")).collect::<DictionaryArray<Int8Type>>())));
    let words: Vec<_> = (0..rows).map(|row| option(row, format!("word {}", row % 11))).collect();
    columns.push(("words", Arc::new(words.iter().map(|w| w.as_deref()).collect::<DictionaryArray<Int32Type>>())));
    let numbers: ArrayRef = Arc::new(Int16Array::from_iter_values((0..items).map(|item| item as i16)));
    columns.push(("list of numbers", list(rows, numbers.clone())));
    columns.push(("list with nulls", list(rows, primitive::<Float64Type>(items, |item| item as f64))));
    let strings = Arc::new((0..items).map(|item| option(item, text(item))).collect::<StringViewArray>());
    columns.push(("list of views", list(rows, strings.clone())));
    columns.push(("list of strings", list(rows, Arc::new(StringArray::from_iter_values((0..items).map(text))))));
    columns.push(("list of lists", list(rows, list(items, primitive::<Int64Type>(2 * items, |item| item as i64)))));
    let wide = OffsetBuffer::<i64>::from_lengths((0..rows).map(|row| row % 4));
    let field = Arc::new(Field::new_list_field(DataType::Int16, true));
    columns.push(("large list", Arc::new(LargeListArray::new(field, wide, numbers, nulls(rows)))));
    for (name, items) in [
        ("fixed list", Arc::new(Float32Array::from_iter_values((0..3 * rows).map(|item| item as f32))) as ArrayRef),
        ("fixed list with nulls", primitive::<Int32Type>(3 * rows, |item| item as i32)),
    ] {
        let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        columns.push((name, Arc::new(FixedSizeListArray::new(field, 3, items, nulls(rows)))));
    }
    let fields = Fields::from(vec![
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8View, true),
        Field::new("flag", DataType::Boolean, true),
    ]);
    let children = ["i64", "string view", "bool"].map(|name| columns.iter().find(|c| c.0 == name).unwrap().1.clone());
    let structs: ArrayRef = Arc::new(StructArray::new(fields, children.to_vec(), nulls(rows)));
    let outer = Fields::from(vec![Field::new("inner", structs.data_type().clone(), true)]);
    columns.push(("struct", Arc::new(StructArray::new(outer, vec![structs], None))));
    let entries =
        Fields::from(vec![Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Int64, true)]);
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values((0..items).map(text)));
    let entries = StructArray::new(entries, vec![keys, primitive::<Int64Type>(items, |item| item as i64)], None);
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    columns.push(("map", Arc::new(MapArray::new(field, offsets(rows), entries, nulls(rows), false))));
    let fields = UnionFields::try_new(
        [0, 5],
        [Field::new("number", DataType::Int64, true), Field::new("text", DataType::Utf8, true)],
    )
    .unwrap();
    let ids: ScalarBuffer<i8> = (0..rows).map(|row| if row % 2 == 0 { 0 } else { 5 }).collect();
    let children = ["i64", "string"].map(|name| columns.iter().find(|c| c.0 == name).unwrap().1.clone());
    let sparse = UnionArray::try_new(fields.clone(), ids.clone(), None, children.to_vec()).unwrap();
    columns.push(("sparse union", Arc::new(sparse)));
    let places: ScalarBuffer<i32> = (0..rows).map(|row| row as i32).collect();
    columns.push(("dense union", Arc::new(UnionArray::try_new(fields, ids, Some(places), children.to_vec()).unwrap())));
    let runs = (0..rows).map(|row| option(row / 3, format!("{}", row / 3))).collect::<Vec<_>>();
    columns.push(("runs", Arc::new(runs.iter().map(|run| run.as_deref()).collect::<RunArray<Int32Type>>())));
    let views: ScalarBuffer<i32> = (0..rows).map(|row| (row / 2) as i32).collect();
    let lengths: ScalarBuffer<i32> = (0..rows).map(|row| (row % 2) as i32).collect();
    let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    let items: ArrayRef = Arc::new((0..rows + 1).map(|item| Some(text(item))).collect::<StringViewArray>());
    columns.push(("list view", Arc::new(ListViewArray::new(field, views, lengths, items, nulls(rows)))));
    columns.into_iter().map(|(name, array)| (name.to_owned(), array)).collect()
}
