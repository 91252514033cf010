//! Manifests of durable sets: decoding arbitrary bytes terminates, also behind a valid first line, and a decoded manifest is the same after
//! it was encoded and decoded again.
//!
//! Needs `craton-store`, `crc32c` and `libfuzzer-sys`; in `fuzz/Cargo.toml`:
//! `[[bin]] name = "store_manifest"`, `path = "fuzz_targets/store_manifest.rs"`.
#![no_main]

use craton_store::durable::Manifest;
use libfuzzer_sys::fuzz_target;

fn again(bytes: &[u8]) {
    let Ok(manifest) = Manifest::decode(bytes) else { return };
    assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
}

fuzz_target!(|bytes: &[u8]| {
    again(bytes);
    let mut file = format!("craton-set 1 {} {:08x}\n", bytes.len(), crc32c::crc32c(bytes)).into_bytes();
    file.extend_from_slice(bytes);
    again(&file);
});
