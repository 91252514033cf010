//! Functions that several fuzz targets use: they split an input into a header and buffers, and read every value of a decoded batch.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;

/// Split an input into a header and buffers. The header and each buffer are preceded by their length in four bytes. The header gets
/// a correct checksum, because a fuzzer practically never generates one.
pub fn page(mut input: &[u8]) -> Option<(Vec<u8>, Vec<Buffer>)> {
    let mut header = piece(&mut input)?.to_vec();
    if header.len() >= 12 {
        let crc = crc32c::crc32c(&header[12..]);
        header[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    let mut buffers = Vec::new();
    while let Some(bytes) = piece(&mut input) {
        buffers.push(Buffer::from(bytes));
    }
    Some((header, buffers))
}

fn piece<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = input.split_first_chunk()?;
    let (bytes, rest) = rest.split_at(rest.len().min(u32::from_le_bytes(*length) as usize));
    *input = rest;
    Some(bytes)
}

/// Read every value of a batch: validate all columns, compare the batch with itself, and encode and decode it again.
pub fn read_all(batch: &RecordBatch) {
    for column in batch.columns() {
        column.to_data().validate_full().expect("a decoded column is valid");
    }
    if batch.num_rows() <= 1 << 16 && batch.columns().iter().all(|column| small(&column.to_data())) {
        assert_eq!(batch, &batch.slice(0, batch.num_rows()));
    }
    for trim in [craton_wire::Trim::Never, craton_wire::Trim::Always] {
        let encoded = craton_wire::encode_batch(batch, trim).expect("a decoded batch can be encoded");
        let again = craton_wire::decode(&encoded.header, &encoded.buffers, craton_wire::Trust::Checked)
            .expect("an encoded batch can be decoded");
        assert_eq!(again.num_rows(), batch.num_rows());
    }
}

/// Whether all nested arrays are short enough to be compared value by value. An array can be long without using memory, such as one
/// of nulls.
fn small(data: &arrow_data::ArrayData) -> bool {
    data.len() <= 1 << 16 && data.child_data().iter().all(small)
}
