//! Durable sets: programs of appends, replacements, expiry and repair, on the system's files and on a disk that fails and forgets.
#![allow(missing_docs)]

mod simulated;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use craton_store::durable::{DataFile, Disk, Error, Files, Manifest, SetFolder, Writer};
use serde_json::{Map, Value};
use simulated::{Random, Simulated};

const ROOT: &str = "/data/default/set";

fn set_on<D: Disk + Clone>(disk: D) -> SetFolder<D> {
    SetFolder::new(Path::new(ROOT), disk)
}

fn disk() -> Simulated {
    Simulated::new(&[Path::new("/")])
}

/// Write a file of these rows with a writer.
fn file<D: Disk + Clone>(
    writer: &mut Writer<D>,
    write: impl Fn(&Path, &[u8]) -> std::io::Result<()>,
    rows: &[u8],
) -> Result<DataFile, Error> {
    let (name, path) = writer.next_file("arrow")?;
    write(&path, rows).map_err(|source| Error::Io { what: "write".into(), source })?;
    Ok(DataFile {
        name,
        rows: rows.len() as u64,
        bytes: rows.len() as u64,
        checksum: crc32c::crc32c(rows),
        about: Map::new(),
    })
}

/// Append rows to a set, or replace them. Returns the new version.
fn change(set: &SetFolder<Simulated>, disk: &Simulated, rows: &[u8], append: bool) -> Result<Manifest, Error> {
    let current = set.current()?;
    let base = current.as_ref().map_or(0, |manifest| manifest.version);
    let mut writer = set.writer()?;
    let (first, second) = rows.split_at(rows.len() / 2);
    let mut files = if append { current.map_or(vec![], |manifest| manifest.files) } else { vec![] };
    for part in [first, second] {
        files.push(file(&mut writer, |path, bytes| disk.write(path, bytes), part)?);
    }
    let about = Map::from_iter([("append".to_owned(), Value::from(append))]);
    writer.publish(base, files, about)
}

fn rows(set: &SetFolder<Simulated>, disk: &Simulated, manifest: &Manifest) -> Vec<u8> {
    manifest.files.iter().flat_map(|file| disk.read(&set.data(&file.name)).unwrap()).collect()
}

/// The rows of every version.
fn everything(set: &SetFolder<Simulated>, disk: &Simulated) -> BTreeMap<u64, Vec<u8>> {
    let versions = set.versions().unwrap();
    versions.into_iter().map(|version| (version, rows(set, disk, &set.read(version).unwrap()))).collect()
}

fn leftovers(set: &SetFolder<Simulated>, disk: &Simulated) -> Vec<PathBuf> {
    let mut needed: Vec<PathBuf> = vec![];
    for version in set.versions().unwrap() {
        needed.push(set.path().join("versions").join(format!("{version:020}")));
        needed.extend(set.read(version).unwrap().files.iter().map(|file| set.data(&file.name)));
    }
    disk.files().into_iter().filter(|path| !needed.contains(path)).collect()
}

#[test]
fn versions_stay_as_they_are() {
    let disk = disk();
    let set = set_on(disk.clone());
    assert!(set.current().unwrap().is_none() && set.versions().unwrap().is_empty());
    assert_eq!(change(&set, &disk, b"abcd", true).unwrap().version, 1);
    assert_eq!(change(&set, &disk, b"ef", true).unwrap().version, 2);
    assert_eq!(change(&set, &disk, b"xyz", false).unwrap().version, 3);
    let expected = [(1, b"abcd".to_vec()), (2, b"abcdef".to_vec()), (3, b"xyz".to_vec())];
    assert_eq!(everything(&set, &disk), BTreeMap::from(expected));
    assert_eq!(set.expire(&[1, 3]).unwrap(), [1]); // the newest stays
    assert!(set.repair().unwrap().is_empty()); // version 2 needs all data
    assert_eq!(set.expire(&[2]).unwrap(), [2]);
    assert_eq!(set.repair().unwrap().len(), 4);
    assert!(leftovers(&set, &disk).is_empty());
    assert!(matches!(set.read(2), Err(Error::Missing(_))));
}

