//! The folder of a durable set.
//!
//! ```text
//! NAME/versions/00000000000000000001   the manifest of version 1
//!      versions/.new-WRITER            a manifest that is being written
//!      data/WRITER-NUMBER.EXTENSION    rows; which version they belong to is in the manifests
//!      writers/WRITER                  locked by a living writer
//! ```
//!
//! A version is published in these steps: the data files are synced, and their folder (for the first version, all folders up to the root,
//! which may be new); the manifest is written under another name and
//! synced; a link gives it the name of the version, which fails if another writer has taken it; the folder of versions is synced. A
//! version is therefore complete when its name is there, and files that no manifest names belong to nobody once their writer is gone.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::disk::Disk;
use super::manifest::{DataFile, Fault, Manifest, is_plain_name};

const VERSIONS: &str = "versions";
const DATA: &str = "data";
const WRITERS: &str = "writers";
const NEW: &str = ".new-";
/// How often a writer tries to lock its file, which another process may take for that of a writer that is gone.
const MOST_ATTEMPTS: usize = 100;

/// The error of a durable set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no set in the folder, or no such version of it.
    #[error("{0}")]
    Missing(String),
    /// Another writer has published a version since the one that this one started from.
    #[error("another writer has published version {0} meanwhile")]
    Conflict(u64),
    /// The request is invalid, for this reason.
    #[error("{0}")]
    Invalid(String),
    /// A manifest or a data file is not what was written.
    #[error("{path}: {why}")]
    Damaged {
        /// The file.
        path: String,
        /// How it differs.
        why: String,
    },
    /// An error of the system.
    #[error("{what}: {source}")]
    Io {
        /// The operation, and the file.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

/// The result of this module.
pub type Result<T> = std::result::Result<T, Error>;

fn failed(what: &str, path: &Path, source: io::Error) -> Error {
    Error::Io { what: format!("{what} {}", path.display()), source }
}

/// The folder of a set.
#[derive(Debug, Clone)]
pub struct SetFolder<D> {
    path: PathBuf,
    disk: D,
}

/// A writer of one version.
#[derive(Debug)]
pub struct Writer<D: Disk> {
    set: SetFolder<D>,
    name: String,
    files: Vec<String>,
    lock: Option<D::Lock>,
    // Whether the files stay when the writer goes: those of a version, or of one that may be there.
    kept: bool,
}

impl<D: Disk + Clone> SetFolder<D> {
    /// The folder at a path, whether or not there is a set.
    pub fn new(path: &Path, disk: D) -> Self {
        Self { path: path.to_owned(), disk }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a data file.
    pub fn data(&self, name: &str) -> PathBuf {
        self.path.join(DATA).join(name)
    }

    fn manifest(&self, version: u64) -> PathBuf {
        self.path.join(VERSIONS).join(format!("{version:020}"))
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.path.join(folder);
        match self.disk.list(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
            other => other.map_err(|error| failed("read the folder", &path, error)),
        }
    }

    /// The numbers of the versions, ascending; none if there is no set.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn versions(&self) -> Result<Vec<u64>> {
        let names = self.names(VERSIONS)?;
        let mut found: Vec<u64> = names.iter().filter(|name| name.len() == 20).flat_map(|name| name.parse()).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// A version.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Damaged`] or [`Error::Io`].
    pub fn read(&self, version: u64) -> Result<Manifest> {
        let path = self.manifest(version);
        let bytes = self.disk.read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Missing(format!("{} has no version {version}", self.path.display())),
            _ => failed("read", &path, error),
        })?;
        let damaged = |why: String| Error::Damaged { path: path.display().to_string(), why };
        match Manifest::decode(&bytes) {
            Ok(manifest) if manifest.version != version => {
                Err(damaged(format!("it is the manifest of version {}", manifest.version)))
            }
            Ok(manifest) => Ok(manifest),
            Err(fault @ Fault::Newer(_)) => Err(Error::Invalid(format!("{}: {fault}", path.display()))),
            Err(fault) => Err(damaged(fault.to_string())),
        }
    }

    /// The newest version; `None` if there is no set.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Io`]. An older version is never returned in place of a damaged one.
    pub fn current(&self) -> Result<Option<Manifest>> {
        loop {
            let Some(&last) = self.versions()?.last() else { return Ok(None) };
            match self.read(last) {
                // It expired after it was listed, so there is a newer one.
                Err(Error::Missing(_)) => {}
                other => return other.map(Some),
            }
        }
    }

    /// A writer of the next version, which creates the folder, and those that it is in, if needed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn writer(&self) -> Result<Writer<D>> {
        for folder in [VERSIONS, DATA, WRITERS] {
            self.make_folder(&self.path.join(folder))?;
        }
        for attempt in 0.. {
            let name = unique_name();
            let path = self.path.join(WRITERS).join(&name);
            match self.disk.lock(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < MOST_ATTEMPTS => {}
                Err(error) => return Err(failed("lock", &path, error)),
                Ok(lock) => {
                    return Ok(Writer { set: self.clone(), name, files: vec![], lock: Some(lock), kept: false });
                }
            }
        }
        unreachable!("the loop ends with a writer or an error")
    }

    /// Drop versions, but never the newest one. Their data files are removed by [`SetFolder::repair`].
    ///
    /// # Errors
    /// [`Error::Io`]; some of the versions may be dropped then.
    pub fn expire(&self, versions: &[u64]) -> Result<Vec<u64>> {
        let found = self.versions()?;
        let Some((_, older)) = found.split_last() else { return Ok(vec![]) };
        let dropped: Vec<u64> = older.iter().copied().filter(|version| versions.contains(version)).collect();
        for &version in &dropped {
            self.remove(&self.manifest(version))?;
        }
        if !dropped.is_empty() {
            self.sync(VERSIONS)?;
        }
        Ok(dropped)
    }

    /// Remove what writers that are gone have left, and data files of dropped versions. Returns the removed files.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a manifest cannot be read, so that it is not known which files it names; then only locks of writers that are
    /// gone are removed.
    /// [`Error::Io`].
    pub fn repair(&self) -> Result<Vec<PathBuf>> {
        // What is seen now must be there after a crash: otherwise a dropped version could come back without its files.
        match self.sync(VERSIONS) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            other => other?,
        }
        // In this order: a writer that is gone after its files were listed has published them or never will.
        let (data, new, writers) = (self.names(DATA)?, self.names(VERSIONS)?, self.names(WRITERS)?);
        let (mut living, mut removed) = (HashSet::new(), vec![]);
        for name in &writers {
            let path = self.path.join(WRITERS).join(name);
            if self.disk.remove_unlocked(&path).map_err(|error| failed("remove", &path, error))? {
                removed.push(path);
            } else {
                living.insert(name.as_str());
            }
        }
        let mut named = HashSet::new();
        for version in self.versions()? {
            match self.read(version) {
                Err(Error::Missing(_)) => {} // another process has dropped it
                other => named.extend(other?.files.into_iter().map(|file| file.name)),
            }
        }
        let of_living = |writer: &str| living.contains(writer);
        let stale = new.iter().filter(|name| name.strip_prefix(NEW).is_some_and(|writer| !of_living(writer)));
        let mut unneeded: Vec<PathBuf> = stale.map(|name| self.path.join(VERSIONS).join(name)).collect();
        let ours = |name: &&String| is_plain_name(name) && name.contains('-');
        let unnamed = data.iter().filter(ours).filter(|name| !named.contains(*name) && !of_living(writer_of(name)));
        unneeded.extend(unnamed.map(|name| self.data(name)));
        for path in &unneeded {
            self.remove(path)?;
        }
        removed.append(&mut unneeded);
        Ok(removed)
    }

    /// Check the data files of a version against its manifest. Returns what is wrong, file by file.
    ///
    /// # Errors
    /// As [`SetFolder::read`].
    pub fn verify(&self, version: u64) -> Result<Vec<(String, String)>> {
        let manifest = self.read(version)?;
        let wrong = manifest.files.iter().filter_map(|file| Some((file.name.clone(), self.fault_of(file)?)));
        Ok(wrong.collect())
    }

    fn fault_of(&self, file: &DataFile) -> Option<String> {
        match self.disk.checksum(&self.data(&file.name)) {
            Err(error) => Some(error.to_string()),
            Ok((bytes, _)) if bytes != file.bytes => {
                Some(format!("it has {bytes} bytes, and should have {}", file.bytes))
            }
            Ok((_, checksum)) if checksum != file.checksum => Some("its checksum differs".into()),
            Ok(_) => None,
        }
    }

    fn make_folder(&self, path: &Path) -> Result<()> {
        match (self.disk.make_folder(path), path.parent()) {
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound && parent != Path::new("") => {
                self.make_folder(parent)?;
                self.disk.make_folder(path)
            }
            (made, _) => made,
        }
        .map_err(|error| failed("make the folder", path, error))
    }

    /// Make the names of the set's folder, and of all folders that it is in, durable.
    fn sync_path(&self) -> Result<()> {
        for (level, folder) in self.path.ancestors().enumerate() {
            let folder = if folder == Path::new("") { Path::new(".") } else { folder };
            match self.disk.sync_folder(folder) {
                // Nobody who may not read it has made a folder in it.
                Err(error) if level > 0 && error.kind() == io::ErrorKind::PermissionDenied => {}
                other => other.map_err(|error| failed("sync the folder", folder, error))?,
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match self.disk.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path, error)),
            _ => Ok(()),
        }
    }

    fn sync(&self, folder: &str) -> Result<()> {
        let path = self.path.join(folder);
        self.disk.sync_folder(&path).map_err(|error| failed("sync the folder", &path, error))
    }
}

