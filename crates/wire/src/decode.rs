//! Decoding a record batch: its arrays use the given buffers without copying.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Schema, SchemaRef, UnionMode};

use crate::batch::View;
use crate::error::{Result, invalid, size};
use crate::header::{Header, Part};
use crate::schema;

/// How far the header and the buffers are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Untrusted: every value is checked.
    Checked,
    /// Written by this program or its store and unchanged since: lengths are checked, values are not.
    Own,
}

/// The description of a batch that a header gives without its buffers.
#[derive(Debug, Clone)]
pub struct Outline {
    /// The schema.
    pub schema: SchemaRef,
    /// Rows.
    pub rows: u64,
    /// The length of every buffer, in bytes.
    pub lengths: Vec<u64>,
    /// For every column, the numbers of its own buffers and of those of its dictionaries. Columns may share dictionaries.
    pub columns: Vec<Vec<Range<usize>>>,
}

/// Find which buffers each column consists of.
///
/// # Errors
/// [`Invalid`](crate::Error::Invalid) or [`TooLarge`](crate::Error::TooLarge) when the header is not valid.
pub fn columns_of(header: &[u8]) -> Result<Outline> {
    let header = Header::parse(header)?;
    let schema = Arc::new(schema::read(header.schema)?);
    let index = Index::new(&header, &schema)?;
    let batch = header.batch();
    let mut cursor = Cursor::new(batch);
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let (start, mut ids) = (cursor.buffer, Vec::new());
        cursor.skip_field(field, &mut ids)?;
        let mut ranges = Vec::new();
        let mut seen = HashSet::new();
        while let Some(id) = ids.pop() {
            if !seen.insert(id) {
                continue;
            }
            if let Some(part) = index.parts.get(&id) {
                ranges.push(part.first..part.first + part.view.buffers());
            }
            if let Some(values) = index.types.get(&id) {
                nested_ids(values, &mut ids);
            }
        }
        ranges.push(batch.first + start..batch.first + cursor.buffer);
        columns.push(ranges);
    }
    cursor.finish()?;
    Ok(Outline { rows: batch.view.rows(), lengths: header.lengths()?, columns, schema })
}

/// Decode a batch.
///
/// The arrays use the given buffers. Only misaligned buffers are copied.
///
/// # Errors
/// [`Invalid`](crate::Error::Invalid), [`TooLarge`](crate::Error::TooLarge) or [`Arrow`](crate::Error::Arrow) when header and buffers are not
/// a valid batch.
pub fn decode(header: &[u8], buffers: &[Buffer], trust: Trust) -> Result<RecordBatch> {
    read(header, buffers, None, trust)
}

/// Decode some columns of a batch, in the given order. The buffers of the other columns may be anything, for example empty.
///
/// # Errors
/// As [`decode`], and [`Invalid`](crate::Error::Invalid) when there is no such column.
pub fn decode_columns(header: &[u8], buffers: &[Buffer], columns: &[usize], trust: Trust) -> Result<RecordBatch> {
    read(header, buffers, Some(columns), trust)
}

fn read(header: &[u8], buffers: &[Buffer], wanted: Option<&[usize]>, trust: Trust) -> Result<RecordBatch> {
    let header = Header::parse(header)?;
    if header.buffers != buffers.len() {
        invalid!("{} buffers are given, and the header has {}", buffers.len(), header.buffers);
    }
    let schema = schema::read(header.schema)?;
    let index = Index::new(&header, &schema)?;
    let batch = header.batch();
    let rows = size("the number of rows", batch.view.rows())?;
    let mut decoder = Decoder { buffers, trust, index: &index, dictionaries: HashMap::new() };
    let mut cursor = Cursor::new(batch);
    let asked: Option<HashSet<usize>> = wanted.map(|wanted| wanted.iter().copied().collect());
    let mut columns: Vec<Option<ArrayRef>> = Vec::with_capacity(schema.fields().len());
    for (number, field) in schema.fields().iter().enumerate() {
        if asked.as_ref().is_some_and(|asked| !asked.contains(&number)) {
            cursor.skip_field(field, &mut Vec::new())?;
            columns.push(None);
            continue;
        }
        let data = decoder.field(&mut cursor, field)?;
        if data.len() != rows {
            invalid!("column {:?} has {} rows, and the batch {rows}", field.name(), data.len());
        }
        columns.push(Some(make_array(decoder.checked(data)?)));
    }
    cursor.finish()?;
    let (schema, arrays) = match wanted {
        None => (schema, columns.into_iter().flatten().collect()),
        Some(wanted) => {
            let arrays: Option<Vec<ArrayRef>> =
                wanted.iter().map(|&number| columns.get(number).cloned().flatten()).collect();
            let Some(arrays) = arrays else {
                invalid!("columns {wanted:?} were requested, and there are {} columns", schema.fields().len())
            };
            (schema.project(wanted)?, arrays)
        }
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)?)
}