#[test]
fn one_of_two_writers_wins_and_the_other_can_start_again() {
    let disk = disk();
    let set = set_on(disk.clone());
    let (mut one, mut other) = (set.writer().unwrap(), set.writer().unwrap());
    let ours = file(&mut one, |path, bytes| disk.write(path, bytes), b"one").unwrap();
    let theirs = file(&mut other, |path, bytes| disk.write(path, bytes), b"other").unwrap();
    assert!(set.repair().unwrap().is_empty()); // both writers live
    one.publish(0, vec![ours.clone()], Map::new()).unwrap();
    assert!(matches!(other.publish(0, vec![theirs.clone()], Map::new()), Err(Error::Conflict(1))));
    other.publish(1, vec![ours, theirs], Map::new()).unwrap();
    assert_eq!(everything(&set, &disk)[&2], b"oneother");
    drop((one, other));
    assert!(leftovers(&set, &disk).is_empty());
}

#[test]
fn a_writer_that_gives_up_leaves_nothing() {
    let disk = disk();
    let set = set_on(disk.clone());
    change(&set, &disk, b"ab", true).unwrap();
    let mut writer = set.writer().unwrap();
    file(&mut writer, |path, bytes| disk.write(path, bytes), b"cd").unwrap();
    drop(writer);
    assert!(leftovers(&set, &disk).is_empty());
}

#[test]
fn damage_is_noticed_and_removes_nothing() {
    let disk = disk();
    let set = set_on(disk.clone());
    change(&set, &disk, b"abcd", true).unwrap();
    let manifest = change(&set, &disk, b"ef", true).unwrap();
    assert!(set.verify(2).unwrap().is_empty());
    let broken = set.data(&manifest.files[0].name);
    disk.remove(&broken).unwrap();
    disk.write(&broken, b"aX").unwrap();
    assert_eq!(set.verify(1).unwrap(), [(manifest.files[0].name.clone(), "its checksum differs".to_owned())]);
    let path = set.path().join("versions").join(format!("{:020}", 2));
    let bytes = disk.read(&path).unwrap();
    disk.remove(&path).unwrap();
    disk.write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(matches!(set.current(), Err(Error::Damaged { .. })));
    assert!(matches!(set.repair(), Err(Error::Damaged { .. })));
    assert_eq!(disk.files().len(), 6);
}

#[test]
fn a_full_disk_changes_nothing() {
    let disk = disk();
    let set = set_on(disk.clone());
    change(&set, &disk, b"abcd", true).unwrap();
    let before = disk.operations();
    change(&set, &disk, b"ef", true).unwrap();
    let steps = disk.operations() - before;
    for step in 0..steps {
        let expected = everything(&set, &disk);
        disk.full_from(Some(disk.operations() + step));
        let outcome = change(&set, &disk, b"gh", true);
        disk.full_from(None);
        let now = everything(&set, &disk);
        let published = now.len() > expected.len();
        assert!(outcome.is_err() || published);
        assert!(published || now == expected, "step {step}");
        set.repair().unwrap();
        assert!(leftovers(&set, &disk).is_empty(), "step {step}");
    }
}

