//! The layout of a page with a hash table.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::aggregate::{Aggregate, Number};

/// The most entries of a page: their numbers have 16 bits, and 0 marks an empty slot.
const MOST_ENTRIES: usize = (1 << 16) - 1;
/// The fewest entries of a page.
const FEWEST_ENTRIES: usize = 8;
/// Bytes of a slot.
const SLOT: usize = 4;
/// Bytes of a view.
const VIEW: usize = 16;

/// The columns that all pages of a buffer have.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) aggregates: Vec<Aggregate>,
    // For each aggregate, the number of its mask: the bitmap of entries that have a value.
    pub(super) masks: Vec<Option<usize>>,
    // The schema of sealed pages: the key, and the state of each aggregate.
    pub(super) schema: SchemaRef,
}

impl Form {
    pub(super) fn new(aggregates: Vec<Aggregate>) -> Self {
        let mut count = 0;
        let mask = |aggregate: &Aggregate| {
            aggregate.is_masked().then(|| {
                count += 1;
                count - 1
            })
        };
        let masks = aggregates.iter().map(mask).collect();
        let mut fields = vec![Field::new("key", DataType::BinaryView, true)];
        for (number, aggregate) in aggregates.iter().enumerate() {
            let data_type = match aggregate.number() {
                Number::Int => DataType::Int64,
                Number::Float => DataType::Float64,
            };
            fields.push(Field::new(number.to_string(), data_type, aggregate.is_masked()));
        }
        Self { aggregates, masks, schema: Arc::new(Schema::new(fields)) }
    }

    /// The bytes of an entry without its slot and without the bytes of a long key, times 8.
    fn entry_bits(&self) -> usize {
        8 * (VIEW + 8 * self.aggregates.len()) + self.mask_count()
    }

    /// The least bytes of an entry in a sealed page.
    pub(super) fn entry_bytes(&self) -> usize {
        self.entry_bits() / 8
    }

    fn mask_count(&self) -> usize {
        self.masks.iter().flatten().count()
    }

    /// The bytes of a page for that many entries with keys of `long` bytes each outside of their views.
    pub(super) fn bytes_for(&self, entries: usize, long: f64) -> usize {
        let entries = entries.max(FEWEST_ENTRIES);
        let slots = (entries * 4).div_ceil(3).next_power_of_two();
        let columns = entries * self.entry_bits() / 8;
        slots * SLOT + columns + (entries as f64 * long) as usize + 64 * (4 + 2 * self.aggregates.len())
    }
}

/// Where the parts of a page are: slots, views, the states of each aggregate, masks, and the bytes of long keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) slots: usize,
    pub(super) capacity: usize,
    pub(super) views_at: usize,
    states_at: usize,
    // Bytes from the states of one aggregate to those of the next.
    states_step: usize,
    masks_at: usize,
    masks_step: usize,
    pub(super) heap_at: usize,
    pub(super) heap: usize,
    pub(super) bytes: usize,
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

impl Layout {
    /// A page of `bytes` for keys that have `long` bytes outside of their views on average, and at least one of `least` bytes. `None` if
    /// the page is too small.
    pub(super) fn new(form: &Form, bytes: usize, long: f64, least: usize) -> Option<Self> {
        let mut best: Option<Self> = None;
        let mut slots = (2 * FEWEST_ENTRIES).next_power_of_two();
        loop {
            let most = (slots / 4 * 3).min(MOST_ENTRIES);
            let parts = 64 * (4 + 2 * form.aggregates.len());
            let rest = bytes.saturating_sub(slots * SLOT + parts);
            let each = form.entry_bits() as f64 / 8.0 + long;
            let mut capacity = (rest as f64 / each) as usize;
            // There is room for the first key.
            capacity = capacity.min(rest.saturating_sub(least) * 8 / form.entry_bits()).min(most);
            let Some(layout) = Self::with(form, bytes, slots, capacity).filter(|layout| layout.heap >= least) else {
                break;
            };
            if best.is_some_and(|best| best.capacity >= layout.capacity) {
                break;
            }
            best = Some(layout);
            if capacity < most || most == MOST_ENTRIES {
                break;
            }
            slots *= 2;
        }
        best
    }

    fn with(form: &Form, bytes: usize, slots: usize, capacity: usize) -> Option<Self> {
        if capacity < FEWEST_ENTRIES {
            return None;
        }
        let views_at = aligned(slots * SLOT);
        let states_at = views_at + aligned(capacity * VIEW);
        let states_step = aligned(capacity * 8);
        let masks_at = states_at + states_step * form.aggregates.len();
        let masks_step = aligned(capacity.div_ceil(8));
        let heap_at = masks_at + masks_step * form.mask_count();
        let heap = bytes.checked_sub(heap_at)?;
        Some(Self { slots, capacity, views_at, states_at, states_step, masks_at, masks_step, heap_at, heap, bytes })
    }

    pub(super) fn states_at(&self, aggregate: usize) -> usize {
        self.states_at + self.states_step * aggregate
    }

    pub(super) fn mask_at(&self, mask: usize) -> usize {
        self.masks_at + self.masks_step * mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_page_are_apart() {
        let form = Form::new(vec![Aggregate::Count, Aggregate::Min(Number::Float), Aggregate::Last(Number::Int)]);
        for bytes in [2048, 4096, 10_000, 1 << 16, 1 << 20, 4 << 20] {
            for (long, least) in [(0.0, 0), (0.0, 1000), (20.0, 40), (300.0, 900)] {
                let Some(layout) = Layout::new(&form, bytes, long, least) else { continue };
                assert!(layout.slots.is_power_of_two() && layout.capacity * 4 <= layout.slots * 3);
                assert!(layout.views_at >= layout.slots * SLOT);
                assert!(layout.states_at(0) >= layout.views_at + layout.capacity * VIEW);
                assert!(layout.mask_at(0) >= layout.states_at(2) + layout.capacity * 8);
                assert!(layout.heap_at >= layout.mask_at(1) + layout.capacity.div_ceil(8));
                assert!(layout.heap >= least && layout.heap_at + layout.heap == bytes);
                // Nearly all of a page is used, unless it has the most entries.
                let used = form.bytes_for(layout.capacity, long).max(layout.heap_at + least);
                assert!(layout.capacity == MOST_ENTRIES || used * 4 > bytes * 3 || bytes < 4096, "{layout:?}");
            }
        }
        assert!(Layout::new(&form, 500, 0.0, 0).is_none());
        assert!(Layout::new(&form, 4096, 0.0, 4000).is_none());
    }
}
