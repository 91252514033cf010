//! The folder of a store: made when it is first needed, locked while its store lives, and removed with it, however the store ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::fs::FlockOperation;

use crate::error::{Error, Result};

const PREFIX: &str = "craton-store-";
// A folder has this name before it is locked, so that nobody takes it for one of a dead store.
const UNLOCKED: &str = ".craton-new-";
const LOCK: &str = "lock";

/// A folder that belongs to one store in one process.
pub(crate) struct Folder {
    path: PathBuf,
    // Who made it: a forked child has a copy of this value and must leave the folder alone.
    process: u32,
    made: Mutex<Made>,
}

enum Made {
    Not,
    Yes { _lock: File, guardian: Option<Child> },
    Closed,
}

impl Folder {
    /// A folder in `parent` that is not made yet. Folders of dead stores there are removed.
    pub(crate) fn new(parent: &Path) -> Self {
        remove_dead(parent);
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{process}-{time:x}-{count}"));
        Self { path, process, made: Mutex::new(Made::Not) }
    }

    /// Where it is or will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Make it if it is not.
    ///
    /// # Errors
    /// What the system says; [`Error::Closed`] after [`Folder::close`], and in a forked child.
    pub(crate) fn make(&self) -> Result<()> {
        if std::process::id() != self.process {
            return Err(Error::Closed);
        }
        let mut made = self.made.lock();
        match *made {
            Made::Yes { .. } => return Ok(()),
            Made::Closed => return Err(Error::Closed),
            Made::Not => {}
        }
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let fresh = self.path.with_file_name(format!("{UNLOCKED}{name}"));
        let lock = self.make_locked(&fresh).map_err(|error| {
            let _ = fs::remove_dir_all(&fresh);
            Error::io(format!("make the folder {}", self.path.display()), &error)
        })?;
        *made = Made::Yes { _lock: lock, guardian: guard(&self.path) };
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

    /// Remove it with all that is in it; it is not made again.
    pub(crate) fn close(&self) {
        if std::process::id() != self.process {
            return;
        }
        let was = std::mem::replace(&mut *self.made.lock(), Made::Closed);
        if let Made::Yes { guardian, .. } = was {
            let _ = fs::remove_dir_all(&self.path);
            if let Some(mut guardian) = guardian {
                // A forked child may hold the other end of its pipe too, so it might not notice that this one goes.
                let _ = guardian.kill();
                let _ = guardian.wait();
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.close();
    }
}

/// A process that removes `path` once this one is gone: it reads from a pipe whose other end only this process has. Without a shell there
/// is none, and the folder stays until the next store in its parent is opened.
fn guard(path: &Path) -> Option<Child> {
    Command::new("/bin/sh")
        .args(["-c", r#"read _; rm -rf -- "$1""#, "craton-guardian"])
        .arg(path)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .ok()
}

/// Remove the folders in `parent` whose stores are gone: their locks are free.
fn remove_dead(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let user = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let ours = fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir() && about.uid() == user);
        let Some(lock) = ours.then(|| OpenOptions::new().write(true).open(path.join(LOCK)).ok()).flatten() else {
            continue;
        };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            tracing::info!(folder = %path.display(), "removing the folder of a dead store");
            let _ = fs::remove_dir_all(&path);
        }
    }
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
        fs::create_dir(parent.join("other")).unwrap();
        drop(Folder::new(&parent));
        assert!(!dead.exists() && alive.path().exists() && parent.join("other").exists());
        drop(alive);
        fs::remove_dir_all(&parent).unwrap();
    }
}
