//! Which process this is: a fork has its parent's values, and must not act as if it were the parent.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use remembered::id;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use std::process::id;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod remembered {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

    // In a page that a fork finds filled with zeros; `None` where the kernel does not do that. Asking the kernel each time would cost as
    // much as an allocation.
    static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

    fn page() -> Option<&'static AtomicU32> {
        let length = rustix::param::page_size();
        // SAFETY: a fresh mapping that stays for ever, aligned for the atomic, and zeros are a value of it.
        unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let start = mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE).ok()?;
            madvise(start, length, Advice::LinuxWipeOnFork).ok()?;
            Some(AtomicU32::from_ptr(start.cast()))
        }
    }

    /// The number of this process.
    pub(crate) fn id() -> u32 {
        let Some(known) = PAGE.get_or_init(page) else { return std::process::id() };
        match known.load(Ordering::Relaxed) {
            0 => {
                let id = std::process::id();
                known.store(id, Ordering::Relaxed);
                id
            }
            id => id,
        }
    }
}
