#![no_main]
//! Pickles by anybody: looking into them ends, and a limit only ever refuses more.

use craton_wire::pickle::check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if check(input, 10).is_ok() {
        check(input, 1000).expect("a pickle that is less deep");
    }
});
