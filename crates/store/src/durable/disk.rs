//! The file operations that durable sets are made of.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags};

/// A file system. Tests replace [`Files`] by one that fails, stops, and loses what was not synced.
pub trait Disk {
    /// What keeps a file locked until it is dropped.
    type Lock;

    /// Create a folder; an existing one is no error. Its parent must exist.
    ///
    /// # Errors
    /// The system's error.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder, in any order.
    ///
    /// # Errors
    /// The system's error.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Read a regular file.
    ///
    /// # Errors
    /// The system's error.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The length of a regular file, and its CRC-32C.
    ///
    /// # Errors
    /// The system's error.
    fn checksum(&self, path: &Path) -> io::Result<(u64, u32)> {
        let bytes = self.read(path)?;
        Ok((bytes.len() as u64, crc32c::crc32c(&bytes)))
    }

    /// Write a new file.
    ///
    /// # Errors
    /// The system's error; [`io::ErrorKind::AlreadyExists`] if there is a file of that name.
    fn create(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Make the contents of a file durable.
    ///
    /// # Errors
    /// The system's error.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Make the names in a folder durable.
    ///
    /// # Errors
    /// The system's error.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Give a file a second name, in one step.
    ///
    /// # Errors
    /// The system's error; [`io::ErrorKind::AlreadyExists`] if the name is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Remove a file.
    ///
    /// # Errors
    /// The system's error.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Create a file and lock it; it is unlocked when the process ends.
    ///
    /// # Errors
    /// The system's error; [`io::ErrorKind::AlreadyExists`] or [`io::ErrorKind::NotFound`] if another process interfered.
    fn lock(&self, path: &Path) -> io::Result<Self::Lock>;

    /// Remove a file unless a living process has locked it; returns whether it is gone. No process can lock it in between.
    ///
    /// # Errors
    /// The system's error.
    fn remove_unlocked(&self, path: &Path) -> io::Result<bool>;
}

/// The system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Files;

// Do not block on pipes and do not follow links: all files are regular files, but data files may be in other places.
const PLAIN: i32 = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).bits() as i32;
const LINKED: i32 = OFlags::NONBLOCK.bits() as i32;

/// The bytes of a file that are in memory while its checksum is computed.
const PART: usize = 1 << 20;

fn open(path: &Path, flags: i32) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

impl Disk for Files {
    type Lock = File;

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        match fs::DirBuilder::new().mode(0o777).create(path) {
            Err(_) if path.is_dir() => Ok(()),
            other => other,
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        open(path, PLAIN)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn checksum(&self, path: &Path) -> io::Result<(u64, u32)> {
        let (mut file, mut part, mut length, mut checksum) = (open(path, LINKED)?, vec![0; PART], 0, 0);
        loop {
            match file.read(&mut part) {
                Ok(0) => return Ok((length, checksum)),
                Ok(count) => {
                    length += count as u64;
                    checksum = crc32c::crc32c_append(checksum, &part[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn create(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).custom_flags(PLAIN).open(path)?;
        file.write_all(bytes).inspect_err(|_| drop(fs::remove_file(path)))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        open(path, LINKED)?.sync_all()
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn lock(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().write(true).create_new(true).custom_flags(PLAIN).open(path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| interfered())?;
        // Another process may have found it unlocked, and removed it.
        if file.metadata()?.nlink() == 0 { Err(interfered()) } else { Ok(file) }
    }

    fn remove_unlocked(&self, path: &Path) -> io::Result<bool> {
        let file = match OpenOptions::new().write(true).custom_flags(PLAIN).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            other => other?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            other => other?,
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(true),
        }
    }
}

fn interfered() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "another process has removed the lock")
}
