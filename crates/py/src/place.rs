//! Buffers into a store: those that lie in it already are referred to, the others are copied, on several threads.

use arrow_buffer::Buffer;
use craton_slab::{ALIGNMENT, BufferRef, Extent};
use craton_store::{Home, Reference, Result, SetId};
use rayon::prelude::*;

/// Bytes that one thread copies before it takes the next part.
const CHUNK: usize = 1 << 21;
/// From this many bytes on, several threads copy.
const PARALLEL_FROM: usize = 1 << 22;

/// Where buffers are now.
pub struct Placed {
    /// One a buffer.
    pub references: Vec<Reference>,
    /// What was allocated for those that were copied.
    pub extents: Vec<Extent>,
}

fn known(buffer: &Buffer) -> Option<Reference> {
    let (segment, offset) = craton_slab::locate(buffer.as_ptr(), buffer.len())?;
    Some(BufferRef { segment: segment.id(), offset: offset as u64, length: buffer.len() as u64 }.into())
}

/// Place buffers for a page of `set`; with `share`, buffers in shared memory are referred to.
pub fn place(home: &dyn Home, set: SetId, buffers: &[Buffer], share: bool) -> Result<Placed> {
    let nowhere = Reference { segment: 0, offset: 0, length: 0 };
    let mut references = vec![nowhere; buffers.len()];
    let mut copied = Vec::with_capacity(buffers.len());
    let mut total = 0_usize;
    for (number, buffer) in buffers.iter().enumerate() {
        if buffer.is_empty() {
            continue;
        }
        match if share { known(buffer) } else { None } {
            Some(reference) => references[number] = reference,
            None => {
                copied.push((number, total));
                total += buffer.len().next_multiple_of(ALIGNMENT);
            }
        }
    }
    if copied.is_empty() {
        return Ok(Placed { references, extents: Vec::new() });
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
    Ok(Placed { references, extents })
}

fn fill(target: &mut [u8], copied: &[(usize, usize)], buffers: &[Buffer]) {
    let mut pairs = Vec::with_capacity(copied.len());
    let mut rest = target;
    for &(number, _) in copied {
        let source = buffers[number].as_slice();
        let (own, others) = rest.split_at_mut(source.len().next_multiple_of(ALIGNMENT));
        rest = others;
        pairs.push((&mut own[..source.len()], source));
    }
    if pairs.iter().map(|(_, source)| source.len()).sum::<usize>() < PARALLEL_FROM {
        for (target, source) in pairs {
            target.copy_from_slice(source);
        }
        return;
    }
    pairs.into_par_iter().for_each(|(target, source)| {
        target
            .par_chunks_mut(CHUNK)
            .zip(source.par_chunks(CHUNK))
            .for_each(|(target, source)| target.copy_from_slice(source));
    });
}
