//! Arrays of every type with pseudorandom contents.

#![allow(dead_code, reason = "every user of it uses a part")]

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ByteView};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode};

/// How an array is made.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Every third value is null.
    pub nulls: bool,
    /// Arrays and their children are slices that do not begin at a byte boundary of a bitmap.
    pub sliced: bool,
}

/// A pseudorandom generator.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below.max(1)
    }
}

fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, true))
}

fn dictionary(key: DataType, value: DataType) -> DataType {
    DataType::Dictionary(Box::new(key), Box::new(value))
}

fn runs(ends: DataType, values: DataType) -> DataType {
    DataType::RunEndEncoded(Arc::new(Field::new("run_ends", ends, false)), Arc::new(Field::new("values", values, true)))
}

fn map(key: DataType, value: DataType) -> DataType {
    let entries = Fields::from(vec![Field::new("keys", key, false), Field::new("values", value, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

fn structure(types: Vec<DataType>) -> DataType {
    let name = |(index, data_type)| Field::new(format!("f{index}"), data_type, true);
    DataType::Struct(types.into_iter().enumerate().map(name).collect())
}

fn union(mode: UnionMode, types: Vec<DataType>) -> DataType {
    let fields = types
        .into_iter()
        .enumerate()
        .map(|(index, data_type)| (index as i8 * 3 + 1, Arc::new(Field::new(format!("u{index}"), data_type, true))));
    DataType::Union(fields.collect::<UnionFields>(), mode)
}

/// Every type that is not nested.
pub fn flat() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Decimal32(9, 2),
        Decimal64(18, -2),
        Decimal128(38, 10),
        Decimal256(76, 20),
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Utf8,
        LargeUtf8,
        Binary,
        LargeBinary,
        Utf8View,
        BinaryView,
        FixedSizeBinary(0),
        FixedSizeBinary(3),
        FixedSizeBinary(16),
    ];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.extend([Timestamp(unit, None), Timestamp(unit, Some("Europe/Berlin".into())), Duration(unit)]);
    }
    types.extend([IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano].map(Interval));
    types
}

/// Types of every nested form.
pub fn nested() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        List(item(Int32)),
        LargeList(item(Utf8)),
        ListView(item(Utf8View)),
        LargeListView(item(Boolean)),
        FixedSizeList(item(Boolean), 3),
        FixedSizeList(item(Utf8), 0),
        structure(vec![Int8, Utf8, Boolean]),
        structure(vec![]),
        map(Utf8, Int64),
        union(UnionMode::Dense, vec![Int32, Utf8, Boolean]),
        union(UnionMode::Sparse, vec![Float64, Utf8View, Null]),
        runs(Int16, Utf8),
        runs(Int32, Boolean),
        runs(Int64, Float64),
        dictionary(Int8, Utf8),
        dictionary(UInt64, Decimal128(10, 2)),
        dictionary(Int32, List(item(dictionary(UInt8, Utf8View)))),
        List(item(List(item(structure(vec![Utf8, LargeList(item(Boolean))]))))),
        FixedSizeList(item(structure(vec![dictionary(Int16, LargeUtf8), List(item(Null))])), 2),
        structure(vec![runs(Int32, Utf8View), union(UnionMode::Dense, vec![List(item(Int16)), Null])]),
        ListView(item(map(Int32, ListView(item(Utf8))))),
        union(UnionMode::Sparse, vec![runs(Int16, Int8), structure(vec![Boolean])]),
        runs(Int32, structure(vec![List(item(Utf8)), Boolean])),
        List(item(runs(Int32, Boolean))),
    ];
    types.extend([Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32].map(|key| dictionary(key, Utf8)));
    types
}

