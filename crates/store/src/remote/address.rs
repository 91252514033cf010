//! The addresses of servers, and listening sockets.

use std::fmt;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::FlockOperation;

use super::Result;
use crate::error::Error;
use crate::guardian::Guardian;

/// The address of a Unix socket. As text, `@name` is a name in Linux's abstract namespace, which needs no file; anything else is a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A name in the abstract namespace, 1 to 107 bytes.
    Abstract(String),
    /// A file, in a folder that only its owner can write to.
    Path(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abstract(name) => write!(f, "@{name}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_prefix('@') {
            Some("") => Err(Error::Invalid("the address \"@\" has no name after the @".into())),
            None if text.is_empty() => Err(Error::Invalid("the address of a store is empty".into())),
            Some(name) => Ok(Self::Abstract(name.into())),
            None => Ok(Self::Path(text.into())),
        }
    }
}

impl Address {
    /// A random name in the abstract namespace.
    #[must_use]
    pub fn unique() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self::Abstract(format!("craton-{}-{:016x}", std::process::id(), RandomState::new().hash_one(0)))
    }

    pub(super) fn error(&self, why: impl fmt::Display) -> Error {
        Error::Connection { address: self.to_string(), why: why.to_string() }
    }

    fn io(&self, what: &str, error: &io::Error) -> Error {
        let what = format!("{what} {self}");
        Error::Io { what, why: error.to_string(), code: error.raw_os_error().unwrap_or(0) }
    }

    fn socket(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Abstract(name) => SocketAddr::from_abstract_name(name),
            Self::Path(path) => SocketAddr::from_pathname(path),
        }
    }

    pub(super) fn connect(&self) -> Result<UnixStream> {
        let socket = self.socket().map_err(|e| self.error(e))?;
        UnixStream::connect_addr(&socket).map_err(|e| match e.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => self.error("no store is served there"),
            _ => self.error(e),
        })
    }

    /// Listen at this address. A stale socket file of a dead server is replaced.
    pub(super) fn listen(&self) -> Result<Listener> {
        let socket = self.socket().map_err(|e| self.io("listen at", &e))?;
        let Self::Path(path) = self else {
            let listener = UnixListener::bind_addr(&socket).map_err(|e| match e.kind() {
                ErrorKind::AddrInUse => self.error("another server listens there"),
                _ => self.io("listen at", &e),
            })?;
            return Ok(Listener { _file: None, listener });
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // This lock is held while a server checks for a stale socket file and replaces it, so that two servers that start at the same time do
        // not remove each other's sockets.
        let lock = private_folder(folder)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)
            .map_err(|e| self.io("lock the folder of", &e.into()))?;
        self.remove_stale(path)?;
        let listener = UnixListener::bind_addr(&socket).map_err(|e| self.io("listen at", &e))?;
        let about = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| std::fs::symlink_metadata(path))
            .map_err(|e| self.io("protect", &e))?;
        let guardian = Guardian::of_socket(path, folder);
        Ok(Listener {
            _file: Some(SocketFile { path: path.clone(), inode: inode(&about), _guardian: guardian }),
            listener,
        })
    }

    fn remove_stale(&self, path: &Path) -> Result<()> {
        match std::fs::symlink_metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(self.io("look at", &e)),
            Ok(about) if !about.file_type().is_socket() => {
                return Err(Error::Invalid(format!("{self} exists and is not a socket")));
            }
            Ok(_) => {}
        }
        match UnixStream::connect(path) {
            Ok(_) => Err(self.error("another server listens there")),
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(|e| self.io("remove the stale socket at", &e))
            }
            Err(e) => Err(self.io("find out whether a server listens at", &e)),
        }
    }
}

fn inode(about: &Metadata) -> (u64, u64) {
    (about.dev(), about.ino())
}

// Open the folder of a socket. It is created with mode 0700 if missing, and refused if another user could create files in it.
fn private_folder(folder: &Path) -> Result<File> {
    let io = |what: &str, e: &io::Error| Error::Io {
        what: format!("{what} the folder {}", folder.display()),
        why: e.to_string(),
        code: e.raw_os_error().unwrap_or(0),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|e| io("make", &e))?;
    let file = File::open(folder).map_err(|e| io("open", &e))?;
    let about = file.metadata().map_err(|e| io("look at", &e))?;
    if about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o022 != 0 {
        let (owner, mode) = (about.uid(), about.mode() & 0o7777);
        return Err(Error::Invalid(format!(
            "the folder {} belongs to user {owner} and has mode {mode:o}: a store's socket needs a folder that only its own user can write \
             to, such as one with mode 700",
            folder.display()
        )));
    }
    Ok(file)
}

/// A listening socket; its file is removed when it is dropped.
pub(super) struct Listener {
    // Dropped, and so removed, before the socket: while the socket listens, no other server takes the path, and the inode is not reused.
    _file: Option<SocketFile>,
    pub(super) listener: UnixListener,
}

struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
    // Removes the file if this process is killed.
    _guardian: Option<Guardian>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let Some(folder) = self.path.parent() else { return };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // Take the lock that a server holds while it checks and replaces the file, so that only our own file is removed.
        let Ok(lock) = File::open(folder) else { return };
        if rustix::fs::flock(&lock, FlockOperation::LockExclusive).is_err() {
            return;
        }
        if std::fs::symlink_metadata(&self.path).is_ok_and(|about| inode(&about) == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
