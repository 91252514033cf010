//! Damaged files, failing writes, and killed processes.
#![allow(missing_docs)]

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::*;
use craton_store::*;

const KB: usize = 1 << 10;

fn file(pool: &Pool, page: PageId) -> PathBuf {
    pool.folder().join(page.set.to_string()).join(format!("{}.arrow", page.number))
}

/// A pool with eight pages that are on disk only.
fn on_disk(scratch: &Scratch, direct_io: bool) -> (Arc<Pool>, Vec<PageId>) {
    let pool = Pool::open(PoolOptions { direct_io, ..options(scratch, 1 << 20) }).unwrap();
    let set = set(&*pool);
    let pages = (0..8).map(|seed| seal(&*pool, set, seed, 100 * KB).unwrap().page).collect();
    drop(pool.reserve(1 << 20, 1 << 20).unwrap());
    assert!(pool.pages(set).unwrap().iter().all(|info| info.location == Location::Disk));
    (pool, pages)
}

#[test]
fn a_damaged_file_is_named_and_refused_and_others_are_not() {
    type Damage = fn(&Path, &Path);
    let damages: [(&str, Damage); 6] = [
        ("a flipped bit in the body", |path, _| flip(path, 50_000)),
        ("a flipped bit at the start", |path, _| flip(path, 1)),
        ("a flipped bit at the end", |path, _| flip(path, std::fs::metadata(path).unwrap().len() as usize - 1)),
        ("a file cut short", |path, _| {
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(1000).unwrap();
        }),
        ("another page's file", |path, other| assert!(std::fs::copy(other, path).unwrap() > 0)),
        ("no file", |path, _| std::fs::remove_file(path).unwrap()),
    ];
    for direct_io in [false, true] {
        for (what, damage) in damages {
            let scratch = Scratch::new();
            let (pool, pages) = on_disk(&scratch, direct_io);
            let path = file(&pool, pages[3]);
            damage(&path, &file(&pool, pages[4]));
            for _ in 0..2 {
                match pool.pin(pages[3]).map(|page| page.info.clone()) {
                    Err(Error::Corrupt { page, path: named, .. }) => {
                        assert_eq!((page, Path::new(&named)), (pages[3], path.as_path()), "{what}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
            }
            for (seed, page) in (0..).zip(&pages).filter(|(seed, _)| *seed != 3) {
                check(&pool.pin(*page).unwrap(), seed);
            }
            pool.drop_page(pages[3]).unwrap();
        }
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

/// Seal pages until writing fails. No page may be lost, and sealing must succeed again after `relieve` has made room on the disk.
fn refused(parent: PathBuf, code: i32, relieve: impl FnOnce()) {
    let pool = Pool::open(PoolOptions { limit: 1 << 20, directory: Some(parent), ..PoolOptions::default() }).unwrap();
    let set = set(&*pool);
    let mut pages = Vec::new();
    let error = loop {
        match seal(&*pool, set, pages.len() as u64, 200 * KB) {
            Ok(info) => pages.push(info.page),
            Err(error) => break error,
        }
        assert!(pages.len() < 100, "writing does not fail");
    };
    assert!(matches!(error, Error::Io { code: found, .. } if found == code), "{error}");
    assert!(pages.len() >= 5);
    // Pages in memory are still readable. Reading other pages needs memory, which only clean pages can give up.
    let in_memory: Vec<_> =
        pool.pages(set).unwrap().into_iter().filter(|info| info.location != Location::Disk).collect();
    for info in &in_memory {
        check(&pool.pin(info.page).unwrap(), info.page.number.into());
    }
    relieve();
    for (seed, page) in (0..).zip(&pages) {
        check(&pool.pin(*page).unwrap(), seed);
    }
    seal(&*pool, set, 99, 200 * KB).unwrap();
    for info in pool.pages(set).unwrap() {
        if let Ok(about) = std::fs::metadata(file(&pool, info.page)) {
            assert!(about.len() > 200 * KB as u64, "a partial file was left: {}", info.page);
        }
    }
    pool.close();
}

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let scratch = Scratch::new();
    let mount = |what: &[&str]| {
        let output = Command::new("mount").args(what).arg(&scratch.0).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"]) {
        // Only root can mount a small file system.
        return;
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        refused(scratch.0.clone(), rustix::io::Errno::NOSPC.raw_os_error(), || {
            assert!(mount(&["-o", "remount,size=64m"]));
        });
    }));
    assert!(Command::new("umount").arg(&scratch.0).status().unwrap().success());
    result.unwrap();
}

#[test]
fn a_folder_that_cannot_be_made_is_told_and_loses_nothing() {
    // A file in place of the folder makes creating the folder fail, even for root.
    let scratch = Scratch::new();
    let parent = scratch.0.join("file");
    std::fs::write(&parent, b"").unwrap();
    let blocked = parent.clone();
    refused(parent, rustix::io::Errno::EXIST.raw_os_error(), move || {
        std::fs::remove_file(&blocked).unwrap();
    });
}

#[test]
fn writing_through_tells_at_once() {
    let scratch = Scratch::new();
    let parent = scratch.0.join("file");
    std::fs::write(&parent, b"").unwrap();
    let pool = Pool::open(PoolOptions { directory: Some(parent), ..PoolOptions::default() }).unwrap();
    let options = SetOptions { durability: Durability::WriteThrough, ..SetOptions::default() };
    let set = pool.create_set(options).unwrap();
    assert!(matches!(seal(&*pool, set, 1, KB), Err(Error::Io { .. })));
    assert_eq!(pool.pages(set).unwrap(), []);
    assert_eq!(pool.slab().usage().used, 0);
}

#[test]
fn dropping_pages_removes_their_files() {
    let scratch = Scratch::new();
    let (pool, pages) = on_disk(&scratch, false);
    let folder = file(&pool, pages[0]).parent().unwrap().to_owned();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 8);
    pool.drop_page(pages[0]).unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 7);
    pool.drop_set(pages[0].set).unwrap();
    assert!(!folder.exists());
    assert_eq!(pool.counters().unwrap().page_disk, 0);
}

