//! A forked child reads its parent's shared extents, and cannot free them. A single test, because it forks the process.
#![cfg(target_os = "linux")]

mod common;

use common::{backings, fill, holds, options};
use craton_slab::{Error, Slab, SlabOptions};

unsafe extern "C" {
    safe fn fork() -> i32;
    safe fn _exit(status: i32) -> !;
}

/// The checks in the child; the exit status identifies the check that failed.
fn child(slab: &std::sync::Arc<Slab>, extents: Vec<craton_slab::Extent>) -> i32 {
    if !extents.iter().enumerate().all(|(seed, extent)| holds(extent.as_slice(), seed as u64)) {
        return 1;
    }
    if !matches!(slab.allocate(10), Err(Error::Forked { .. })) {
        return 2;
    }
    // In the parent, this would free all of it.
    drop(extents);
    slab.trim(0);
    let own = Slab::new(SlabOptions::default());
    if own.allocate(10).is_err() { 3 } else { 0 }
}

#[test]
fn a_forked_child_frees_nothing() {
    for backing in backings() {
        let slab = Slab::new(SlabOptions { segment_bytes: 1 << 21, keep_free: Some(0), ..options(&backing) });
        let make = |seed: u64| {
            let mut extent = slab.allocate(700_000).unwrap();
            fill(extent.as_mut_slice().unwrap(), seed);
            extent
        };
        let mut extents: Vec<_> = (0..9).map(make).collect();
        let pid = fork();
        if pid == 0 {
            let child = std::panic::AssertUnwindSafe(|| child(&slab, std::mem::take(&mut extents)));
            _exit(std::panic::catch_unwind(child).unwrap_or(9));
        }
        let pid = rustix::process::Pid::from_raw(pid).expect("forked");
        let (_, status) = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0));
        assert!(extents.iter().enumerate().all(|(seed, extent)| holds(extent.as_slice(), seed as u64)));
        assert_eq!(slab.allocate(10).unwrap().len(), 10);
    }
}
