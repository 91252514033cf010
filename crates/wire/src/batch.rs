//! The metadata of one Arrow IPC message that has a body: a record batch, or a dictionary.

use arrow_ipc::{
    BodyCompressionArgs, BodyCompressionMethod, Buffer as Place, CompressionType, DictionaryBatchBuilder, FieldNode,
    MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder,
};
use flatbuffers::FlatBufferBuilder;

use crate::error::{Result, at_most, invalid, size};

/// The most rows, or values of a nested array, that are accepted. An array of a type without buffers can claim any length at no cost, while
/// its reader may allocate in proportion to the length.
pub(crate) const MAX_ROWS: u64 = 1 << 40;

/// The alignment of buffers in the virtual body and in images.
pub(crate) const ALIGNMENT: u64 = 64;

/// The description of a message's body.
#[derive(Debug, Default)]
pub(crate) struct Body {
    /// The number of the dictionary that the message holds; `None` for a record batch.
    pub(crate) dictionary: Option<i64>,
    /// Rows.
    pub(crate) rows: u64,
    /// Lengths and null counts of the arrays, in the order of the schema.
    pub(crate) nodes: Vec<FieldNode>,
    /// Offsets in the body and lengths of the buffers.
    pub(crate) places: Vec<Place>,
    /// The number of data buffers of every array of views.
    pub(crate) variadic: Vec<i64>,
    /// Bytes of the body.
    pub(crate) length: u64,
}

/// Round `value` up to a multiple of `to`, a power of two.
pub(crate) fn round_up(value: u64, to: u64) -> Option<u64> {
    Some(value.checked_add(to - 1)? & !(to - 1))
}

impl Body {
    /// Place a buffer of `length` bytes after those placed before.
    pub(crate) fn place(&mut self, length: usize) -> Result<()> {
        let at = self.length;
        let Some(end) = round_up(at + length as u64, ALIGNMENT) else {
            invalid!("the length of the body overflows 64 bits")
        };
        at_most("the body's length", end, i64::MAX as u64)?;
        self.places.push(Place::new(at as i64, length as i64));
        self.length = end;
        Ok(())
    }

    /// The flatbuffer of the message.
    pub(crate) fn message(&self, lz4: bool) -> Vec<u8> {
        let capacity = 16 * (self.nodes.len() + self.places.len()) + 8 * self.variadic.len() + 512;
        let mut fbb = FlatBufferBuilder::with_capacity(capacity);
        let nodes = fbb.create_vector(&self.nodes);
        let places = fbb.create_vector(&self.places);
        let variadic = (!self.variadic.is_empty()).then(|| fbb.create_vector(&self.variadic));
        let compression = lz4.then(|| {
            let arguments =
                BodyCompressionArgs { codec: CompressionType::LZ4_FRAME, method: BodyCompressionMethod::BUFFER };
            arrow_ipc::BodyCompression::create(&mut fbb, &arguments)
        });
        let mut builder = RecordBatchBuilder::new(&mut fbb);
        builder.add_length(self.rows as i64);
        builder.add_nodes(nodes);
        builder.add_buffers(places);
        if let Some(compression) = compression {
            builder.add_compression(compression);
        }
        if let Some(variadic) = variadic {
            builder.add_variadicBufferCounts(variadic);
        }
        let batch = builder.finish();
        let (kind, header) = match self.dictionary {
            None => (MessageHeader::RecordBatch, batch.as_union_value()),
            Some(id) => {
                let mut builder = DictionaryBatchBuilder::new(&mut fbb);
                builder.add_id(id);
                builder.add_data(batch);
                (MessageHeader::DictionaryBatch, builder.finish().as_union_value())
            }
        };
        let mut builder = MessageBuilder::new(&mut fbb);
        builder.add_version(MetadataVersion::V5);
        builder.add_header_type(kind);
        builder.add_bodyLength(self.length as i64);
        builder.add_header(header);
        let message = builder.finish();
        fbb.finish(message, None);
        fbb.finished_data().to_vec()
    }
}

/// A view of the verified flatbuffer of a record batch or dictionary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    /// The number of the dictionary; `None` for a record batch.
    pub(crate) dictionary: Option<i64>,
    /// Bytes of its body.
    pub(crate) length: u64,
    batch: arrow_ipc::RecordBatch<'a>,
}

