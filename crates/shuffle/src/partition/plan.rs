//! Splits columns into leaves of one simple layout each.

use std::collections::HashMap;

use arrow_array::{Array, RecordBatch, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};

use super::dictionary;
use super::sorted::Chunk;
use crate::error::{Error, Result};
use crate::hash::DEEPEST;

/// The plan for copying the columns.
pub(super) struct Plan {
    pub nodes: Vec<ColumnNode>,
    pub leaves: Vec<Leaf>,
    /// Foreign columns, which Arrow's routines gather: for each, one array per batch.
    pub foreign: Vec<Vec<ArrayData>>,
    /// Whether rows of other batches may follow, so that the leaves must depend on the types only, and not on the values.
    appends: bool,
}

/// A column, or a field of one.
pub(super) struct ColumnNode {
    pub data_type: DataType,
    /// The leaf of its validity bitmap, if any value is null.
    pub nulls: Option<usize>,
    pub body: Body,
}

/// The parts of a node; numbers refer to leaves.
pub(super) enum Body {
    Null,
    /// The leaf's buffers are the array's.
    Buffers(usize),
    /// A list of plain numbers of that width in bytes: the leaf's last buffer is that of the child.
    List(usize, usize),
    Struct(Vec<ColumnNode>),
    Dictionary(usize, ArrayData),
    /// The number of a foreign column.
    Foreign(usize),
}

/// Arrays of one layout, one for each batch.
pub(super) struct Leaf {
    pub layout: Layout,
    pub sources: Vec<Source>,
}

pub(super) enum Layout {
    /// A value of that many bytes for each row.
    Fixed(usize),
    /// A bit for each row.
    Bits,
    /// A bit a row, set where its value is not null; all bits are set beforehand.
    Valid,
    /// Offsets, of 64 bits if `wide`, to units of `unit` bytes.
    Ranges { wide: bool, unit: usize },
    /// Views of 16 bytes.
    Views(Sharing),
}

/// How the bytes of long strings are stored.
pub(super) enum Sharing {
    /// They are copied string by string.
    Each,
    /// All data buffers, which are small, are copied into each partition.
    Whole(Buffer),
    /// The buffers are shared with the input.
    Shared(Vec<Buffer>),
}

pub(super) enum Source {
    /// Values; starts with the first row.
    Fixed(Buffer),
    /// `None`: every bit is set.
    Bits(Option<BooleanBuffer>),
    /// Offsets start with the first row.
    Ranges {
        offsets: Buffer,
        payload: Buffer,
    },
    Views(Views),
}

pub(super) struct Views {
    /// Starts with the first row.
    pub views: Buffer,
    pub buffers: Vec<Buffer>,
    pub nulls: Option<NullBuffer>,
    /// The new place of each buffer: its start in the concatenation, or its number among the shared buffers.
    pub moved: Vec<u32>,
    /// The concatenation of all buffers, if it is small: it is copied instead of the strings if these have more bytes.
    pub few: Option<Buffer>,
}

/// The most bytes of all data buffers for which [`Views::few`] is used.
const FEW: usize = 4096;

impl Leaf {
    /// The number of buffers that the leaf has in a partition's region.
    pub fn buffers(&self) -> usize {
        match &self.layout {
            Layout::Fixed(_) | Layout::Bits | Layout::Valid | Layout::Views(Sharing::Shared(_)) => 1,
            Layout::Ranges { .. } | Layout::Views(_) => 2,
        }
    }

    /// Whether rows have varying sizes, which have to be summed up.
    pub fn varies(&self) -> bool {
        matches!(self.layout, Layout::Ranges { .. } | Layout::Views(_))
    }

    /// The most units (of `Ranges`, otherwise bytes) of one buffer.
    pub fn most(&self) -> u64 {
        match self.layout {
            Layout::Ranges { wide: true, .. } => i64::MAX as u64,
            // Strings that are not copied one by one are not counted.
            Layout::Views(Sharing::Whole(_) | Sharing::Shared(_)) => u64::MAX,
            _ => i32::MAX as u64,
        }
    }
}