/// An array of that many values.
pub fn array(data_type: &DataType, length: usize, style: Style, numbers: &mut Numbers) -> ArrayData {
    let made = length + if style.sliced { 7 } else { 0 };
    let nulls = || {
        let bits = BooleanBuffer::collect_bool(made, |row| !style.nulls || row % 3 != 1);
        Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
    };
    let builder = ArrayData::builder(data_type.clone()).len(made);
    let mut child = |data_type: &DataType, length: usize| array(data_type, length, style, numbers);
    let built = match data_type {
        DataType::Null => builder,
        DataType::Boolean => {
            let bits = BooleanBuffer::collect_bool(made, |_| numbers.next(2) == 1);
            builder.nulls(nulls()).add_buffer(bits.into_inner())
        }
        DataType::Utf8 | DataType::Binary => {
            let (offsets, values) = texts(made, numbers);
            builder.nulls(nulls()).add_buffer(offsets.iter().map(|&at| at as i32).collect()).add_buffer(values)
        }
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let (offsets, values) = texts(made, numbers);
            builder.nulls(nulls()).add_buffer(offsets.iter().map(|&at| at as i64).collect()).add_buffer(values)
        }
        DataType::Utf8View | DataType::BinaryView => {
            let (offsets, values) = texts(made, numbers);
            let view = |range: &[usize]| {
                let bytes = &values[range[0]..range[1]];
                if bytes.len() > 12 {
                    let view = ByteView::new(bytes.len() as u32, &bytes[..4]).with_buffer_index((range[0] % 2) as u32);
                    return view.with_offset(range[0] as u32).as_u128();
                }
                let mut view = [0; 16];
                view[0] = bytes.len() as u8;
                view[4..4 + bytes.len()].copy_from_slice(bytes);
                u128::from_le_bytes(view)
            };
            let views: Vec<u128> = offsets.windows(2).map(view).collect();
            let buffers = vec![Buffer::from_vec(views), values.clone(), Buffer::from(values.as_slice())];
            builder.nulls(nulls()).buffers(buffers)
        }
        DataType::List(field) | DataType::Map(field, _) | DataType::LargeList(field) => {
            let (offsets, values) = lists(made, field.is_nullable(), numbers);
            let wide = matches!(data_type, DataType::LargeList(_));
            let entries = Style { nulls: style.nulls && field.is_nullable(), ..style };
            let values = array(field.data_type(), values, entries, numbers);
            let offsets = if wide {
                offsets.iter().map(|&at| at as i64).collect()
            } else {
                offsets.iter().map(|&at| at as i32).collect()
            };
            builder.nulls(nulls()).add_buffer(offsets).add_child_data(values)
        }
        DataType::ListView(field) | DataType::LargeListView(field) => {
            let values = child(field.data_type(), 2 * made + 5);
            let starts: Vec<usize> = (0..made).map(|row| (made - row) + numbers.next(3)).collect();
            let sizes: Vec<usize> = (0..made).map(|_| numbers.next(3)).collect();
            let buffers = [starts, sizes].map(|values| -> Buffer {
                if matches!(data_type, DataType::ListView(_)) {
                    values.iter().map(|&at| at as i32).collect()
                } else {
                    values.iter().map(|&at| at as i64).collect()
                }
            });
            builder.nulls(nulls()).buffers(buffers.to_vec()).add_child_data(values)
        }
        DataType::FixedSizeList(field, size) => {
            builder.nulls(nulls()).add_child_data(child(field.data_type(), made * *size as usize))
        }
        DataType::Struct(fields) => {
            let entries = |nulls: bool| Style { nulls, ..style };
            let children = fields
                .iter()
                .map(|field| array(field.data_type(), made, entries(style.nulls && field.is_nullable()), numbers));
            let children = children.collect();
            // The entries of a map are never null.
            let nulls = nulls().filter(|_| fields.iter().all(|field| field.is_nullable()));
            builder.nulls(nulls).child_data(children)
        }
        DataType::Union(fields, mode) => {
            let children: Vec<ArrayData> = fields.iter().map(|(_, field)| child(field.data_type(), made + 2)).collect();
            let children = if *mode == UnionMode::Sparse {
                children.iter().map(|child| child.slice(0, made)).collect()
            } else {
                children
            };
            let ids: Vec<i8> = fields.iter().map(|(id, _)| id).collect();
            let ids: Vec<i8> = (0..made).map(|_| ids[numbers.next(ids.len())]).collect();
            let builder = builder.add_buffer(Buffer::from_vec(ids)).child_data(children);
            match mode {
                UnionMode::Sparse => builder,
                UnionMode::Dense => builder.add_buffer((0..made as i32).collect()),
            }
        }
        DataType::RunEndEncoded(ends, values) => {
            let mut reached = Vec::new();
            while reached.last().is_none_or(|&end| end < made) && made > 0 {
                reached.push(reached.last().unwrap_or(&0) + 1 + numbers.next(4));
            }
            let buffer = match ends.data_type() {
                DataType::Int16 => reached.iter().map(|&end| end as i16).collect(),
                DataType::Int32 => reached.iter().map(|&end| end as i32).collect(),
                _ => reached.iter().map(|&end| end as i64).collect::<Buffer>(),
            };
            let ends = ArrayData::builder(ends.data_type().clone()).len(reached.len()).add_buffer(buffer);
            let values = array(values.data_type(), reached.len(), style, numbers);
            builder.add_child_data(ends.build().unwrap()).add_child_data(values)
        }
        DataType::Dictionary(key, value) => {
            let values = child(value, 5);
            let width = key.primitive_width().unwrap();
            let keys: Vec<u8> = (0..made).flat_map(|_| numbers.next(5).to_le_bytes()[..width].to_vec()).collect();
            builder.nulls(nulls()).add_buffer(Buffer::from(&keys[..])).add_child_data(values)
        }
        DataType::FixedSizeBinary(width) => {
            let bytes: Vec<u8> = (0..made * *width as usize).map(|_| numbers.next(256) as u8).collect();
            builder.nulls(nulls()).add_buffer(Buffer::from_vec(bytes))
        }
        DataType::Float64 => {
            let values: Vec<f64> = (0..made).map(|_| numbers.next(1000) as f64 / 8.0).collect();
            builder.nulls(nulls()).add_buffer(Buffer::from_vec(values))
        }
        other => {
            let width = other.primitive_width().unwrap();
            let mut bytes = vec![0; made * width];
            for value in bytes.chunks_exact_mut(width) {
                let number = numbers.next(80_000).to_le_bytes();
                let used = width.min(8);
                value[..used].copy_from_slice(&number[..used]);
            }
            // A byte buffer may be misaligned, and would then be copied.
            builder.nulls(nulls()).add_buffer(Buffer::from(&bytes[..]))
        }
    };
    let built = built.build().unwrap();
    built.validate_full().unwrap();
    if style.sliced { built.slice(3, length) } else { built }
}

