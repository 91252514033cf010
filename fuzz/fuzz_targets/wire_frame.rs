#![no_main]
//! Parses arbitrary bytes as a stream of frames, and as a message.

use craton_wire::frame::{self, PREFIX, Parsed};
use craton_wire::message::Message;

const CAP: usize = 1 << 16;

fn check(input: &[u8]) {
    let whole = frame::read(&mut &input[..], CAP);
    match frame::parse(input, CAP) {
        Ok(Parsed::Frame { kind, payload, length }) => {
            assert_eq!(whole.expect("a whole frame"), Some((kind, payload.to_vec())));
            let mut written = Vec::new();
            frame::write(&mut written, kind, &[payload]).expect("writing to memory");
            assert_eq!(written, &input[..length]);
            message(payload);
        }
        Ok(Parsed::NeedMore(more)) => {
            assert!(more > 0);
            assert!(!matches!(whole, Ok(Some(_))));
        }
        Err(_) => assert!(whole.is_err()),
    }
}

fn message(bytes: &[u8]) {
    if let Ok(message) = Message::from_bytes(bytes) {
        assert_eq!(message.to_bytes().expect("a message that was read"), bytes);
    }
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check(input);
    message(input);
    // Repeat with correct checksums, because a fuzzer practically never generates them.
    let mut bytes = input.to_vec();
    if bytes.len() >= 12 {
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        message(&bytes);
    }
    if let Some(payload) = input.get(PREFIX..) {
        let mut bytes = input.to_vec();
        bytes[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), payload);
        bytes[16..20].copy_from_slice(&crc.to_le_bytes());
        check(&bytes);
    }
});