impl Plan {
    pub fn new(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Self> {
        Self::of(schema, batches, false)
    }

    /// A plan with the same leaves for all batches of a schema, so that rows of one batch can follow those of another. Columns for
    /// which that is not possible are foreign.
    pub fn appending(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Self> {
        Self::of(schema, batches, true)
    }

    fn of(schema: &SchemaRef, batches: &[RecordBatch], appends: bool) -> Result<Self> {
        let mut plan = Self { nodes: Vec::new(), leaves: Vec::new(), foreign: Vec::new(), appends };
        for (column, field) in schema.fields().iter().enumerate() {
            let arrays = batches.iter().map(|batch| batch.column(column).to_data()).collect();
            let node = plan.lower(field.data_type(), arrays, 0)?;
            plan.nodes.push(node);
        }
        Ok(plan)
    }

    fn leaf(&mut self, layout: Layout, sources: Vec<Source>) -> usize {
        self.leaves.push(Leaf { layout, sources });
        self.leaves.len() - 1
    }

    fn lower(&mut self, data_type: &DataType, arrays: Vec<ArrayData>, depth: usize) -> Result<ColumnNode> {
        if depth > DEEPEST {
            return Err(Error::Depth(DEEPEST));
        }
        let body = match data_type {
            DataType::Null => Body::Null,
            DataType::Boolean => {
                let bits = |array: &ArrayData| {
                    Source::Bits(Some(BooleanBuffer::new(array.buffers()[0].clone(), array.offset(), array.len())))
                };
                Body::Buffers(self.leaf(Layout::Bits, arrays.iter().map(bits).collect()))
            }
            DataType::FixedSizeBinary(width) => Body::Buffers(self.fixed(*width as usize, &arrays)),
            DataType::Utf8 | DataType::Binary => Body::Buffers(self.ranges(false, &arrays)),
            DataType::LargeUtf8 | DataType::LargeBinary => Body::Buffers(self.ranges(true, &arrays)),
            DataType::Utf8View | DataType::BinaryView => Body::Buffers(self.views(&arrays)),
            DataType::List(item) | DataType::LargeList(item)
                if !self.appends && plain_items(item.data_type(), &arrays) =>
            {
                let unit = item.data_type().primitive_width().unwrap_or(1);
                let wide = matches!(data_type, DataType::LargeList(_));
                let sources = arrays.iter().map(|array| Source::Ranges {
                    offsets: from(&array.buffers()[0], array.offset() * if wide { 8 } else { 4 }),
                    payload: items_of(array, unit),
                });
                Body::List(self.leaf(Layout::Ranges { wide, unit }, sources.collect()), unit)
            }
            DataType::FixedSizeList(item, count) if !self.appends && plain_items(item.data_type(), &arrays) => {
                let unit = item.data_type().primitive_width().unwrap_or(1);
                let width = *count as usize * unit;
                let sources =
                    arrays.iter().map(|array| Source::Fixed(from(&items_of(array, unit), array.offset() * width)));
                Body::List(self.leaf(Layout::Fixed(width), sources.collect()), unit)
            }
            DataType::Struct(fields) => {
                let mut nodes = Vec::with_capacity(fields.len());
                for (number, field) in fields.iter().enumerate() {
                    let children = arrays.iter().map(|array| field_of(array, number)).collect();
                    nodes.push(self.lower(field.data_type(), children, depth + 1)?);
                }
                Body::Struct(nodes)
            }
            DataType::Dictionary(key_type, value_type) if !self.appends => {
                let (keys, values) = dictionary::unite(key_type, value_type, &arrays)?;
                let width = key_type.primitive_width().unwrap_or(1);
                let sources = keys.into_iter().map(Source::Fixed).collect();
                Body::Dictionary(self.leaf(Layout::Fixed(width), sources), values)
            }
            other => match other.primitive_width() {
                Some(width) => Body::Buffers(self.fixed(width, &arrays)),
                None => {
                    self.foreign.push(arrays);
                    let body = Body::Foreign(self.foreign.len() - 1);
                    return Ok(ColumnNode { data_type: data_type.clone(), nulls: None, body });
                }
            },
        };
        let any = arrays.iter().any(|array| array.null_count() > 0);
        let always = self.appends && !matches!(body, Body::Null);
        let nulls = (any || always).then(|| {
            let bits = |array: &ArrayData| Source::Bits(array.nulls().map(|nulls| nulls.inner().clone()));
            let layout = if self.appends { Layout::Valid } else { Layout::Bits };
            self.leaf(layout, arrays.iter().map(bits).collect())
        });
        Ok(ColumnNode { data_type: data_type.clone(), nulls, body })
    }

    fn fixed(&mut self, width: usize, arrays: &[ArrayData]) -> usize {
        let source = |array: &ArrayData| Source::Fixed(from(&array.buffers()[0], array.offset() * width));
        self.leaf(Layout::Fixed(width), arrays.iter().map(source).collect())
    }

    fn ranges(&mut self, wide: bool, arrays: &[ArrayData]) -> usize {
        let source = |array: &ArrayData| Source::Ranges {
            offsets: from(&array.buffers()[0], array.offset() * if wide { 8 } else { 4 }),
            payload: array.buffers()[1].clone(),
        };
        self.leaf(Layout::Ranges { wide, unit: 1 }, arrays.iter().map(source).collect())
    }

    fn views(&mut self, arrays: &[ArrayData]) -> usize {
        let appends = self.appends;
        let source = |array: &ArrayData| {
            let buffers = array.buffers()[1..].to_vec();
            let (mut moved, mut few) = (Vec::new(), None);
            if appends && (1..=FEW).contains(&buffers.iter().map(Buffer::len).sum()) {
                let mut bytes = Vec::new();
                for buffer in &buffers {
                    moved.push(bytes.len() as u32);
                    bytes.extend_from_slice(buffer);
                }
                few = Some(bytes.into());
            }
            Source::Views(Views {
                views: from(&array.buffers()[0], array.offset() * 16),
                buffers,
                nulls: array.nulls().filter(|nulls| nulls.null_count() > 0).cloned(),
                moved,
                few,
            })
        };
        self.leaf(Layout::Views(Sharing::Each), arrays.iter().map(source).collect())
    }

    /// Decide how the bytes of long strings are stored, once their sizes are known. `share` permits sharing them with the input.
    pub fn settle(&mut self, chunks: &[Chunk], partitions: usize, share: bool) -> Result<()> {
        let varying = self.leaves.iter_mut().filter(|leaf| leaf.varies());
        for (number, leaf) in varying.enumerate() {
            let Layout::Views(sharing) = &mut leaf.layout else { continue };
            let sizes = || chunks.iter().flat_map(|chunk| chunk.sizes[number].iter().copied());
            let rows: usize = chunks.iter().map(|chunk| chunk.order.len()).sum();
            let buffers = distinct_buffers(&leaf.sources);
            let held: usize = buffers.iter().map(Buffer::len).sum();
            let (held, long) = (held as u64, sizes().sum::<u64>());
            let whole = held * partitions as u64;
            // Copying the data buffers must cost no more than copying the strings; and little compared with the views, if the buffers
            // could be shared.
            let cheap = whole <= long && (whole <= 4 * rows as u64 || !share);
            let most = sizes().max().unwrap_or(0);
            if long > 0 && cheap && held <= i32::MAX as u64 {
                let mut starts = HashMap::new();
                let mut bytes = Vec::with_capacity(held as usize);
                for buffer in &buffers {
                    starts.insert(key(buffer), bytes.len() as u32);
                    bytes.extend_from_slice(buffer);
                }
                move_buffers(&mut leaf.sources, &starts);
                *sharing = Sharing::Whole(bytes.into());
            } else if !share && most > i32::MAX as u64 {
                return Err(Error::Strings { bytes: most });
            } else if share && (long > held + held / 8 || most > i32::MAX as u64) {
                let numbers = buffers.iter().enumerate().map(|(number, buffer)| (key(buffer), number as u32)).collect();
                move_buffers(&mut leaf.sources, &numbers);
                *sharing = Sharing::Shared(buffers);
            }
        }
        Ok(())
    }
}

/// Whether the items of lists are plain numbers without nulls.
fn plain_items(item: &DataType, arrays: &[ArrayData]) -> bool {
    item.primitive_width().is_some() && arrays.iter().all(|array| array.child_data()[0].null_count() == 0)
}

/// The buffer of a list's items, from the first item on.
fn items_of(array: &ArrayData, unit: usize) -> Buffer {
    let child = &array.child_data()[0];
    from(&child.buffers()[0], child.offset() * unit)
}

/// A field of a struct, as long as the struct.
fn field_of(array: &ArrayData, number: usize) -> ArrayData {
    let child = &array.child_data()[number];
    if array.offset() == 0 && child.len() == array.len() {
        return child.clone();
    }
    make_array(child.clone()).slice(array.offset(), array.len()).to_data()
}

/// The buffer from `offset` on; empty if an array without rows has a shorter buffer.
fn from(buffer: &Buffer, offset: usize) -> Buffer {
    buffer.slice(offset.min(buffer.len()))
}

type Key = (*const u8, usize);

fn key(buffer: &Buffer) -> Key {
    (buffer.as_ptr(), buffer.len())
}

/// The distinct data buffers of views: batches that are slices of one array share them.
fn distinct_buffers(sources: &[Source]) -> Vec<Buffer> {
    let mut seen = std::collections::HashSet::new();
    let views = sources.iter().filter_map(|source| if let Source::Views(views) = source { Some(views) } else { None });
    views.flat_map(|views| &views.buffers).filter(|buffer| seen.insert(key(buffer))).cloned().collect()
}

fn move_buffers(sources: &mut [Source], to: &HashMap<Key, u32>) {
    for source in sources {
        if let Source::Views(views) = source {
            views.moved = views.buffers.iter().map(|buffer| to[&key(buffer)]).collect();
        }
    }
}