/// The numbers of the dictionaries of a type, without those nested in a dictionary's values.
fn nested_ids(data_type: &DataType, ids: &mut Vec<i64>) {
    each_field(data_type, &mut |field| {
        ids.extend(schema::dictionary_id(field));
        if !matches!(field.data_type(), DataType::Dictionary(_, _)) {
            nested_ids(field.data_type(), ids);
        }
    });
}

/// Visit the child fields of a type.
fn each_field<'a>(data_type: &'a DataType, visit: &mut impl FnMut(&'a Field)) {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => visit(field),
        DataType::Struct(fields) => fields.iter().for_each(|field| visit(field)),
        DataType::Union(fields, _) => fields.iter().for_each(|(_, field)| visit(field)),
        DataType::RunEndEncoded(ends, values) => {
            visit(ends);
            visit(values);
        }
        _ => {}
    }
}

/// The dictionaries of a header by their numbers.
struct Index<'a> {
    parts: HashMap<i64, Part<'a>>,
    types: HashMap<i64, &'a DataType>,
}

impl<'a> Index<'a> {
    fn new(header: &Header<'a>, schema: &'a Schema) -> Result<Self> {
        fn collect<'a>(field: &'a Field, types: &mut HashMap<i64, &'a DataType>) -> Result<()> {
            let mut inner = field.data_type();
            if let (DataType::Dictionary(_, values), Some(id)) = (inner, schema::dictionary_id(field)) {
                inner = values;
                // A type cannot equal a type nested in it, so this also excludes a dictionary that contains itself.
                if *types.entry(id).or_insert(inner) != inner {
                    invalid!("dictionary {id} has values of type {inner} and of another");
                }
            }
            let mut result = Ok(());
            each_field(inner, &mut |field| {
                if result.is_ok() {
                    result = collect(field, types);
                }
            });
            result
        }
        let mut types = HashMap::new();
        for field in schema.fields() {
            collect(field, &mut types)?;
        }
        let mut parts = HashMap::new();
        for part in &header.parts {
            if let Some(id) = part.view.dictionary {
                if !types.contains_key(&id) || parts.insert(id, *part).is_some() {
                    invalid!("dictionary {id} is not in the schema, or occurs twice");
                }
            }
        }
        Ok(Self { parts, types })
    }
}

/// A position in the lists of a message: nodes, buffers and counts of views' data buffers.
struct Cursor<'a> {
    part: Part<'a>,
    node: usize,
    buffer: usize,
    variadic: usize,
}

impl<'a> Cursor<'a> {
    fn new(part: Part<'a>) -> Self {
        Self { part, node: 0, buffer: 0, variadic: 0 }
    }

