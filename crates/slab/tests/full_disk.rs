//! On a full file system `allocate` returns an error; writing to the memory must not raise a signal.
#![cfg(target_os = "linux")]

mod common;

use std::process::Command;

use common::{fill, holds, options};
use craton_slab::{Backing, Error, Slab, SlabOptions};

const FOLDER: &str = "CRATON_SLAB_SMALL_DISK";

/// The test runs itself again in its own mount namespace with a file system of 4 MiB, if it may create one.
#[test]
fn a_full_disk() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return on_a_small_disk(&Backing::File(folder.into()));
    }
    let folder = std::env::temp_dir().join(format!("craton-small-disk-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mounted = |then: &str| {
        let script = format!("mount -t tmpfs -o size=4m craton \"${FOLDER}\" && {then}");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
        command.env(FOLDER, &folder).env("PROGRAM", std::env::current_exe().unwrap());
        command.output()
    };
    let possible = mounted("true").is_ok_and(|output| output.status.success());
    let output = possible.then(|| mounted("\"$PROGRAM\" --exact a_full_disk --nocapture").unwrap());
    std::fs::remove_dir(&folder).unwrap();
    match output {
        Some(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        None => eprintln!("not tested: no file system may be mounted here"),
    }
}

fn on_a_small_disk(backing: &Backing) {
    let slab = Slab::new(SlabOptions { segment_bytes: 64 << 20, keep_free: Some(0), ..options(backing) });
    let mut extents = Vec::new();
    let error = loop {
        match slab.allocate(900_000) {
            Ok(mut extent) => {
                fill(extent.as_mut_slice().unwrap(), extents.len() as u64);
                extents.push(extent);
            }
            Err(error) => break error,
        }
        assert!(extents.len() < 10, "more than 4 MiB were allocated");
    };
    assert!(extents.len() >= 3);
    assert!(
        matches!(&error, Error::System { source, .. } if source.kind() == std::io::ErrorKind::StorageFull),
        "{error}"
    );
    assert!(slab.allocate(50 << 20).is_err());
    assert_eq!(slab.usage().used, extents.len() as u64 * 900_032);
    assert!(extents.iter().enumerate().all(|(seed, extent)| holds(extent.as_slice(), seed as u64)));
    // Freed space can be used again.
    extents.pop();
    let mut again = slab.allocate(900_000).unwrap();
    fill(again.as_mut_slice().unwrap(), 77);
    drop((extents, again));
    assert_eq!(slab.usage().used, 0);
    slab.trim(0);
    assert_eq!(slab.usage(), Slab::new(SlabOptions::default()).usage());
    assert_eq!(slab.allocate(3 << 20).unwrap().len(), 3 << 20);
}
