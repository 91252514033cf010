//! Buffers into a store: those that lie in it already are referred to, the others are copied, on several threads.

use arrow_buffer::Buffer;
use craton_slab::{ALIGNMENT, BufferRef, Extent};
use craton_store::{Home, Reference, Result, SetId};

use crate::copy::Copies;

/// Where buffers are now.
pub struct Placed {
    /// One a buffer.
    pub references: Vec<Reference>,
    /// Those that were granted, and what was allocated for the buffers that were copied.
    pub extents: Vec<Extent>,
}

fn known(buffer: &Buffer) -> Option<Reference> {
    let (segment, offset) = craton_slab::locate(buffer.as_ptr(), buffer.len())?;
    Some(BufferRef { segment: segment.id(), offset: offset as u64, length: buffer.len() as u64 }.into())
}

/// Place buffers for a page of `set`. Those that lie in an extent that was `granted` for it are there already; with `share`, other buffers
/// in shared memory are referred to.
pub fn place(home: &dyn Home, set: SetId, buffers: &[Buffer], granted: Vec<Extent>, share: bool) -> Result<Placed> {
    let nowhere = Reference { segment: 0, offset: 0, length: 0 };
    let mut references = vec![nowhere; buffers.len()];
    let mut copied = Vec::with_capacity(buffers.len());
    let mut total = 0_usize;
    for (number, buffer) in buffers.iter().enumerate() {
        if buffer.is_empty() {
            continue;
        }
        let own = granted.iter().any(|extent| extent.as_slice().as_ptr_range().contains(&buffer.as_ptr()));
        match if share || own { known(buffer) } else { None } {
            Some(reference) => references[number] = reference,
            None => {
                copied.push((number, total));
                total += buffer.len().next_multiple_of(ALIGNMENT);
            }
        }
    }
    if copied.is_empty() {
        return Ok(Placed { references, extents: granted });
    }
    let mut extents = home.allocate(set, &[total])?;
    let extent = extents.first_mut().ok_or_else(|| craton_store::Error::Invalid("no extent was granted".into()))?;
    let base = extent.reference();
    let target = extent
        .as_mut_slice()
        .ok_or_else(|| craton_store::Error::Invalid("the extent that was granted cannot be written".into()))?;
    fill(target, &copied, buffers);
    for &(number, start) in &copied {
        references[number] = Reference {
            segment: base.segment,
            offset: base.offset + start as u64,
            length: buffers[number].len() as u64,
        };
    }
    extents.extend(granted);
    Ok(Placed { references, extents })
}

fn fill(target: &mut [u8], copied: &[(usize, usize)], buffers: &[Buffer]) {
    let mut copies = Copies::default();
    let mut rest = target;
    for &(number, _) in copied {
        let source = buffers[number].as_slice();
        let (own, others) = rest.split_at_mut(source.len().next_multiple_of(ALIGNMENT));
        rest = others;
        copies.push(&mut own[..source.len()], source);
    }
    copies.run();
}