    fn view(&self) -> View<'a> {
        self.part.view
    }

    fn node(&mut self) -> Result<(usize, usize)> {
        self.node += 1;
        self.view().node(self.node - 1)
    }

    fn variadic(&mut self) -> Result<usize> {
        self.variadic += 1;
        self.view().variadic(self.variadic - 1)
    }

    fn skip_field(&mut self, field: &Field, ids: &mut Vec<i64>) -> Result<()> {
        ids.extend(schema::dictionary_id(field));
        self.skip(field.data_type(), ids)
    }

    fn skip(&mut self, data_type: &DataType, ids: &mut Vec<i64>) -> Result<()> {
        self.node()?;
        self.buffer += match data_type {
            DataType::Null | DataType::RunEndEncoded(_, _) => 0,
            DataType::Struct(_) | DataType::FixedSizeList(_, _) | DataType::Union(_, UnionMode::Sparse) => 1,
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::ListView(_)
            | DataType::LargeListView(_) => 3,
            DataType::Utf8View | DataType::BinaryView => 2 + self.variadic()?,
            _ => 2,
        };
        if self.buffer > self.view().buffers() {
            invalid!("the schema has more buffers than the message, which has {}", self.view().buffers());
        }
        let mut result = Ok(());
        each_field(data_type, &mut |field| {
            if result.is_ok() {
                result = self.skip_field(field, ids);
            }
        });
        result
    }

    fn finish(&self) -> Result<()> {
        let found = (self.view().nodes(), self.view().buffers(), self.view().variadics());
        if found != (self.node, self.buffer, self.variadic) {
            invalid!(
                "the message has {found:?} arrays, buffers and arrays of views; the schema {:?}",
                (self.node, self.buffer, self.variadic)
            );
        }
        Ok(())
    }
}

struct Decoder<'a> {
    buffers: &'a [Buffer],
    trust: Trust,
    index: &'a Index<'a>,
    dictionaries: HashMap<i64, ArrayData>,
}

