//! Pages as files that other readers of Arrow open.

mod samples;

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Schema};
use craton_wire::image::{Align, Compression, Image, ImagePlan, Piece, compress, decompress};
use craton_wire::{Encoded, Trim, Trust, decode, encode_batch, object};
use samples::{STYLES, batch, flat, nested};

fn types() -> Vec<DataType> {
    flat().into_iter().chain(nested()).collect()
}

fn write(plan: &ImagePlan, buffers: &[Buffer]) -> Vec<u8> {
    let mut file = Vec::new();
    let crc = plan.write(&mut file, buffers).unwrap();
    assert_eq!(file.len() as u64, plan.length());
    assert_eq!(crc32c::crc32c(&file[..plan.end() as usize]), crc);
    assert_eq!(plan.checksum(buffers).unwrap(), crc);
    assert_eq!(file[plan.end() as usize..], plan.tail(crc));
    for (place, buffer) in plan.places().iter().zip(buffers) {
        assert_eq!(file[place.start as usize..place.end as usize], **buffer);
    }
    file
}

fn stored(file: &[u8], image: &Image) -> Vec<Buffer> {
    image.places.iter().map(|place| Buffer::from(&file[place.start as usize..place.end as usize])).collect()
}

fn check_image(file: &[u8], encoded: &Encoded, compression: Compression) {
    let image = Image::parse(file).unwrap();
    assert_eq!(image.header, encoded.header);
    assert_eq!(image.compression, compression);
    let lengths: Vec<u64> = encoded.buffers.iter().map(|buffer| buffer.len() as u64).collect();
    assert_eq!(image.lengths, lengths);
    image.verify(&mut Cursor::new(file)).unwrap();
    let mut buffers = stored(file, &image);
    image.verify_buffers(&buffers).unwrap();
    if compression == Compression::Lz4 {
        buffers = buffers.iter().map(|buffer| decompress(buffer).unwrap()).collect();
    }
    assert_eq!(buffers, encoded.buffers);
}

fn other_reader(file: &[u8]) -> RecordBatch {
    let mut reader = FileReader::try_new(Cursor::new(file), None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    assert!(reader.next().is_none());
    batch
}

#[test]
fn arrow_reads_images_of_every_type() {
    for style in STYLES {
        for rows in [0, 1, 600] {
            let batch = batch(&types(), rows, style, 11);
            for trim in [Trim::Never, Trim::Always] {
                let encoded = encode_batch(&batch, trim).unwrap();
                for align in [Align::Line, Align::Page] {
                    let plan = ImagePlan::new(&encoded.header, align).unwrap();
                    let file = write(&plan, &encoded.buffers);
                    assert_eq!(other_reader(&file), batch);
                    check_image(&file, &encoded, Compression::None);
                    for (place, buffer) in plan.places().iter().zip(&encoded.buffers) {
                        let large = align == Align::Page && buffer.len() >= 4096;
                        assert_eq!(place.start % if large { 4096 } else { 64 }, 0);
                    }
                }
                let stored = compress(&encoded.buffers).unwrap();
                let lengths: Vec<u64> = stored.iter().map(|buffer| buffer.len() as u64).collect();
                let plan = ImagePlan::compressed(&encoded.header, &lengths, Align::Line).unwrap();
                check_image(&write(&plan, &stored), &encoded, Compression::Lz4);
            }
        }
    }
}

#[test]
fn the_deepest_types_and_no_columns_have_images() {
    let nest = |inner, _| DataType::List(Arc::new(arrow_schema::Field::new("item", inner, true)));
    let field = arrow_schema::Field::new("deep", (0..56).fold(DataType::Int8, nest), true);
    let deep = RecordBatch::new_empty(Arc::new(Schema::new(vec![field])));
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let none = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).unwrap();
    for batch in [deep, none] {
        let encoded = encode_batch(&batch, Trim::Never).unwrap();
        let file = write(&ImagePlan::new(&encoded.header, Align::Page).unwrap(), &encoded.buffers);
        assert_eq!(other_reader(&file), batch);
        check_image(&file, &encoded, Compression::None);
    }
}

