//! Writers and readers, which declare the access pattern to the store.
#![allow(missing_docs)]

mod common;

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use common::*;
use craton_slab::Extent;
use craton_store::services::{SequentialReader, SequentialWriter, Shape, SubPage, SubPages, Written};
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

/// Records of any length; the lanes count records and bytes.
struct Records;

impl Shape for Records {
    fn room(&self, least: &[u64], number: u64) -> Result<(usize, Vec<u64>)> {
        if least[1] > 1 << 20 {
            return Err(Error::Invalid(format!("a record of {} bytes", least[1])));
        }
        let bytes = least[1].max(if number == 0 { 8 << 10 } else { 128 << 10 });
        Ok((bytes as usize, vec![u64::MAX, bytes]))
    }

    fn prepare(&self, memory: &mut [u8], _: &[u64]) {
        memory.fill(0xff);
    }

    fn close(&self, _: &dyn Home, _: SetId, written: Written) -> Result<Option<(PageSpec, Vec<Extent>)>> {
        let bytes = written.used[1];
        assert!(bytes <= written.room[1]);
        let whole = written.extent.reference();
        let place = Reference { segment: whole.segment, offset: whole.offset, length: bytes };
        let rows = written.used[0] - written.lost.iter().map(|(_, lengths)| lengths[0]).sum::<u64>();
        let spec =
            PageSpec { header: header(&[bytes as usize]), buffers: buffers([place]), rows, ..PageSpec::default() };
        Ok((rows > 0).then(|| (spec, vec![written.extent])))
    }
}

/// Write bytes to the sub-page's part of the second lane.
fn fill(sub: &SubPage, bytes: &[u8]) {
    // SAFETY: the sub-page was taken for this many bytes.
    unsafe {
        sub.page().add(sub.before()[1] as usize).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
    };
}

fn record(thread: u64, number: u64) -> Vec<u8> {
    let length = if number % 100 == 99 { 6000 } else { 16 + (number % 7) * 24 };
    let mut record = length.to_le_bytes().to_vec();
    record.extend_from_slice(&(thread << 32 | number).to_le_bytes());
    record.resize(length as usize, number as u8);
    record
}

fn append(pages: &Arc<SubPages>, record: &[u8]) -> Result<()> {
    let sub = pages.take(&[1, record.len() as u64])?;
    fill(&sub, record);
    sub.finish()
}

/// The thread and the number of each record, in the order of the pages.
fn read(home: &Arc<dyn Home>, set: SetId) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let reader = SequentialReader::new(home, set, 1).unwrap();
    while let Some(page) = reader.next_page().unwrap() {
        for buffer in page.buffers.iter() {
            let mut rest = buffer.as_slice();
            while !rest.is_empty() {
                let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
                if length as u64 == u64::MAX {
                    // An abandoned sub-page, which has the prepared contents.
                    rest = &rest[16..];
                    continue;
                }
                let id = u64::from_le_bytes(rest[8..16].try_into().unwrap());
                assert_eq!(&rest[..length], &record(id >> 32, id & 0xffff_ffff)[..]);
                found.push((id >> 32, id & 0xffff_ffff));
                rest = &rest[length..];
            }
        }
    }
    found
}

#[test]
fn many_writers_append_to_the_pages_of_one_partition() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let set = set(&*home);
    let pages = Arc::new(SubPages::new(&home, set, Arc::new(Records)).unwrap());
    assert_eq!(operation(&*home, set), Operation::Write);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let pages = &pages;
            scope.spawn(move || {
                for number in 0..5000 {
                    append(pages, &record(thread, number)).unwrap();
                    match number % 20 {
                        5 => drop(pages.take(&[1, 16]).unwrap()),
                        7 => pages.take(&[1, 16]).unwrap().cancel().unwrap(),
                        _ => {}
                    }
                }
            });
        }
    });
    assert!(matches!(pages.take(&[1, 2 << 20]), Err(Error::Invalid(_))));
    let infos = pages.finish().unwrap();
    assert_eq!(infos.iter().map(|info| info.rows).sum::<u64>(), 30_000);
    assert!(infos.len() < 100, "{} pages", infos.len());
    assert_eq!(home.pages(set).unwrap().len(), infos.len());
    drop(pages);
    assert_eq!(operation(&*home, set), Operation::None);
    let found = read(&home, set);
    for thread in 0..6 {
        // The records of each writer are in order over all pages.
        let own = found.iter().filter(|(other, _)| *other == thread).map(|(_, number)| *number);
        assert!(own.eq(0..5000));
    }
}

#[test]
fn pages_are_sealed_in_the_order_in_which_they_were_begun() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let set = set(&*home);
    let pages = Arc::new(SubPages::new(&home, set, Arc::new(Records)).unwrap());
    let slow = pages.take(&[1, record(1, 0).len() as u64]).unwrap();
    for number in 0..3000 {
        append(&pages, &record(0, number)).unwrap();
    }
    assert!(home.pages(set).unwrap().is_empty(), "an earlier page is still being written");
    assert!(matches!(pages.finish(), Err(Error::Invalid(_))));
    fill(&slow, &record(1, 0));
    slow.finish().unwrap();
    pages.finish().unwrap();
    let found = read(&home, set);
    assert_eq!(found[0], (1, 0));
    assert!(found[1..].iter().copied().eq((0..3000).map(|number| (0, number))));
}

#[test]
fn a_writer_that_is_given_up_leaves_nothing() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let set = set(&*home);
    let pages = Arc::new(SubPages::new(&home, set, Arc::new(Records)).unwrap());
    let sub = pages.take(&[1, 100]).unwrap();
    fill(&sub, &[1; 100]);
    assert!(matches!(pages.finish(), Err(Error::Invalid(_))));
    drop(sub);
    assert_eq!(pages.finish().unwrap(), []);
    // Written sub-pages are kept when another one is abandoned; pages that are not sealed are dropped with `SubPages`.
    append(&pages, &record(0, 0)).unwrap();
    drop(pages.take(&[1, 16]).unwrap());
    append(&pages, &record(0, 1)).unwrap();
    let first = pages.take(&[1, 48]).unwrap();
    let before = first.before().to_vec();
    first.cancel().unwrap();
    let second = pages.take(&[1, 48]).unwrap();
    assert_eq!(second.before(), before, "a cancelled sub-page is granted again");
    drop(second);
    pages.close().unwrap();
    append(&pages, &record(0, 2)).unwrap();
    drop(pages);
    assert_eq!(read(&home, set), [(0, 0), (0, 1)]);
    home.drop_set(set).unwrap();
    assert_eq!(home.counters().unwrap().slab_used, 0);
}

#[test]
fn who_is_given_back_last_need_not_be_the_one_who_is_told_of_an_error() {
    let scratch = Scratch::new();
    let home: Arc<dyn Home> = pool(&scratch, 1 << 20);
    let set = set(&*home);
    let pages = Arc::new(SubPages::new(&home, set, Arc::new(Records)).unwrap());
    let sub = pages.take(&[1, 16]).unwrap();
    append(&pages, &record(0, 0)).unwrap();
    pages.close().unwrap();
    home.drop_set(set).unwrap();
    drop(sub);
    assert!(matches!(pages.finish(), Err(Error::NoSet(_))));
}
