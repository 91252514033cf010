//! The sizes of the rows of a chunk, by partition.

use super::plan::{Layout, Leaf, Source, Views};

/// A view's length is in its low 32 bits; strings up to this long are in the view itself.
pub(super) const INLINE: u32 = 12;

/// Sum up the units of the rows from `start` on for each partition; `numbers` are the rows' partitions. Rows are read sequentially.
pub(super) fn sizes(leaf: &Leaf, source: &Source, start: usize, numbers: &[u16], partitions: usize) -> Vec<u64> {
    let mut sizes = vec![0_u64; partitions];
    match source {
        Source::Ranges { offsets, .. } if matches!(leaf.layout, Layout::Ranges { wide: true, .. }) => {
            let offsets = &offsets.typed_data::<i64>()[start..=start + numbers.len()];
            for (number, pair) in numbers.iter().zip(offsets.windows(2)) {
                sizes[usize::from(*number)] += (pair[1] - pair[0]) as u64;
            }
        }
        Source::Ranges { offsets, .. } => {
            let offsets = &offsets.typed_data::<i32>()[start..=start + numbers.len()];
            for (number, pair) in numbers.iter().zip(offsets.windows(2)) {
                sizes[usize::from(*number)] += (pair[1] - pair[0]) as u64;
            }
        }
        // Without data buffers there are no long strings.
        Source::Views(source) if source.buffers.is_empty() => {}
        Source::Views(source) => {
            let views = &source.views.typed_data::<u128>()[start..start + numbers.len()];
            for (row, (number, view)) in numbers.iter().zip(views).enumerate() {
                let length = *view as u32;
                let long = length > INLINE && source.is_valid(start + row);
                sizes[usize::from(*number)] += if long { u64::from(length) } else { 0 };
            }
            if let Some(few) = &source.few {
                sizes.iter_mut().for_each(|size| *size = (*size).min(few.len() as u64));
            }
        }
        Source::Fixed(_) | Source::Bits(_) => sizes.clear(),
    }
    sizes
}

impl Views {
    #[inline(always)]
    pub fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }
}
