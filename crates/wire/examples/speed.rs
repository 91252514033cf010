//! Measures encoding and decoding of objects with many buffers and of small batches: `cargo run --release -p craton-wire --example speed`.

use std::hint::black_box;
use std::time::Instant;

use arrow_buffer::Buffer;
use craton_wire::{Trim, Trust, decode, encode_batch, object};

#[path = "../tests/samples/mod.rs"]
mod samples;

/// Nanoseconds of the fastest of several runs, without the time to create its input and to drop its result.
fn fastest<S, T>(mut given: impl FnMut() -> S, mut run: impl FnMut(S) -> T) -> u128 {
    let mut time = || {
        let given = given();
        let start = Instant::now();
        let made = black_box(run(given));
        let elapsed = start.elapsed().as_nanos();
        drop(made);
        elapsed
    };
    (0..20).map(|_| time()).min().unwrap_or(0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for count in [100, 10_000, 100_000] {
        let buffers: Vec<Buffer> = (0..count).map(|at| Buffer::from_vec(vec![at as u8; 40])).collect();
        let meta = Buffer::from(&[1; 100]);
        let encoding = fastest(|| buffers.clone(), |buffers| object::encode_object(meta.clone(), buffers));
        let encoded = object::encode_object(meta, buffers)?;
        let decoding = fastest(|| (), |()| object::decode_object(&encoded.header, &encoded.buffers));
        let (encoding, decoding) = (encoding / count as u128, decoding / count as u128);
        println!("object of {count} buffers: encode {encoding} ns a buffer, decode {decoding} ns a buffer");
    }
    let types = samples::flat();
    let batch = samples::batch(&types[..20], 1000, samples::STYLES[1], 1);
    let encoding = fastest(|| (), |()| encode_batch(&batch, Trim::Never));
    let encoded = encode_batch(&batch, Trim::Never)?;
    let decoding = fastest(|| (), |()| decode(&encoded.header, &encoded.buffers, Trust::Own));
    println!("batch of 20 columns: encode {encoding} ns, decode {decoding} ns, header {} bytes", encoded.header.len());
    Ok(())
}