const CHILD: &str = "CRATON_TEST_CHILD_FOLDER";

#[test]
fn the_folder_of_a_killed_process_is_removed() {
    if let Ok(parent) = std::env::var(CHILD) {
        let scratch = std::mem::ManuallyDrop::new(Scratch(parent.into()));
        let (pool, pages) = on_disk(&scratch, false);
        println!("\nfolder {}", pool.folder().display());
        // Wait until the parent process kills this one, or ends.
        let _ = std::io::stdin().read_line(&mut String::new());
        panic!("not killed, with {} pages", pages.len());
    }
    let scratch = Scratch::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["the_folder_of_a_killed_process_is_removed", "--exact", "--nocapture"])
        .env(CHILD, &scratch.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let folder = lines.map_while(|line| line.ok()).find_map(|line| Some(PathBuf::from(line.strip_prefix("folder ")?)));
    let folder = folder.unwrap();
    assert!(folder.join("lock").exists());
    // Opening another store must not remove the folder of a live process.
    drop(pool(&scratch, 1 << 20));
    assert!(folder.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    while folder.exists() {
        std::thread::yield_now();
    }
}

#[test]
fn descriptors_stay_as_many() {
    // Run in a separate process, because other tests open files at the same time.
    if std::env::var(CHILD).is_err() {
        let scratch = Scratch::new();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["descriptors_stay_as_many", "--exact"])
            .env(CHILD, &scratch.0)
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let scratch = Scratch::new();
    // The number of segments varies with the memory of pages; all other descriptors must stay as many.
    let count = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        let (segments, others): (Vec<_>, Vec<_>) =
            targets.partition(|path| path.to_string_lossy().starts_with("/memfd:craton"));
        assert!(segments.len() <= 2, "{segments:?}");
        others.len()
    };
    let before = count();
    for _ in 0..3 {
        let (pool, pages) = on_disk(&scratch, false);
        let open = count();
        for round in 0..20 {
            for (seed, page) in (0..).zip(&pages) {
                check(&pool.pin(*page).unwrap(), seed);
            }
            let extra = seal(&*pool, pages[0].set, round, 300 * KB).unwrap();
            drop(pool.reserve(1 << 20, 1 << 20).unwrap());
            pool.drop_page(extra.page).unwrap();
        }
        assert_eq!(count(), open);
        drop(pool);
    }
    assert_eq!(count(), before);
}
