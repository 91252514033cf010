//! Converts the options of sets from and to their Python names, and sets and counters to dictionaries.

use std::sync::Arc;

use craton_store::policy::{self, Policy};
use craton_store::{Compression, Counters, Durability, Operation, Reading, SetInfo, Writing};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

pub fn chosen<T: Copy>(what: &str, name: &str, known: &[(&str, T)]) -> PyResult<T> {
    known.iter().find(|(text, _)| *text == name).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(text, _)| *text).collect();
        PyValueError::new_err(format!("{what} is one of {names:?}, not {name:?}"))
    })
}

pub const DURABILITY: [(&str, Durability); 3] = [
    ("write-back", Durability::WriteBack),
    ("write-through", Durability::WriteThrough),
    ("discard", Durability::Discard),
];
pub const WRITING: [(&str, Writing); 3] =
    [("sequential", Writing::Sequential), ("concurrent", Writing::Concurrent), ("random", Writing::RandomMutable)];
pub const READING: [(&str, Reading); 2] = [("sequential", Reading::Sequential), ("random", Reading::Random)];
pub const COMPRESSION: [(&str, Compression); 2] = [("none", Compression::None), ("lz4", Compression::Lz4)];
pub const OPERATION: [(&str, Operation); 4] = [
    ("none", Operation::None),
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("read-write", Operation::ReadWrite),
];

pub fn name_of<T: Copy + PartialEq>(value: T, known: &[(&'static str, T)]) -> &'static str {
    known.iter().find(|(_, other)| *other == value).map_or("?", |(text, _)| text)
}

pub fn policy(name: &str) -> PyResult<Arc<dyn Policy>> {
    policy::by_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("policy is one of {:?}, not {name:?}", policy::NAMES)))
}

pub fn described<'py>(py: Python<'py>, info: &SetInfo) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("set", info.set.0)?;
    row.set_item("name", &info.options.name)?;
    row.set_item("tag", PyBytes::new(py, &info.options.tag))?;
    row.set_item("durability", name_of(info.options.durability, &DURABILITY))?;
    row.set_item("writing", name_of(info.options.writing, &WRITING))?;
    row.set_item("reading", name_of(info.options.reading, &READING))?;
    row.set_item("pinned", info.options.pinned)?;
    row.set_item("operation", name_of(info.operation, &OPERATION))?;
    row.set_item("ended", info.ended)?;
    for (name, value) in [
        ("pages", info.pages),
        ("rows", info.rows),
        ("nbytes", info.bytes),
        ("memory", info.memory),
        ("disk", info.disk),
        ("pins", info.pins),
        ("users", info.users),
        ("recency", info.recency),
        ("hits", info.hits),
        ("misses", info.misses),
    ] {
        row.set_item(name, value)?;
    }
    Ok(row)
}

pub fn counts<'py>(py: Python<'py>, counted: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    for (name, value) in [
        ("slab_used", counted.slab_used),
        ("slab_reserved", counted.slab_reserved),
        ("page_memory", counted.page_memory),
        ("page_disk", counted.page_disk),
        ("reserved", counted.reserved),
        ("limit", counted.limit),
        ("sets", counted.sets),
        ("pages", counted.pages),
        ("hits", counted.hits),
        ("misses", counted.misses),
        ("evicted_ended", counted.evicted_ended),
        ("evicted_clean", counted.evicted_clean),
        ("evicted_written", counted.evicted_written),
        ("evicted_discarded", counted.evicted_discarded),
        ("written", counted.written),
        ("read", counted.read),
        ("copied", counted.copied),
        ("shared", counted.shared),
        ("adopted", counted.adopted),
        ("clients", counted.clients),
    ] {
        row.set_item(name, value)?;
    }
    Ok(row)
}
