#![no_main]
//! Decodes arbitrary headers and buffers as pickled objects.

use craton_wire::object::{decode_object, encode_object};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((header, buffers)) = craton_fuzz::page(input) else { return };
    let Ok(object) = decode_object(&header, &buffers) else { return };
    let rows: Vec<_> = object.buffers().map(|parts| parts[0].clone()).collect();
    let again = encode_object(object.meta.clone(), rows.clone()).expect("an object that was decoded");
    let again = decode_object(&again.header, &again.buffers).expect("an object that was encoded");
    assert_eq!(again.meta, object.meta);
    assert_eq!(again.rows(), rows);
});