impl Decoder<'_> {
    fn field(&mut self, cursor: &mut Cursor<'_>, field: &Field) -> Result<ArrayData> {
        self.array(cursor, field.data_type(), schema::dictionary_id(field))
    }

    /// Validate an array together with its children, after the values of each were checked.
    fn checked(&self, data: ArrayData) -> Result<ArrayData> {
        if self.trust == Trust::Checked {
            data.validate()?;
        }
        Ok(data)
    }

    /// The next buffer, which must have at least `least` bytes; copied if it is not at a multiple of `alignment`.
    fn buffer(&self, cursor: &mut Cursor<'_>, least: Option<usize>, alignment: usize) -> Result<Buffer> {
        let (_, length) = cursor.view().place(cursor.buffer)?;
        let number = cursor.part.first + cursor.buffer;
        cursor.buffer += 1;
        let Some(buffer) = self.buffers.get(number).filter(|buffer| buffer.len() as u64 == length) else {
            let found = self.buffers.get(number).map_or(0, Buffer::len);
            invalid!("buffer {number} has {found} bytes, and the header says {length}")
        };
        if least.is_none_or(|least| buffer.len() < least) {
            invalid!("buffer {number} has {length} bytes, and its type and rows need {}", least.unwrap_or(usize::MAX));
        }
        if buffer.as_ptr().align_offset(alignment) != 0 {
            let mut copy = MutableBuffer::new(buffer.len());
            copy.extend_from_slice(buffer.as_slice());
            return Ok(copy.into());
        }
        Ok(buffer.clone())
    }

    /// A buffer of `count` values of `width` bytes, a power of two, without any bytes after them.
    fn fixed(&self, cursor: &mut Cursor<'_>, count: usize, width: usize) -> Result<Buffer> {
        let needed = count.checked_mul(width);
        let buffer = self.buffer(cursor, needed, width.min(16))?;
        // `needed` does not exceed the buffer's length.
        Ok(match needed {
            Some(needed) if needed < buffer.len() => buffer.slice_with_length(0, needed),
            _ => buffer,
        })
    }

    /// Check the first and the last of the offsets of `rows` values, which must end within `limit`.
    fn check_offsets(&self, offsets: &Buffer, rows: usize, width: usize, limit: usize) -> Result<()> {
        if rows == 0 && offsets.is_empty() {
            return Ok(());
        }
        let at = |row: usize| -> Option<usize> {
            let bytes = offsets.get(row * width..(row + 1) * width)?;
            if width == 4 {
                usize::try_from(i32::from_le_bytes(bytes.try_into().ok()?)).ok()
            } else {
                usize::try_from(i64::from_le_bytes(bytes.try_into().ok()?)).ok()
            }
        };
        match (at(0), at(rows)) {
            (Some(first), Some(last)) if first <= last && last <= limit => Ok(()),
            (first, last) => invalid!("offsets go from {first:?} to {last:?}, and there are {limit} values"),
        }
    }

    /// A buffer of offsets, which may be empty when there are no rows.
    fn offsets(&self, cursor: &mut Cursor<'_>, rows: usize, width: usize) -> Result<Buffer> {
        let empty = rows == 0 && cursor.view().place(cursor.buffer)?.1 == 0;
        self.fixed(cursor, if empty { 0 } else { rows + 1 }, width)
    }

    fn nulls(&self, cursor: &mut Cursor<'_>, rows: usize, count: usize) -> Result<Option<NullBuffer>> {
        if count == 0 {
            self.buffer(cursor, Some(0), 1)?;
            return Ok(None);
        }
        let bits = BooleanBuffer::new(self.buffer(cursor, Some(rows.div_ceil(8)), 1)?, 0, rows);
        if self.trust == Trust::Own {
            // SAFETY: the null count was stored together with the bitmap, and the data are trusted to be unchanged.
            return Ok(Some(unsafe { NullBuffer::new_unchecked(bits, count) }));
        }
        let nulls = NullBuffer::new(bits);
        if nulls.null_count() != count {
            invalid!("an array of {rows} values has {} nulls, and {count} are expected", nulls.null_count());
        }
        Ok(Some(nulls))
    }

    fn dictionary(&mut self, id: i64, values: &DataType, all_null: bool) -> Result<ArrayData> {
        if let Some(data) = self.dictionaries.get(&id) {
            return Ok(data.clone());
        }
        let Some(part) = self.index.parts.get(&id) else {
            if all_null {
                return Ok(ArrayData::new_empty(values));
            }
            invalid!("dictionary {id} is missing")
        };
        let mut cursor = Cursor::new(*part);
        let data = self.array(&mut cursor, values, None)?;
        cursor.finish()?;
        if data.len() as u64 != part.view.rows() {
            invalid!("dictionary {id} has {} values, and {} are expected", data.len(), part.view.rows());
        }
        let data = self.checked(data)?;
        self.dictionaries.insert(id, data.clone());
        Ok(data)
    }

    fn array(&mut self, cursor: &mut Cursor<'_>, data_type: &DataType, id: Option<i64>) -> Result<ArrayData> {
        let (rows, null_count) = cursor.node()?;
        let bare = matches!(data_type, DataType::Null | DataType::Union(_, _) | DataType::RunEndEncoded(_, _));
        let nulls = if bare { None } else { self.nulls(cursor, rows, null_count)? };
        let (mut buffers, mut children) = (Vec::new(), Vec::new());
        match data_type {
            DataType::Null => {}
            DataType::Boolean => buffers.push(self.buffer(cursor, Some(rows.div_ceil(8)), 1)?),
            DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => {
                let width = if matches!(data_type, DataType::Utf8 | DataType::Binary) { 4 } else { 8 };
                buffers.push(self.offsets(cursor, rows, width)?);
                buffers.push(self.buffer(cursor, Some(0), 1)?);
                self.check_offsets(&buffers[0], rows, width, buffers[1].len())?;
            }
            DataType::Utf8View | DataType::BinaryView => {
                buffers.push(self.fixed(cursor, rows, 16)?);
                for _ in 0..cursor.variadic()? {
                    buffers.push(self.buffer(cursor, Some(0), 1)?);
                }
            }
            DataType::List(field) | DataType::Map(field, _) | DataType::LargeList(field) => {
                let width = if matches!(data_type, DataType::LargeList(_)) { 8 } else { 4 };
                buffers.push(self.offsets(cursor, rows, width)?);
                children.push(self.field(cursor, field)?);
                self.check_offsets(&buffers[0], rows, width, children[0].len())?;
            }
            DataType::ListView(field) | DataType::LargeListView(field) => {
                let width = if matches!(data_type, DataType::ListView(_)) { 4 } else { 8 };
                buffers.push(self.fixed(cursor, rows, width)?);
                buffers.push(self.fixed(cursor, rows, width)?);
                children.push(self.field(cursor, field)?);
            }
            DataType::FixedSizeList(field, width) => {
                let child = self.field(cursor, field)?;
                if size("the size of a list", *width)?.checked_mul(rows).is_none_or(|needed| child.len() < needed) {
                    invalid!("{rows} lists of {width} values have {} values", child.len());
                }
                children.push(child);
            }
            DataType::Struct(fields) => {
                for field in fields {
                    children.push(self.rows_of(cursor, field, rows)?);
                }
            }
            DataType::Union(fields, mode) => {
                buffers.push(self.fixed(cursor, rows, 1)?);
                if *mode == UnionMode::Dense {
                    buffers.push(self.fixed(cursor, rows, 4)?);
                }
                for (_, field) in fields.iter() {
                    let child = match mode {
                        UnionMode::Sparse => self.rows_of(cursor, field, rows)?,
                        UnionMode::Dense => self.field(cursor, field)?,
                    };
                    children.push(child);
                }
            }
            DataType::RunEndEncoded(ends, values) => {
                children.push(self.field(cursor, ends)?);
                children.push(self.field(cursor, values)?);
                check_runs(&children[0], &children[1], rows)?;
            }
            DataType::Dictionary(key, values) => {
                let Some((width, id)) = key.primitive_width().zip(id) else {
                    invalid!("a dictionary has no number, or keys of type {key}")
                };
                buffers.push(self.fixed(cursor, rows, width)?);
                children.push(self.dictionary(id, values, null_count == rows)?);
            }
            DataType::FixedSizeBinary(width) => {
                let width = size("the width of a value", *width)?;
                buffers.push(self.buffer(cursor, rows.checked_mul(width), 1)?);
            }
            other => match other.primitive_width() {
                Some(width) => buffers.push(self.fixed(cursor, rows, width)?),
                None => invalid!("arrays of type {other} are not supported"),
            },
        }
        let builder =
            ArrayData::builder(data_type.clone()).len(rows).nulls(nulls).buffers(buffers).child_data(children);
        // SAFETY: buffers and children have the number, lengths and alignment that the type requires. Their values are checked below unless
        // the caller trusts them.
        let data = unsafe { builder.build_unchecked() };
        if self.trust == Trust::Checked {
            check_values(&data)?;
        }
        Ok(data)
    }

    /// Decode a child that has a value for each of the parent's rows.
    fn rows_of(&mut self, cursor: &mut Cursor<'_>, field: &Field, rows: usize) -> Result<ArrayData> {
        let child = self.field(cursor, field)?;
        if child.len() < rows {
            invalid!("field {:?} has {} values in {rows} rows", field.name(), child.len());
        }
        Ok(child)
    }
}

