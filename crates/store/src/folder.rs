//! The folder of a store: created when it is first needed, locked while the store lives, and removed with it, even if its process is killed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, OFlags};

use crate::error::{Error, Result};
use crate::guardian::Guardian;

const PREFIX: &str = "craton-store-";
// A folder has this prefix until it is locked, so that no other process takes it for that of a dead store.
const UNLOCKED: &str = ".craton-new-";
const LOCK: &str = "lock";

/// A folder that belongs to one store in one process.
pub(crate) struct Folder {
    path: PathBuf,
    // The process that created it: a forked child has a copy of this value and must not remove the folder.
    process: u32,
    made: Mutex<Made>,
}

enum Made {
    // The guardian that removes the folder if this process is killed; it is started before the folder is created.
    Not(Option<Guardian>),
    Yes { _lock: File, guardian: Option<Guardian> },
    Closed,
}

impl Folder {
    /// A folder in `parent`, which [`Folder::make`] creates. Folders of dead stores in `parent` are removed.
    pub(crate) fn new(parent: &Path) -> Self {
        remove_dead(parent);
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{process}-{time:x}-{count}"));
        Self { path, process, made: Mutex::new(Made::Not(None)) }
    }

    /// Its path, whether or not it exists yet.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was created.
    pub(crate) fn is_made(&self) -> bool {
        matches!(*self.made.lock(), Made::Yes { .. })
    }

    /// Create it if it does not exist yet.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Closed`] after [`Folder::close`], and in a forked child.
    pub(crate) fn make(&self) -> Result<()> {
        if std::process::id() != self.process {
            return Err(Error::Closed);
        }
        let mut made = self.made.lock();
        let guardian = match &mut *made {
            Made::Yes { .. } => return Ok(()),
            Made::Closed => return Err(Error::Closed),
            Made::Not(guardian) => guardian,
        };
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let fresh = self.path.with_file_name(format!("{UNLOCKED}{name}"));
        // Start the guardian before creating the folder: this process may be killed at any moment.
        if guardian.is_none() {
            *guardian = Guardian::of_folder(&self.path, &fresh);
        }
        let lock = self.make_locked(&fresh).map_err(|error| {
            let _ = fs::remove_dir_all(&fresh);
            Error::io(format!("make the folder {}", self.path.display()), &error)
        })?;
        let guardian = guardian.take();
        *made = Made::Yes { _lock: lock, guardian };
        Ok(())
    }

    fn make_locked(&self, fresh: &Path) -> io::Result<File> {
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent)?;
        }
        DirBuilder::new().mode(0o700).create(fresh)?;
        let lock = OpenOptions::new().write(true).create_new(true).mode(0o600).open(fresh.join(LOCK))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(fresh, &self.path)?;
        Ok(lock)
    }

    /// Remove it with its contents; it cannot be created again.
    pub(crate) fn close(&self) {
        if std::process::id() != self.process {
            return;
        }
        let was = std::mem::replace(&mut *self.made.lock(), Made::Closed);
        if let Made::Yes { guardian, .. } = was {
            let _ = fs::remove_dir_all(&self.path);
            drop(guardian);
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether a name is one that [`Folder::new`] gives.
fn is_ours(name: &str) -> bool {
    let parts: Vec<&str> = name.strip_prefix(PREFIX).unwrap_or_default().split('-').collect();
    let [process, time, count] = parts[..] else { return false };
    let number = |text: &str, radix| u128::from_str_radix(text, radix).is_ok();
    number(process, 10) && number(time, 16) && number(count, 10)
}

/// Remove the folders in `parent` of dead stores, which are those whose locks are free. Returns the removed folders.
pub fn remove_dead(parent: &Path) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    let Ok(entries) = fs::read_dir(parent) else { return removed };
    let user = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let ours = fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir() && about.uid() == user);
        if !ours {
            continue;
        }
        // Without NONBLOCK, opening a pipe would block.
        let plain = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
        let lock = OpenOptions::new().write(true).custom_flags(plain).open(path.join(LOCK));
        let dead = match &lock {
            Ok(lock) => rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
            // A store's folder without a lock file: another process has begun to remove it.
            Err(error) => error.kind() == io::ErrorKind::NotFound && is_ours(&entry.file_name().to_string_lossy()),
        };
        if dead {
            tracing::info!(folder = %path.display(), "removing the folder of a dead store");
            if fs::remove_dir_all(&path).is_ok() {
                removed.push(path);
            }
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("craton-folder-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn made_when_needed_and_gone_when_closed() {
        let parent = parent("made");
        let folder = Folder::new(&parent);
        assert!(!folder.path().exists());
        folder.make().unwrap();
        folder.make().unwrap();
        fs::write(folder.path().join("page"), b"x").unwrap();
        folder.close();
        assert!(!folder.path().exists());
        assert!(matches!(folder.make(), Err(Error::Closed)));
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn folders_of_dead_stores_are_removed_and_of_live_ones_not() {
        let parent = parent("dead");
        let alive = Folder::new(&parent);
        alive.make().unwrap();
        let dead = parent.join(format!("{PREFIX}1-2-3"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(LOCK), b"").unwrap();
        let half = parent.join(format!("{PREFIX}4-5-6"));
        fs::create_dir_all(half.join("7")).unwrap();
        let other = parent.join(format!("{PREFIX}of-mine"));
        fs::create_dir(&other).unwrap();
        drop(Folder::new(&parent));
        assert!(!dead.exists() && !half.exists() && alive.path().exists() && other.exists());
        drop(alive);
        fs::remove_dir_all(&parent).unwrap();
    }
}
