//! Schemas as flatbuffers: the limits of what is accepted, and the numbering of dictionaries.

use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use arrow_ipc::{DictionaryEncoding, Field as IpcField, Message, MessageBuilder, MessageHeader, MetadataVersion, Type};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use flatbuffers::{FlatBufferBuilder, VerifierOptions, WIPOffset};

use crate::error::{Error, Result, at_most, invalid};

/// The deepest nesting of types that is accepted. Other readers verify flatbuffers to a depth of 64, including the tables around the fields.
pub(crate) const MAX_DEPTH: usize = 56;

/// The most fields, including nested ones, and metadata entries.
const MAX_FIELDS: u64 = 400_000;

/// The most bytes of all names and metadata.
const MAX_TEXT: u64 = 128 << 20;

/// The limits of flatbuffer verification.
pub(crate) fn verifier() -> VerifierOptions {
    VerifierOptions { max_depth: 2 * MAX_DEPTH, max_tables: 2_000_000, ..VerifierOptions::default() }
}

/// Verify the flatbuffer of a message.
pub(crate) fn root(bytes: &[u8]) -> Result<Message<'_>> {
    let message = arrow_ipc::root_as_message_with_opts(&verifier(), bytes)
        .map_err(|error| Error::Invalid(format!("the message is not a valid flatbuffer: {error}")))?;
    if message.version() != MetadataVersion::V5 {
        invalid!("Arrow metadata {:?}, and V5 is expected", message.version());
    }
    Ok(message)
}

/// Decode a schema message; the fields keep the numbers of their dictionaries.
pub(crate) fn read(bytes: &[u8]) -> Result<Schema> {
    let message = root(bytes)?;
    let (MessageHeader::Schema, Some(schema)) = (message.header_type(), message.header_as_schema()) else {
        invalid!("expected a schema, found a message of kind {:?}", message.header_type())
    };
    convert(schema)
}

/// Convert a verified flatbuffer to a schema; the fields keep the numbers of their dictionaries.
pub(crate) fn convert(schema: arrow_ipc::Schema<'_>) -> Result<Schema> {
    if !schema.endianness().equals_to_target_endianness() {
        invalid!("the schema is for {:?}-endian data", schema.endianness());
    }
    for field in schema.fields().iter().flatten() {
        precheck(field, 0)?;
    }
    let schema = arrow_ipc::convert::try_fb_to_schema(schema)?;
    check(&schema)?;
    Ok(schema)
}

/// Refuse fields on which the conversion by Arrow would panic.
fn precheck(field: IpcField<'_>, depth: usize) -> Result<()> {
    at_most("the depth of a type", depth as u64, MAX_DEPTH as u64)?;
    let children = field.children();
    if field.type_type() == Type::Union && children.is_some_and(|children| children.len() > 127) {
        invalid!("a union of {} types, and 127 are accepted", children.map_or(0, |children| children.len()));
    }
    for child in children.iter().flatten() {
        precheck(child, depth + 1)?;
    }
    Ok(())
}

/// Refuse schemas that are too large, and types that no array can have.
pub(crate) fn check(schema: &Schema) -> Result<()> {
    let mut count = Count::default();
    count.metadata(schema.metadata());
    for field in schema.fields() {
        count.field(field, 0)?;
    }
    at_most("the number of fields and of entries of metadata", count.fields, MAX_FIELDS)?;
    at_most("the length of all names and metadata", count.text, MAX_TEXT)
}

#[derive(Default)]
struct Count {
    fields: u64,
    text: u64,
}

