//! `craton._native`: the Python bindings of the workspace's pure crates.
//!
//! This is the only crate that depends on Python. It converts arguments, releases the interpreter lock during long
//! operations, and maps errors. Everything else belongs in a pure crate.

mod adopt;
mod arrow;
mod comm;
mod copy;
mod durable;
mod errors;
mod hash_keys;
mod hash_table;
mod hash_values;
mod interrupts;
mod join;
mod kmeans;
mod memory;
mod objects;
mod page;
mod place;
mod rows;
mod schedule;
mod shuffle;
mod shuffle_append;
mod shuffle_collect;
mod shuffle_rows;
mod shuffle_writer;
mod store;
mod sums;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// From this many bytes on, the interpreter lock is released; for fewer, hashing takes less time than releasing it.
const DETACH_FROM: usize = 1 << 16;

/// Return the 128-bit content hash of `data` as 16 bytes; see the stub for the contract.
#[pyfunction]
#[pyo3(text_signature = "(data, /)", signature = (data, /))]
fn content_hash<'py>(py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let Ok(bytes) = data.cast::<PyBytes>() else {
        let given = data.get_type().qualname()?;
        return Err(PyTypeError::new_err(format!(
            "content_hash() takes bytes, got {given}: encode text with .encode(), copy other buffers with bytes()"
        )));
    };
    let bytes = bytes.as_bytes();
    let hash = if bytes.len() < DETACH_FROM {
        craton_ident::content_hash(bytes)
    } else {
        py.detach(|| craton_ident::content_hash(bytes))
    };
    Ok(PyBytes::new(py, &hash))
}

/// Native parts of Craton; see `_native.pyi` for the contract of each.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(content_hash, module)?)?;
    module.add_function(wrap_pyfunction!(interrupts::interrupts_seen, module)?)?;
    module.add_function(wrap_pyfunction!(interrupts::keep_interrupt_action, module)?)?;
    module.add_function(wrap_pyfunction!(interrupts::watch_interrupts, module)?)?;
    module.add_function(wrap_pyfunction!(kmeans::kmeans_assign, module)?)?;
    module.add_function(wrap_pyfunction!(kmeans::kmeans_distances, module)?)?;
    module.add_function(wrap_pyfunction!(kmeans::kmeans_potentials, module)?)?;
    module.add_function(wrap_pyfunction!(kmeans::kmeans_summary, module)?)?;
    module.add_function(wrap_pyfunction!(rows::argsort, module)?)?;
    module.add_function(wrap_pyfunction!(rows::gather, module)?)?;
    module.add_function(wrap_pyfunction!(rows::offsets_of_texts, module)?)?;
    module.add_function(wrap_pyfunction!(rows::copy_texts, module)?)?;
    module.add_function(wrap_pyfunction!(sums::exact_aggregate, module)?)?;
    module.add_function(wrap_pyfunction!(sums::exact_means, module)?)?;
    module.add_function(wrap_pyfunction!(sums::exact_terms, module)?)?;
    module.add_class::<comm::CommEndpoint>()?;
    module.add_class::<comm::CommGroup>()?;
    module.add_class::<objects::Buffers>()?;
    module.add_function(wrap_pyfunction!(objects::array, module)?)?;
    module.add_function(wrap_pyfunction!(objects::check_pickle, module)?)?;
    module.add_function(wrap_pyfunction!(copy::copy_into, module)?)?;
    module.add_class::<rows::JoinMap>()?;
    module.add_class::<rows::Matches>()?;
    module.add_class::<schedule::TaskGraph>()?;
    module.add_class::<adopt::EncodedBatch>()?;
    module.add_function(wrap_pyfunction!(adopt::encode_batches, module)?)?;
    module.add_class::<arrow::ArrowBatches>()?;
    module.add_class::<memory::Memory>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<page::HeldPages>()?;
    module.add_function(wrap_pyfunction!(page::hold_pages, module)?)?;
    module.add_function(wrap_pyfunction!(page::forget_held_pages, module)?)?;
    module.add_class::<page::Page>()?;
    module.add_class::<page::PageInfo>()?;
    module.add_class::<store::handles::Reader>()?;
    module.add_class::<store::handles::HeldReservation>()?;
    module.add_class::<store::handles::SetUse>()?;
    module.add("CorruptPage", module.py().get_type::<errors::CorruptPage>())?;
    module.add_class::<durable::DurableFolder>()?;
    module.add_class::<durable::DurableWriter>()?;
    module.add("SetConflict", module.py().get_type::<errors::SetConflict>())?;
    module.add("CorruptSet", module.py().get_type::<errors::CorruptSet>())?;
    module.add_function(wrap_pyfunction!(durable::checksum, module)?)?;
    module.add_function(wrap_pyfunction!(durable::file_checksum, module)?)?;
    module.add_function(wrap_pyfunction!(store::verify_page_file, module)?)?;
    module.add_function(wrap_pyfunction!(store::remove_dead_stores, module)?)?;
    module.add_function(wrap_pyfunction!(shuffle::hash_rows, module)?)?;
    module.add_function(wrap_pyfunction!(shuffle::distinct_sketches, module)?)?;
    module.add_function(wrap_pyfunction!(shuffle::text_statistics, module)?)?;
    module.add_function(wrap_pyfunction!(shuffle::partition, module)?)?;
    module.add_function(wrap_pyfunction!(shuffle::partition_by_ranges, module)?)?;
    module.add_function(wrap_pyfunction!(shuffle::partition_by_numbers, module)?)?;
    module.add_class::<shuffle::Hashes>()?;
    module.add_class::<shuffle::Partition>()?;
    module.add_class::<shuffle_writer::ShuffleWriter>()?;
    module.add_class::<hash_table::HashTable>()?;
    module.add_class::<hash_table::TableGroups>()?;
    module.add_class::<join::table::JoinTable>()?;
    module.add_function(wrap_pyfunction!(join::table::build_join_index, module)?)?;
    module.add_function(wrap_pyfunction!(join::table::key_columns, module)?)?;
    Ok(())
}
