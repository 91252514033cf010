//! A process that clears up after this one, however this one ends.
//!
//! It is a shell that reads from a pipe whose other end only this process has: when that is closed, this process is gone. Without a shell
//! there is none, and what it would have removed stays until somebody else comes by: see [`remove_dead`](crate::remove_dead) for folders;
//! a server replaces a socket that nobody listens at.

use std::path::Path;
use std::process::{Child, Command, Stdio};

// Both names: the folder may not have got its final one yet. The folders of sets go first, so that one that is interrupted leaves the lock.
const FOLDER: &str = r#"read -r _; rm -rf -- "$1"/*/ "$2"; rm -rf -- "$1""#;
// A server that starts holds the lock of the folder while it looks at the socket and replaces it. The descriptor keeps the file's number
// from being used again, so the file that is compared is the one that this process made, or another.
#[cfg(target_os = "linux")]
const SOCKET: &str = r#"read -r _
exec 3<"$2" && { flock 3 || :; }
test "$1" -ef /proc/self/fd/1 && rm -f -- "$1""#;

/// Lives until it is dropped, or until this process ends.
pub(crate) struct Guardian {
    shell: Child,
    process: u32,
}

impl Guardian {
    /// Remove the folder `path`, which had the name `fresh` before, with all that is in it.
    pub(crate) fn of_folder(path: &Path, fresh: &Path) -> Option<Self> {
        Self::start(FOLDER, [path, fresh], Stdio::null())
    }

    /// Remove the socket `path` in `folder`, unless another one has taken its place by then.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_socket(path: &Path, folder: &Path) -> Option<Self> {
        use rustix::fs::{Mode, OFlags};
        // The shell is not in this folder.
        let (path, folder) = (std::path::absolute(path).ok()?, std::path::absolute(folder).ok()?);
        let socket = rustix::fs::open(&path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Self::start(SOCKET, [&path, &folder], socket.into())
    }

    fn start(script: &str, arguments: [&Path; 2], output: Stdio) -> Option<Self> {
        use std::os::unix::process::CommandExt;
        let shell = Command::new("/bin/sh")
            .args(["-c", script, "craton-guardian"])
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()?;
        Some(Self { shell, process: std::process::id() })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // A process that was forked from this one may hold the other end of the pipe too, so the shell might not notice that this one goes.
        if std::process::id() == self.process {
            let _ = self.shell.kill();
            let _ = self.shell.wait();
        }
    }
}
