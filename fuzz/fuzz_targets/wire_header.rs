#![no_main]
//! Decodes arbitrary headers and buffers as record batches.

use craton_wire::{Trust, columns_of, decode, decode_columns};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((header, buffers)) = craton_fuzz::page(input) else { return };
    let outline = columns_of(&header);
    if let Ok(batch) = decode(&header, &buffers, Trust::Checked) {
        let outline = outline.expect("a header that is decoded has an outline");
        assert_eq!(outline.columns.len(), batch.num_columns());
        craton_fuzz::read_all(&batch);
        if batch.num_columns() > 0 {
            let last = batch.num_columns() - 1;
            decode_columns(&header, &buffers, &[last], Trust::Checked).expect("a column of a batch can be decoded");
        }
    }
});
