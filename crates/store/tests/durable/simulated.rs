//! A disk in memory that stops at a chosen operation, and that keeps after a crash only what was synced, and by chance some of the rest.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use craton_store::durable::Disk;

/// A generator of random numbers (SplitMix64), so that every run is the same.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Option<Vec<u8>>,
    locked: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Node {
    File(usize),
    Folder,
}

#[derive(Clone, Default)]
struct State {
    // The names as the system shows them, and those that are on the disk.
    now: BTreeMap<PathBuf, Node>,
    synced: BTreeMap<PathBuf, Node>,
    contents: Vec<Content>,
    operations: u64,
    stop_at: Option<u64>,
    full_from: Option<u64>,
}

/// The disk. Its clones are the same disk.
#[derive(Clone, Default)]
pub struct Simulated(Rc<RefCell<State>>);

pub struct Lock {
    disk: Simulated,
    number: usize,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(content) = self.disk.0.borrow_mut().contents.get_mut(self.number) {
            content.locked = false;
        }
    }
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Simulated {
    pub fn new(folders: &[&Path]) -> Self {
        let disk = Self::default();
        for folder in folders {
            let mut state = disk.0.borrow_mut();
            state.now.insert(folder.to_path_buf(), Node::Folder);
            state.synced.insert(folder.to_path_buf(), Node::Folder);
        }
        disk
    }

    /// The number of operations so far.
    pub fn operations(&self) -> u64 {
        self.0.borrow().operations
    }

    /// Stop the process at an operation, which then may or may not take effect; all later ones fail.
    pub fn stop_at(&self, operation: u64) {
        self.0.borrow_mut().stop_at = Some(operation);
    }

    /// Refuse to write from an operation on, as a full disk does.
    pub fn full_from(&self, operation: Option<u64>) {
        self.0.borrow_mut().full_from = operation;
    }

    pub fn has_stopped(&self) -> bool {
        let state = self.0.borrow();
        state.stop_at.is_some_and(|at| state.operations > at)
    }

    /// The disk that a new process finds: after the crash of the machine with `power`, or of the process alone.
    pub fn after_crash(&self, random: &mut Random, power: bool) -> Self {
        let mut state = self.0.borrow().clone();
        (state.stop_at, state.full_from) = (None, None);
        if power {
            let names: Vec<PathBuf> = state.now.keys().chain(state.synced.keys()).cloned().collect();
            let mut kept = BTreeMap::new();
            for name in names {
                let chosen = if random.below(2) == 0 { state.now.get(&name) } else { state.synced.get(&name) };
                if let Some(node) = chosen {
                    kept.insert(name, *node);
                }
            }
            // What is in a lost folder is lost.
            let folders: Vec<PathBuf> = kept.keys().cloned().collect();
            for name in folders {
                if name.parent().is_some_and(|parent| !kept.contains_key(parent)) {
                    kept.remove(&name);
                }
            }
            state.now = kept;
            for content in &mut state.contents {
                if content.synced.as_ref() != Some(&content.now) {
                    content.now = match random.below(4) {
                        0 => content.now.clone(),
                        1 => content.synced.clone().unwrap_or_default(),
                        2 => content.now[..random.below(content.now.len() as u64 + 1) as usize].to_vec(),
                        _ => content.now.iter().map(|_| random.next() as u8).collect(),
                    };
                }
            }
        }
        for content in &mut state.contents {
            content.locked = false;
            if power {
                content.synced = Some(content.now.clone());
            }
        }
        if power {
            state.synced = state.now.clone();
        }
        Self(Rc::new(RefCell::new(state)))
    }

    pub fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.create(path, bytes)
    }

    /// All files.
    pub fn files(&self) -> Vec<PathBuf> {
        let state = self.0.borrow();
        state.now.iter().filter(|(_, node)| matches!(node, Node::File(_))).map(|(path, _)| path.clone()).collect()
    }

    /// Run an operation, unless the process has stopped; at the operation where it stops it may take effect.
    fn operate<T>(&self, writes: bool, run: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let state = &mut *self.0.borrow_mut();
        let number = state.operations;
        state.operations += 1;
        let stopped = || io::Error::other("the process was killed");
        match state.stop_at {
            Some(at) if number > at => return Err(stopped()),
            Some(at) if number == at => {
                if at % 2 == 0 {
                    let _ = run(state);
                }
                return Err(stopped());
            }
            _ => {}
        }
        if writes && state.full_from.is_some_and(|from| number >= from) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        run(state)
    }
}

impl State {
    fn content(&mut self, path: &Path) -> io::Result<&mut Content> {
        match self.now.get(path) {
            Some(Node::File(number)) => Ok(&mut self.contents[*number]),
            _ => Err(missing()),
        }
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<()> {
        if self.now.contains_key(path) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        if path.parent().is_none_or(|parent| self.now.get(parent) != Some(&Node::Folder)) {
            return Err(missing());
        }
        self.now.insert(path.to_owned(), node);
        Ok(())
    }

    fn new_file(&mut self, path: &Path, content: Content) -> io::Result<usize> {
        let number = self.contents.len();
        self.add(path, Node::File(number))?;
        self.contents.push(content);
        Ok(number)
    }
}

impl Disk for Simulated {
    type Lock = Lock;

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.operate(true, |state| match state.now.get(path) {
            Some(Node::Folder) => Ok(()),
            _ => state.add(path, Node::Folder),
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.operate(false, |state| {
            if state.now.get(folder) != Some(&Node::Folder) {
                return Err(missing());
            }
            let inside = state.now.keys().filter(|path| path.parent() == Some(folder));
            Ok(inside.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect())
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.operate(false, |state| Ok(state.content(path)?.now.clone()))
    }

    fn create(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.operate(true, |state| {
            state.new_file(path, Content { now: bytes.to_vec(), ..Content::default() }).map(|_| ())
        })
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.operate(true, |state| {
            let content = state.content(path)?;
            content.synced = Some(content.now.clone());
            Ok(())
        })
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.operate(true, |state| {
            let inside = |name: &PathBuf| name.parent() == Some(path);
            state.synced.retain(|name, _| !inside(name));
            let names: Vec<(PathBuf, Node)> =
                state.now.iter().filter(|(name, _)| inside(name)).map(|(name, node)| (name.clone(), *node)).collect();
            state.synced.extend(names);
            Ok(())
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(true, |state| {
            let node = *state.now.get(from).ok_or_else(missing)?;
            state.add(to, node)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operate(false, |state| state.now.remove(path).map(|_| ()).ok_or_else(missing))
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        let number =
            self.operate(true, |state| state.new_file(path, Content { locked: true, ..Content::default() }))?;
        Ok(Lock { disk: self.clone(), number })
    }

    fn remove_unlocked(&self, path: &Path) -> io::Result<bool> {
        self.operate(false, |state| match state.content(path) {
            Ok(content) if content.locked => Ok(false),
            _ => {
                state.now.remove(path);
                Ok(true)
            }
        })
    }
}