#[test]
fn pieces_cover_the_image() {
    let encoded = encode_batch(&batch(&types(), 50, STYLES[1], 4), Trim::Never).unwrap();
    let plan = ImagePlan::new(&encoded.header, Align::Page).unwrap();
    let whole = write(&plan, &encoded.buffers);
    let mut file = vec![0; plan.length() as usize];
    for (at, piece) in plan.pieces() {
        let bytes = match piece {
            Piece::Metadata(bytes) => bytes,
            Piece::Buffer(number) => &encoded.buffers[number],
        };
        file[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }
    file[plan.end() as usize..].copy_from_slice(&plan.tail(plan.checksum(&encoded.buffers).unwrap()));
    assert!(file == whole);
}

#[test]
fn files_by_another_writer_are_read() {
    for style in STYLES {
        let batch = batch(&types(), 40, style, 8);
        let mut file = Vec::new();
        let mut writer = FileWriter::try_new(&mut file, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        let image = Image::parse(&file).unwrap();
        assert_eq!((image.crc, image.rows), (None, 40));
        assert_eq!(decode(&image.header, &stored(&file, &image), Trust::Checked).unwrap(), batch);
        // An image can be made of the page that was read.
        let plan = ImagePlan::new(&image.header, Align::Line).unwrap();
        assert_eq!(other_reader(&write(&plan, &stored(&file, &image))), batch);
    }
}

#[test]
fn an_object_has_an_image() {
    let buffers: Vec<Buffer> = (0..100).map(|at| Buffer::from_vec(vec![at as u8; at * 7])).collect();
    let encoded = object::encode_object(&b"the pickle of an object"[..], buffers.clone()).unwrap();
    let file = write(&ImagePlan::new(&encoded.header, Align::Page).unwrap(), &encoded.buffers);
    assert_eq!(other_reader(&file).num_rows(), 101);
    let image = Image::parse(&file).unwrap();
    let found = object::decode_object(&image.header, &stored(&file, &image)).unwrap();
    assert_eq!((found.meta.as_slice(), found.rows()), (&b"the pickle of an object"[..], &buffers[..]));
}

/// Read a page from a file; `None` if it is damaged.
fn open(file: &[u8]) -> Option<RecordBatch> {
    let image = Image::parse(file).ok()?;
    image.crc?;
    image.verify(&mut Cursor::new(file)).ok()?;
    let mut buffers = stored(file, &image);
    if image.compression == Compression::Lz4 {
        buffers = buffers.iter().map(|buffer| decompress(buffer).ok()).collect::<Option<_>>()?;
    }
    decode(&image.header, &buffers, Trust::Checked).ok()
}

#[test]
fn a_damaged_image_is_an_error_or_equal() {
    let batch = batch(&[DataType::Utf8, DataType::Int16, nested()[14].clone()], 9, STYLES[1], 3);
    let encoded = encode_batch(&batch, Trim::Always).unwrap();
    let stored = compress(&encoded.buffers).unwrap();
    let lengths: Vec<u64> = stored.iter().map(|buffer| buffer.len() as u64).collect();
    let files = [
        write(&ImagePlan::new(&encoded.header, Align::Line).unwrap(), &encoded.buffers),
        write(&ImagePlan::compressed(&encoded.header, &lengths, Align::Line).unwrap(), &stored),
    ];
    for file in files {
        assert_eq!(open(&file).unwrap(), batch);
        for length in 0..file.len() {
            assert!(open(&file[..length]).is_none());
        }
        for bit in 0..file.len() * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Some(found) = open(&damaged) {
                assert_eq!(found, batch, "bit {bit}");
            }
        }
    }
}

#[test]
fn damaged_compression_is_an_error() {
    let bytes: Vec<u8> = (0..5000_u32).flat_map(|at| (at / 7).to_le_bytes()).collect();
    let whole = compress(&[&bytes]).unwrap().remove(0);
    assert!(whole.len() < bytes.len());
    assert_eq!(decompress(&whole).unwrap().as_slice(), bytes);
    for length in 0..whole.len() {
        // A frame that lacks only its end marker still decompresses to all bytes.
        let found = decompress(&whole.slice_with_length(0, length));
        assert!(length == 0 || found.is_err() || length + 4 >= whole.len() && found.unwrap().as_slice() == bytes);
    }
    // A length that no frame of this size can decompress to is refused before memory is allocated.
    let mut bomb = whole.to_vec();
    bomb[..8].copy_from_slice(&(1_i64 << 40).to_le_bytes());
    assert!(decompress(&Buffer::from_vec(bomb)).is_err());
}
