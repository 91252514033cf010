#![no_main]
//! Checks the nesting depth of arbitrary pickles: the check terminates, and a pickle that passes a low limit also passes a higher one.

use craton_wire::pickle::check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if check(input, 10).is_ok() {
        check(input, 1000).expect("a pickle that is less deep");
    }
});