/// Check that there are as many run ends as values, and that the last one covers all rows.
fn check_runs(ends: &ArrayData, values: &ArrayData, rows: usize) -> Result<()> {
    let runs = ends.len();
    let last = match (ends.data_type(), ends.buffers().first(), runs.checked_sub(1)) {
        (DataType::Int16, Some(buffer), Some(at)) => buffer.typed_data::<i16>().get(at).map(|&end| i64::from(end)),
        (DataType::Int32, Some(buffer), Some(at)) => buffer.typed_data::<i32>().get(at).map(|&end| i64::from(end)),
        (DataType::Int64, Some(buffer), Some(at)) => buffer.typed_data::<i64>().get(at).copied(),
        _ => None,
    };
    let reached = last.unwrap_or(0);
    if runs != values.len()
        || ends.null_count() != 0
        || u64::try_from(reached).is_ok_and(|end| end < rows as u64)
        || reached < 0
    {
        invalid!("{runs} run ends of {} values reach {reached} of {rows} rows", values.len());
    }
    Ok(())
}

/// Check every value of an array whose lengths and children were checked.
fn check_values(data: &ArrayData) -> Result<()> {
    // Arrow expands the list's nulls to all values, of which an array without buffers may claim any number; so this is checked here.
    if let (DataType::FixedSizeList(field, width), [child]) = (data.data_type(), data.child_data()) {
        let width = size("the size of a list", *width)?;
        if let Some(nulls) = child.nulls().filter(|_| !field.is_nullable()) {
            let absent = !nulls.inner();
            let mut absent = absent.set_indices().take_while(|&at| at / width.max(1) < data.len());
            if let Some(at) = absent.find(|&at| data.is_valid(at / width.max(1))) {
                invalid!("value {at} of field {:?}, which is never null, is null", field.name());
            }
        }
        return Ok(());
    }
    data.validate_nulls()?;
    data.validate_values()?;
    Ok(())
}
