//! A guardian: a process that removes files of this process even if this one is killed.
//!
//! It is a shell that reads from a pipe whose write end only this process has, so the read ends when this process does. On systems without a
//! shell there is no guardian, and the files stay until another process removes them: [`remove_dead`](crate::remove_dead) removes folders, and
//! a server replaces a stale socket.

use std::path::Path;
use std::process::{Child, Command, Stdio};

// Remove both names, because the folder may not have been renamed to its final one yet. The folders of sets are removed before the lock file,
// so that after an interruption the folder can still be recognised as that of a dead store.
const FOLDER: &str = r#"read -r _; rm -rf -- "$1"/*/ "$2"; rm -rf -- "$1""#;
// A starting server holds the lock of the folder while it examines and replaces the socket. Descriptor 1 keeps the inode from being reused,
// so the comparison reliably tells whether the file is the one that this process created.
#[cfg(target_os = "linux")]
const SOCKET: &str = r#"read -r _
exec 3<"$2" && { flock 3 || :; }
test "$1" -ef /proc/self/fd/1 && rm -f -- "$1""#;

/// The guardian's shell, which acts when this process ends. Dropping this value ends the shell without removing anything.
pub(crate) struct Guardian {
    shell: Child,
    process: u32,
}

impl Guardian {
    /// Guard the folder `path`, or `fresh` before it was renamed, which is removed with its contents.
    pub(crate) fn of_folder(path: &Path, fresh: &Path) -> Option<Self> {
        Self::start(FOLDER, [path, fresh], Stdio::null())
    }

    /// Guard the socket `path` in `folder`, which is removed unless another server has replaced it by then.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_socket(path: &Path, folder: &Path) -> Option<Self> {
        use rustix::fs::{Mode, OFlags};
        // The shell has another working directory.
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
        // A forked child may hold the write end of the pipe too, so closing it here does not suffice to end the shell.
        if std::process::id() == self.process {
            let _ = self.shell.kill();
            let _ = self.shell.wait();
        }
    }
}
