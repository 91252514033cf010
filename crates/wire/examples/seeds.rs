//! Write small valid inputs for the fuzz targets: `cargo run --release -p craton-wire --example seeds -- fuzz/corpus`.

#[path = "../tests/samples/mod.rs"]
mod samples;

use std::fs;
use std::path::Path;

use arrow_buffer::Buffer;
use arrow_schema::DataType;
use craton_wire::image::{Align, ImagePlan, compress};
use craton_wire::message::Message;
use craton_wire::{Encoded, Trim, encode_batch, frame, object};
use samples::{STYLES, batch, flat, nested};

/// A page in the form that the fuzz targets read.
fn page(encoded: &Encoded) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in std::iter::once(&encoded.header[..]).chain(encoded.buffers.iter().map(Buffer::as_slice)) {
        bytes.extend_from_slice(&(piece.len() as u32).to_le_bytes());
        bytes.extend_from_slice(piece);
    }
    bytes
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("expected one argument: the folder to write to")?;
    let write = |target: &str, name: String, bytes: &[u8]| -> std::io::Result<()> {
        let folder = Path::new(&folder).join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)
    };
    let types: Vec<DataType> = flat().into_iter().chain(nested()).collect();
    for (number, data_type) in types.iter().enumerate() {
        let encoded = encode_batch(&batch(std::slice::from_ref(data_type), 5, STYLES[1], 1), Trim::Always)?;
        write("wire_header", format!("type{number}"), &page(&encoded))?;
        let mut file = Vec::new();
        ImagePlan::new(&encoded.header, Align::Line)?.write(&mut file, &encoded.buffers)?;
        write("wire_image", format!("type{number}"), &file)?;
        let stored = compress(&encoded.buffers)?;
        let lengths: Vec<u64> = stored.iter().map(|buffer| buffer.len() as u64).collect();
        let mut file = Vec::new();
        ImagePlan::compressed(&encoded.header, &lengths, Align::Line)?.write(&mut file, &stored)?;
        write("wire_image", format!("type{number}.lz4"), &file)?;
    }
    let message = Message { header: b"header".to_vec(), references: vec![(1, 64, 100), (2, 128, 5)], rows: 3 };
    write("wire_frame", "message".to_owned(), &message.to_bytes()?)?;
    for parts in [&[&b""[..]][..], &[b"payload"], &[&message.to_bytes()?]] {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, 3, parts)?;
        write("wire_frame", format!("frame{}", bytes.len()), &bytes)?;
    }
    for buffers in [vec![], vec![Buffer::from(&[1; 12])], vec![Buffer::from(&[2; 13]), Buffer::from(&[3; 100])]] {
        let encoded = object::encode_object(&b"meta"[..], buffers)?;
        write("wire_object", format!("buffers{}", encoded.buffers.len()), &page(&encoded))?;
    }
    Ok(())
}
