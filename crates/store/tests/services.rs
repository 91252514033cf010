//! Writers and readers that tell the store what they do.
#![allow(missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::*;
use craton_store::services::{SequentialReader, SequentialWriter, SubPages};
use craton_store::*;

fn operation(home: &dyn Home, set: SetId) -> Operation {
    home.describe().unwrap().into_iter().find(|info| info.set == set).unwrap().operation
}

#[test]
fn several_threads_read_each_page_once() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 2 << 20);
    let set = set(&*home);
    let writer = SequentialWriter::new(&home, set).unwrap();
    assert_eq!(operation(&*home, set), Operation::Write);
    for seed in 0..100u64 {
        let bytes = 64 << 10;
        let info = writer.write(&[bytes], |extents| {
            for (place, word) in extents[0].as_mut_slice().unwrap().chunks_exact_mut(8).zip(words(seed, bytes)) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            let buffers = buffers([extents[0].reference().into()]);
            Ok(PageSpec { header: header(&[bytes]), buffers, rows: 8192, ..PageSpec::default() })
        });
        assert_eq!(u64::from(info.unwrap().page.number), seed);
    }
    for _ in 0..3 {
        let reader = SequentialReader::new(&home, set, 4).unwrap();
        assert_eq!(operation(&*home, set), Operation::ReadWrite);
        let seen = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(page) = reader.next_page().unwrap() {
                        check(&page, page.info.page.number.into());
                        seen.lock().unwrap().push(page.info.page.number);
                    }
                });
            }
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..100) && reader.len() == 100);
    }
    drop(writer);
    assert_eq!(operation(&*home, set), Operation::None);
    let reader = SequentialReader::new(&home, set, 1).unwrap();
    assert_eq!(operation(&*home, set), Operation::Read);
    drop(reader);
    assert_eq!(operation(&*home, set), Operation::None);
}

#[test]
fn many_writers_append_to_the_pages_of_one_partition() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let set = set(&*home);
    let describe = |parts: &[services::Part]| {
        let rows = parts.iter().map(|part| part.rows).sum();
        let lengths: Vec<usize> = parts.iter().map(|part| part.place.length as usize).collect();
        let buffers = buffers(parts.iter().map(|part| part.place));
        Ok(PageSpec { header: header(&lengths), buffers, rows, ..PageSpec::default() })
    };
    let pages = Arc::new(SubPages::new(&home, set, 128 << 10, 4 << 10, describe).unwrap());
    assert!(matches!(SubPages::new(&home, set, 10, 20, describe), Err(Error::Invalid(_))));
    let record = |thread: u64, number: u64| {
        // From 16 bytes to more than a sub-page.
        let length = if number % 100 == 99 { 6000 } else { 16 + (number % 7) * 24 };
        let mut record = length.to_le_bytes().to_vec();
        record.extend_from_slice(&(thread << 32 | number).to_le_bytes());
        record.resize(length as usize, number as u8);
        record
    };
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let pages = &pages;
            scope.spawn(move || {
                let mut writer = pages.writer();
                for number in 0..5000 {
                    writer.append(&record(thread, number), 1).unwrap();
                }
                writer.finish().unwrap();
            });
        }
    });
    assert!(matches!(pages.writer().append(&[0; 200 << 10], 1), Err(Error::Invalid(_))));
    let infos = pages.finish().unwrap();
    assert_eq!(infos.iter().map(|info| info.rows).sum::<u64>(), 30_000);
    assert_eq!(home.pages(set).unwrap().len(), infos.len());
    drop(pages);

    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    let reader = SequentialReader::new(&home, set, 1).unwrap();
    while let Some(page) = reader.next_page().unwrap() {
        for buffer in page.buffers.iter() {
            let mut rest = buffer.as_slice();
            while !rest.is_empty() {
                let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
                let id = u64::from_le_bytes(rest[8..16].try_into().unwrap());
                assert_eq!(&rest[..length], &record(id >> 32, id & 0xffff_ffff)[..]);
                // Each writer's records stay in its own order within a sub-page.
                *found.entry(id).or_default() += 1;
                rest = &rest[length..];
            }
        }
    }
    assert_eq!(found.len(), 30_000);
    assert!(found.values().all(|count| *count == 1));
}

#[test]
fn a_writer_that_is_given_up_leaves_nothing() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let set = set(&*home);
    let pages = Arc::new(SubPages::new(&home, set, 4096, 1024, |_| Ok(PageSpec::default())).unwrap());
    let mut writer = pages.writer();
    writer.append(&[1; 100], 1).unwrap();
    assert!(matches!(pages.finish(), Err(Error::Invalid(_))));
    drop(writer);
    assert_eq!(pages.finish().unwrap(), []);
    assert_eq!(home.counters().unwrap().slab_used, 0);
}