impl Count {
    fn metadata<'a, K: AsRef<str> + 'a, V: AsRef<str> + 'a>(&mut self, metadata: impl IntoIterator<Item = (K, V)>) {
        for (key, value) in metadata {
            self.fields += 1;
            self.text += (key.as_ref().len() + value.as_ref().len()) as u64;
        }
    }

    fn field(&mut self, field: &Field, depth: usize) -> Result<()> {
        self.fields += 1;
        self.text += field.name().len() as u64;
        self.metadata(field.metadata());
        self.data_type(field.data_type(), depth).map_err(|error| match error {
            Error::Invalid(text) => Error::Invalid(format!("{text}, in field {:?}", field.name())),
            other => other,
        })
    }

    fn data_type(&mut self, data_type: &DataType, depth: usize) -> Result<()> {
        at_most("the depth of a type", depth as u64, MAX_DEPTH as u64)?;
        let decimal = |precision: u8, scale: i8, most: u8| {
            if precision == 0 || precision > most || scale.unsigned_abs() > most {
                invalid!("a decimal of {precision} digits and scale {scale}, and {most} digits are accepted");
            }
            Ok(())
        };
        match data_type {
            DataType::Decimal32(precision, scale) => decimal(*precision, *scale, 9)?,
            DataType::Decimal64(precision, scale) => decimal(*precision, *scale, 18)?,
            DataType::Decimal128(precision, scale) => decimal(*precision, *scale, 38)?,
            DataType::Decimal256(precision, scale) => decimal(*precision, *scale, 76)?,
            DataType::Time32(unit) if !matches!(unit, TimeUnit::Second | TimeUnit::Millisecond) => {
                invalid!("32-bit times of unit {unit:?}");
            }
            DataType::Time64(unit) if !matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond) => {
                invalid!("64-bit times of unit {unit:?}");
            }
            DataType::FixedSizeBinary(width) if *width < 0 => invalid!("binary values of {width} bytes"),
            DataType::FixedSizeList(_, width) if *width < 0 => invalid!("lists of {width} values"),
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _) => self.field(field, depth + 1)?,
            DataType::Map(field, _) => match field.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => self.field(field, depth + 1)?,
                other => invalid!("a map of {other}, and structs of two fields are expected"),
            },
            DataType::Struct(fields) => {
                for field in fields {
                    self.field(field, depth + 1)?;
                }
            }
            DataType::Union(fields, _) => {
                for (id, field) in fields.iter() {
                    if id < 0 {
                        invalid!("a union with the type number {id}");
                    }
                    self.field(field, depth + 1)?;
                }
            }
            DataType::Dictionary(key, value) => {
                if !key.is_dictionary_key_type() {
                    invalid!("a dictionary with keys of type {key}");
                }
                if matches!(**value, DataType::Dictionary(_, _)) {
                    invalid!("a dictionary whose values are a dictionary cannot be stored in Arrow IPC");
                }
                self.data_type(value, depth + 1)?;
            }
            DataType::RunEndEncoded(ends, values) => {
                if !ends.data_type().is_run_ends_type() {
                    invalid!("run ends of type {}", ends.data_type());
                }
                self.field(ends, depth + 1)?;
                self.field(values, depth + 1)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// The number of a dictionary, and its position in the flatbuffer.
struct Number {
    at: usize,
    id: i64,
}

/// The dictionaries of a schema in depth-first order: those nested in a field come before the field's own.
fn numbers(schema: arrow_ipc::Schema<'_>) -> Vec<Number> {
    fn walk(field: IpcField<'_>, numbers: &mut Vec<Number>) {
        for child in field.children().iter().flatten() {
            walk(child, numbers);
        }
        if let Some(dictionary) = field.dictionary() {
            let table = dictionary._tab;
            let slot = table.vtable().get(DictionaryEncoding::VT_ID);
            // Flatbuffers do not store the default value, 0.
            let at = if slot == 0 { usize::MAX } else { table.loc() + usize::from(slot) };
            numbers.push(Number { at, id: dictionary.id() });
        }
    }
    let mut found = Vec::new();
    for field in schema.fields().iter().flatten() {
        walk(field, &mut found);
    }
    found
}

/// The numbers of the dictionaries of a schema message, in the order of [`numbers`].
pub(crate) fn dictionary_ids(bytes: &[u8]) -> Result<Vec<i64>> {
    let message = root(bytes)?;
    Ok(message.header_as_schema().map_or_else(Vec::new, numbers).into_iter().map(|number| number.id).collect())
}

/// Make a schema message of the schema of a footer.
pub(crate) fn message_of(schema: arrow_ipc::Schema<'_>) -> Result<Vec<u8>> {
    let ids: Vec<i64> = numbers(schema).into_iter().map(|number| number.id).collect();
    message(&convert(schema)?, &ids)
}

/// Write a schema to a flatbuffer. Dictionaries are numbered from 1, so that each number is stored and [`renumber`] can replace it.
pub(crate) fn write<'a>(fbb: &mut FlatBufferBuilder<'a>, schema: &Schema) -> WIPOffset<arrow_ipc::Schema<'a>> {
    let mut tracker = DictionaryTracker::new(true);
    tracker.next_dict_id();
    IpcSchemaEncoder::new().with_dictionary_tracker(&mut tracker).schema_to_fb_offset(fbb, schema)
}

/// Replace the dictionary numbers of a schema that [`write()`] wrote. `find` finds the schema in the flatbuffer.
pub(crate) fn renumber(
    bytes: &mut [u8],
    ids: &[i64],
    find: impl for<'a> Fn(&'a [u8]) -> Option<arrow_ipc::Schema<'a>>,
) -> Result<()> {
    let found = find(bytes).map_or_else(Vec::new, numbers);
    if found.len() != ids.len() {
        invalid!("a schema has {} dictionaries, and {} have numbers", found.len(), ids.len());
    }
    for (number, id) in found.iter().zip(ids) {
        match bytes.get_mut(number.at..).and_then(|rest| rest.first_chunk_mut()) {
            Some(chunk) => *chunk = id.to_le_bytes(),
            None => invalid!("dictionary {id} has no number in the schema"),
        }
    }
    Ok(())
}

/// Make the flatbuffer of a schema message with these dictionary numbers.
pub(crate) fn message(schema: &Schema, ids: &[i64]) -> Result<Vec<u8>> {
    let mut fbb = FlatBufferBuilder::with_capacity(1024);
    let schema = write(&mut fbb, schema);
    let mut builder = MessageBuilder::new(&mut fbb);
    builder.add_version(MetadataVersion::V5);
    builder.add_header_type(MessageHeader::Schema);
    builder.add_bodyLength(0);
    builder.add_header(schema.as_union_value());
    let message = builder.finish();
    fbb.finish(message, None);
    let mut bytes = fbb.finished_data().to_vec();
    // SAFETY: the bytes are the flatbuffer that was just built.
    renumber(&mut bytes, ids, |bytes| unsafe { arrow_ipc::root_as_message_unchecked(bytes) }.header_as_schema())?;
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    Ok(bytes)
}

/// The number of a field's dictionary.
pub(crate) fn dictionary_id(field: &Field) -> Option<i64> {
    #[expect(deprecated, reason = "the number is how an IPC message names a dictionary")]
    field.dict_id()
}
