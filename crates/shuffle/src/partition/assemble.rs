//! Assembles arrays from the buffers of a region.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, SchemaRef};

use super::plan::{Body, ColumnNode, Layout, Plan, Sharing};
use crate::error::{Error, Result};

/// Assemble one partition's batch. `buffers` has the buffers of all leaves in order.
pub(super) fn assemble(
    schema: &SchemaRef,
    plan: &Plan,
    rows: usize,
    buffers: &[Buffer],
    foreign: &[ArrayData],
) -> Result<RecordBatch> {
    let mut firsts = Vec::with_capacity(plan.leaves.len());
    let mut next = 0;
    for leaf in &plan.leaves {
        firsts.push(next);
        next += leaf.buffers();
    }
    let parts = Parts { plan, firsts, buffers, foreign };
    let columns =
        plan.nodes.iter().map(|node| Ok(make_array(parts.array(node, rows)?))).collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

struct Parts<'a> {
    plan: &'a Plan,
    /// The number of each leaf's first buffer.
    firsts: Vec<usize>,
    buffers: &'a [Buffer],
    foreign: &'a [ArrayData],
}

impl Parts<'_> {
    fn array(&self, node: &ColumnNode, rows: usize) -> Result<ArrayData> {
        let nulls = node.nulls.map(|leaf| {
            let bits = self.buffers[self.firsts[leaf]].clone();
            NullBuffer::new(BooleanBuffer::new(bits, 0, rows))
        });
        let builder = ArrayData::builder(node.data_type.clone()).len(rows).nulls(nulls.filter(|n| n.null_count() > 0));
        let builder = match &node.body {
            Body::Null => builder,
            Body::Buffers(leaf) => builder.buffers(self.leaf(*leaf)),
            Body::List(leaf, unit) => {
                let mut buffers = self.leaf(*leaf);
                let items = buffers.pop().unwrap_or_default();
                let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) =
                    &node.data_type
                else {
                    return Err(Error::Type { what: "a list", data_type: node.data_type.clone() });
                };
                let child = ArrayData::builder(item.data_type().clone()).len(items.len() / unit).add_buffer(items);
                // SAFETY: the items are plain numbers of this width, as many as the offsets or the list's length require.
                builder.buffers(buffers).add_child_data(unsafe { child.build_unchecked() })
            }
            Body::Struct(nodes) => {
                let children = nodes.iter().map(|node| self.array(node, rows)).collect::<Result<_>>()?;
                builder.child_data(children)
            }
            Body::Dictionary(leaf, values) => builder.buffers(self.leaf(*leaf)).add_child_data(values.clone()),
            Body::Foreign(number) => return Ok(self.foreign[*number].clone()),
        };
        // SAFETY: the buffers hold `rows` values of the type: they are copies of values of arrays of that type, and offsets
        // and views were written for the bytes that were copied with them.
        Ok(unsafe { builder.build_unchecked() })
    }

    fn leaf(&self, number: usize) -> Vec<Buffer> {
        let leaf = &self.plan.leaves[number];
        let mut buffers = self.buffers[self.firsts[number]..][..leaf.buffers()].to_vec();
        if let Layout::Views(sharing) = &leaf.layout {
            match sharing {
                Sharing::Shared(shared) => buffers.extend(shared.iter().cloned()),
                // No view refers to an empty data buffer.
                _ => buffers.retain(|buffer| !buffer.is_empty()),
            }
        }
        buffers
    }
}