impl<D: Disk + Clone> Writer<D> {
    /// The name of the next data file, which the caller writes, and the path to write it to.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the extension has other characters than letters.
    pub fn next_file(&mut self, extension: &str) -> Result<(String, PathBuf)> {
        if extension.is_empty() || !extension.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(Error::Invalid(format!("the extension of a file has letters, not {extension:?}")));
        }
        let name = format!("{}-{}.{extension}", self.name, self.files.len());
        let path = self.set.data(&name);
        self.files.push(name.clone());
        Ok((name, path))
    }

    /// Publish a version with these files; its data are durable when this returns.
    ///
    /// # Errors
    /// [`Error::Conflict`] if there is a version after `base`, the version that this one was made from (0 for none).
    /// [`Error::Io`]. After an error in the link or in the last sync the version may be there.
    pub fn publish(
        &mut self,
        base: u64,
        files: Vec<DataFile>,
        about: serde_json::Map<String, serde_json::Value>,
    ) -> Result<Manifest> {
        let set = self.set.clone();
        let last = set.versions()?.last().copied().unwrap_or(0);
        if last != base {
            return Err(Error::Conflict(last));
        }
        for file in files.iter().filter(|file| self.files.contains(&file.name)) {
            let path = set.data(&file.name);
            set.disk.sync_file(&path).map_err(|error| failed("sync", &path, error))?;
        }
        set.sync(DATA)?;
        if base == 0 {
            set.sync_path()?; // all of it: another writer may have made folders, and not synced them
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
        let manifest = Manifest { version: base + 1, time, files, about };
        let new = set.path.join(VERSIONS).join(format!("{NEW}{}", self.name));
        set.remove(&new)?; // of an earlier attempt
        let written = set.disk.create(&new, &manifest.encode()).and_then(|()| set.disk.sync_file(&new));
        written.map_err(|error| failed("write", &new, error))?;
        let path = set.manifest(manifest.version);
        self.kept = true; // whatever happens now, the version may be there, and its files must stay
        let linked = set.disk.link(&new, &path);
        let _ = set.disk.remove(&new);
        match linked {
            // A network file system may have done it, and answer that the name is taken when it is asked again.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if set.read(manifest.version).ok().as_ref() != Some(&manifest) {
                    self.kept = false;
                    return Err(Error::Conflict(manifest.version));
                }
            }
            other => other.map_err(|error| failed("publish", &path, error))?,
        }
        set.sync(VERSIONS)?;
        self.release();
        Ok(manifest)
    }
}

impl<D: Disk> Writer<D> {
    /// End the writer's life, as other processes see it.
    fn release(&mut self) {
        if self.lock.take().is_some() {
            let _ = self.set.disk.remove(&self.set.path.join(WRITERS).join(&self.name));
        }
    }
}

impl<D: Disk> Drop for Writer<D> {
    fn drop(&mut self) {
        if !self.kept {
            for name in &self.files {
                let _ = self.set.disk.remove(&self.set.path.join(DATA).join(name));
            }
        }
        self.release();
    }
}

fn writer_of(file: &str) -> &str {
    file.rsplit_once('-').map_or(file, |(writer, _)| writer)
}

/// A name that no other writer of any machine has.
fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut random = [0_u8; 8];
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    format!("{time:016x}{:016x}{:x}", u64::from_le_bytes(random), COUNT.fetch_add(1, Ordering::Relaxed))
}