/// A program of changes, which the process or the machine stops at any operation, again and again: whatever was published stays, what was not
/// published is invisible, and after a repair nothing is left over.
fn crashes(seed: u64, count: usize) {
    let mut random = Random(seed);
    let mut disk = disk();
    let mut published: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut crashed = 0;
    while crashed < count {
        let set = set_on(disk.clone());
        disk.stop_at(disk.operations() + random.below(60));
        let mut unsure: Option<(u64, Vec<u8>)> = None; // a version whose publication did not return
        let mut expiring: Vec<u64> = vec![];
        while !disk.has_stopped() {
            let last = published.last_key_value().map(|(version, rows)| (*version, rows.clone())).unwrap_or_default();
            match random.below(6) {
                0 => {
                    expiring =
                        published.keys().copied().filter(|version| version % 2 == 0 && *version != last.0).collect();
                    if set.expire(&expiring).is_ok() {
                        published.retain(|version, _| !expiring.contains(version));
                        expiring.clear();
                    }
                }
                1 => drop(set.repair()),
                kind => {
                    let added: Vec<u8> = (0..random.below(9)).map(|_| random.next() as u8).collect();
                    let append = kind != 2;
                    let expected = if append { [last.1, added.clone()].concat() } else { added.clone() };
                    match change(&set, &disk, &added, append) {
                        Ok(manifest) => drop(published.insert(manifest.version, expected)),
                        Err(_) => unsure = Some((last.0 + 1, expected)),
                    }
                }
            }
        }
        let power = random.below(2) == 0;
        drop(set);
        disk = disk.after_crash(&mut random, power);
        crashed += 1;
        let set = set_on(disk.clone());
        let found = everything(&set, &disk);
        for (version, rows) in &found {
            let known = published.get(version).or(unsure.as_ref().filter(|one| one.0 == *version).map(|one| &one.1));
            assert_eq!(Some(rows), known, "seed {seed}, crash {crashed}: version {version}");
            assert!(set.verify(*version).unwrap().is_empty());
        }
        for version in published.keys().filter(|version| !expiring.contains(version)) {
            assert!(found.contains_key(version), "seed {seed}, crash {crashed}: version {version} is lost");
        }
        set.repair().unwrap();
        assert_eq!(everything(&set, &disk), found);
        assert!(leftovers(&set, &disk).is_empty(), "seed {seed}, crash {crashed}");
        published = found;
    }
}

#[test]
fn nothing_is_lost_and_nothing_left_over_after_ten_thousand_crashes() {
    for seed in 0..100 {
        crashes(seed, 100);
    }
}

#[test]
fn the_first_version_survives_with_all_folders_that_it_is_in() {
    let mut random = Random(1);
    for _ in 0..1000 {
        let first = disk();
        change(&set_on(first.clone()), &first, b"abcd", true).unwrap();
        let found = first.after_crash(&mut random, true);
        assert_eq!(everything(&set_on(found.clone()), &found), BTreeMap::from([(1, b"abcd".to_vec())]));
    }
}

#[test]
fn on_the_systems_files() {
    let root = std::env::temp_dir().join(format!("craton-durable-{}", std::process::id()));
    let set = SetFolder::new(&root.join("set"), Files);
    let write = |path: &Path, bytes: &[u8]| std::fs::write(path, bytes);
    let mut files = vec![];
    for base in 0..3 {
        let mut writer = set.writer().unwrap();
        files.push(file(&mut writer, write, format!("rows {base}").as_bytes()).unwrap());
        assert!(set.repair().unwrap().is_empty());
        writer.publish(base, files.clone(), Map::new()).unwrap();
    }
    assert_eq!(set.versions().unwrap(), [1, 2, 3]);
    assert!(set.verify(3).unwrap().is_empty());
    assert_eq!(set.expire(&[1, 2]).unwrap(), [1, 2]);
    assert!(set.repair().unwrap().is_empty());
    std::fs::write(set.data(&files[0].name), "rows x").unwrap();
    assert_eq!(set.verify(3).unwrap().len(), 1);
    assert!(matches!(SetFolder::new(&root.join("set/data"), Files).current(), Ok(None)));
    std::fs::write(root.join("file"), "x").unwrap();
    assert!(matches!(SetFolder::new(&root.join("file"), Files).writer(), Err(Error::Io { .. })));
    std::fs::remove_dir_all(&root).unwrap();
}