impl<'a> View<'a> {
    /// Verify the flatbuffer of a message with a body.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let message = crate::schema::root(bytes)?;
        let length = size("the body's length", message.bodyLength())? as u64;
        let (dictionary, batch) = match message.header_type() {
            MessageHeader::RecordBatch => (None, message.header_as_record_batch()),
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch();
                if dictionary.is_some_and(|dictionary| dictionary.isDelta()) {
                    invalid!("delta dictionaries are not accepted");
                }
                (dictionary.map(|dictionary| dictionary.id()), dictionary.and_then(|dictionary| dictionary.data()))
            }
            other => invalid!("expected a record batch or a dictionary, found a message of kind {other:?}"),
        };
        let Some(batch) = batch else { invalid!("the message has no record batch") };
        let view = Self { dictionary, length, batch };
        at_most("the number of rows", view.batch.length().unsigned_abs(), MAX_ROWS)?;
        size("the number of rows", view.batch.length())?;
        Ok(view)
    }

    /// Rows.
    pub(crate) fn rows(&self) -> u64 {
        self.batch.length().unsigned_abs()
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.batch.nodes().map_or(0, |nodes| nodes.len())
    }

    /// Length and null count of an array.
    pub(crate) fn node(&self, index: usize) -> Result<(usize, usize)> {
        let Some(nodes) = self.batch.nodes().filter(|nodes| index < nodes.len()) else {
            invalid!("the schema has more arrays than the message, which has {}", self.nodes());
        };
        let node = nodes.get(index);
        let length = size("the length of an array", node.length())?;
        at_most("the length of an array", length as u64, MAX_ROWS)?;
        let nulls = size("the null count of an array", node.null_count())?;
        if nulls > length {
            invalid!("array {index} has {nulls} nulls in {length} values");
        }
        Ok((length, nulls))
    }

    /// How many buffers there are.
    pub(crate) fn buffers(&self) -> usize {
        self.batch.buffers().map_or(0, |buffers| buffers.len())
    }

    /// Offset in the body and length of a buffer.
    pub(crate) fn place(&self, index: usize) -> Result<(u64, u64)> {
        let Some(places) = self.batch.buffers().filter(|places| index < places.len()) else {
            invalid!("the schema has more buffers than the message, which has {}", self.buffers());
        };
        let place = places.get(index);
        Ok((size("a buffer's offset", place.offset())? as u64, size("a buffer's length", place.length())? as u64))
    }

    /// How many arrays of views there are.
    pub(crate) fn variadics(&self) -> usize {
        self.batch.variadicBufferCounts().map_or(0, |counts| counts.len())
    }

    /// How many data buffers an array of views has.
    pub(crate) fn variadic(&self, index: usize) -> Result<usize> {
        let Some(counts) = self.batch.variadicBufferCounts().filter(|counts| index < counts.len()) else {
            invalid!("the schema has more arrays of views than the message, which has {}", self.variadics());
        };
        let count = size("the number of data buffers", counts.get(index))?;
        if count > self.buffers() {
            invalid!("an array of views has {count} data buffers, and the message has {} buffers", self.buffers());
        }
        Ok(count)
    }

    /// Whether the buffers are compressed with LZ4.
    pub(crate) fn lz4(&self) -> Result<bool> {
        match self.batch.compression() {
            None => Ok(false),
            Some(it) if it.codec() == CompressionType::LZ4_FRAME && it.method() == BodyCompressionMethod::BUFFER => {
                Ok(true)
            }
            Some(it) => {
                invalid!(
                    "the compression {:?} of {:?} is not supported; only LZ4 of buffers is",
                    it.codec(),
                    it.method()
                )
            }
        }
    }

    /// The description of the same batch with buffers of these lengths, placed one after another.
    pub(crate) fn body(&self, lengths: impl IntoIterator<Item = u64>) -> Result<Body> {
        let mut body = Body {
            dictionary: self.dictionary,
            rows: self.rows(),
            nodes: self.batch.nodes().map_or_else(Vec::new, |nodes| nodes.iter().copied().collect()),
            variadic: self.batch.variadicBufferCounts().map_or_else(Vec::new, |counts| counts.iter().collect()),
            ..Body::default()
        };
        for length in lengths {
            body.place(size("a buffer's length", length)?)?;
        }
        Ok(body)
    }
}
