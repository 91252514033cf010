//! Measures how fast a set larger than memory is written and then read repeatedly:
//! `paging POLICY LIMIT_MB DATA_MB PAGE_KB SCANS back|through buffered|direct|lz4 [FOLDER]`.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use craton_store::services::{SequentialReader, SequentialWriter};
use craton_store::*;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let (limit, data, page) = (number(1) << 20, number(2) << 20, number(3) << 10);
    let pool = Pool::open(PoolOptions {
        limit,
        policy: policy::by_name(&arguments[0]).expect("a policy"),
        direct_io: arguments[6] == "direct",
        compression: if arguments[6] == "lz4" { Compression::Lz4 } else { Compression::None },
        directory: arguments.get(7).map(Into::into),
        ..PoolOptions::default()
    })?;
    let home: Arc<dyn Home> = pool;
    let durability = if arguments[5] == "through" { Durability::WriteThrough } else { Durability::WriteBack };
    let set = home.create_set(SetOptions { durability, ..SetOptions::default() })?;
    let words: Vec<u64> = (0..page / 8).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).collect();
    let column: ArrayRef = Arc::new(UInt64Array::from(words.clone()));
    let batch = RecordBatch::try_from_iter([("a", column)]).expect("a batch");
    let header = craton_wire::encode_batch(&batch, craton_wire::Trim::Never).expect("a page").header;
    let rate = |seconds: f64| format!("{seconds:.2} s, {:.2} GB/s", data as f64 / seconds / 1e9);

    let begun = Instant::now();
    let writer = SequentialWriter::new(&home, set)?;
    for _ in 0..data / page {
        writer.write(&[page as usize], |extents| {
            for (place, word) in extents[0].as_mut_slice().into_iter().flat_map(|e| e.chunks_exact_mut(8)).zip(&words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            let empty = Reference { segment: 0, offset: 0, length: 0 };
            let buffers = vec![empty, extents[0].reference().into()];
            Ok(PageSpec { header: header.clone(), buffers, rows: page / 8, ..PageSpec::default() })
        })?;
    }
    drop(writer);
    println!("write {}", rate(begun.elapsed().as_secs_f64()));
    let expected = words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
    for scan in 0..number(4) {
        let begun = Instant::now();
        let reader = SequentialReader::new(&home, set, 2)?;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some(page) = reader.next_page().expect("a page") {
                        let words = page.buffers[1].as_slice().chunks_exact(8);
                        let sum = words
                            .fold(0u64, |sum, word| sum.wrapping_add(word.try_into().map_or(0, u64::from_le_bytes)));
                        assert_eq!(sum, expected);
                    }
                });
            }
        });
        println!("scan {scan} {}", rate(begun.elapsed().as_secs_f64()));
    }
    println!("{:?}", home.counters()?);
    Ok(())
}
