#![no_main]
//! Reads arbitrary bytes as a page image.

use arrow_buffer::Buffer;
use craton_wire::image::{Align, Compression, Image, ImagePlan, decompress};
use craton_wire::{Trust, decode};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Ok(image) = Image::parse(input) else { return };
    let stored: Vec<Buffer> =
        image.places.iter().map(|place| Buffer::from(&input[place.start as usize..place.end as usize])).collect();
    let _ = image.verify(&mut std::io::Cursor::new(input));
    let _ = image.verify_buffers(&stored);
    let buffers = match image.compression {
        Compression::None => stored,
        Compression::Lz4 => match stored.iter().map(decompress).collect() {
            Ok(buffers) => buffers,
            Err(_) => return,
        },
    };
    let Ok(batch) = decode(&image.header, &buffers, Trust::Checked) else { return };
    craton_fuzz::read_all(&batch);
    let plan = ImagePlan::new(&image.header, Align::Line).expect("a header that was decoded has an image");
    let mut file = Vec::new();
    plan.write(&mut file, &buffers).expect("writing to memory");
    let again = Image::parse(&file).expect("an image that was written");
    again.verify_buffers(&buffers).expect("what was written");
    assert_eq!(again.header, image.header);
});
