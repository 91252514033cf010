//! Join maps: their keys, and the class that probes them.

mod keys;
pub mod table;