fn texts(count: usize, numbers: &mut Numbers) -> (Vec<usize>, Buffer) {
    let (mut offsets, mut values) = (vec![0], Vec::new());
    for _ in 0..count {
        let length = numbers.next(20);
        values.extend((0..length).map(|_| b'a' + numbers.next(26) as u8));
        offsets.push(values.len());
    }
    (offsets, Buffer::from_vec(values))
}

fn lists(count: usize, skip: bool, numbers: &mut Numbers) -> (Vec<usize>, usize) {
    let mut offsets = vec![if skip { 2 } else { 0 }];
    for row in 0..count {
        offsets.push(offsets[row] + numbers.next(4));
    }
    let values = offsets[count] + usize::from(skip);
    (offsets, values)
}

/// A batch with a column of each type.
pub fn batch(types: &[DataType], rows: usize, style: Style, seed: u64) -> RecordBatch {
    let mut numbers = Numbers(seed);
    let columns: Vec<ArrayRef> =
        types.iter().map(|data_type| make_array(array(data_type, rows, style, &mut numbers))).collect();
    let fields: Vec<Field> = types
        .iter()
        .enumerate()
        .map(|(index, data_type)| {
            let metadata = [("ARROW:extension:name".to_owned(), format!("craton.test{index}"))];
            Field::new(format!("c{index}"), data_type.clone(), true).with_metadata(metadata)
        })
        .collect();
    let schema = Schema::new(fields).with_metadata([("key".to_owned(), "wert äöü".to_owned())]);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).unwrap()
}

/// All styles of arrays.
pub const STYLES: [Style; 4] = [
    Style { nulls: false, sliced: false },
    Style { nulls: true, sliced: false },
    Style { nulls: false, sliced: true },
    Style { nulls: true, sliced: true },
];
