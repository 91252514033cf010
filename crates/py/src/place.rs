//! Puts buffers into a store: buffers that are already in its memory are referenced, and all others are copied, on several threads.

use arrow_buffer::Buffer;
use craton_slab::{ALIGNMENT, BufferRef, Extent};
use craton_store::{Home, Reference, Result, SetId};

use crate::copy::Copies;

/// The places of buffers in the store.
pub struct Placed {
    /// One reference for each buffer.
    pub references: Vec<Reference>,
    /// The extents that the caller passed, and the one that was allocated for copied buffers.
    pub extents: Vec<Extent>,
}

fn known(buffer: &Buffer) -> Option<Reference> {
    let (segment, offset) = craton_slab::locate(buffer.as_ptr(), buffer.len())?;
    Some(BufferRef { segment: segment.id(), offset: offset as u64, length: buffer.len() as u64 }.into())
}

/// Put buffers into the store for a page of `set`. Buffers in one of the `granted` extents are referenced; with `share`, so are all other
/// buffers that are in shared memory.
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
        .ok_or_else(|| craton_store::Error::Invalid("the store granted a read-only extent".into()))?;
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
