//! Messages between a store's server and its clients: decoding arbitrary bytes terminates, and a decoded message is the same after it
//! was encoded and decoded again.
//!
//! Needs `craton-store`, `libfuzzer-sys` and `serde`; in `fuzz/Cargo.toml`:
//! `[[bin]] name = "store_protocol"`, `path = "fuzz_targets/store_protocol.rs"`.
#![no_main]

use craton_store::remote::protocol::{Answer, Call, HEADER, Hello, MOST, Welcome, decode, encode, frame_length};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

// Decode a value, then encode, decode and encode it. The two encodings must be equal. They may differ from the input, because postcard
// also reads encodings of numbers that it does not write.
fn again<T: DeserializeOwned + Serialize>(bytes: &[u8]) {
    let Ok(value) = decode::<T>(bytes) else { return };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    encode(&value, &mut first, MOST).expect("no longer than what was read");
    let value = decode::<T>(&first[HEADER..]).expect("what was written is read");
    encode(&value, &mut second, MOST).expect("as before");
    assert_eq!(first, second);
}

fuzz_target!(|bytes: &[u8]| {
    if let Some((header, _)) = bytes.split_first_chunk::<HEADER>() {
        let _ = frame_length(*header, MOST);
    }
    again::<Hello>(bytes);
    again::<Welcome>(bytes);
    again::<Call>(bytes);
    again::<Answer>(bytes);
});
