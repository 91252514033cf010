//! Durable sets: folders of immutable data files, with a manifest for each version.
//!
//! A version is published in one step and stays as it is until it expires. Writers do not wait for one another: the first one to publish
//! a version wins, and the others start again from it.

mod disk;
mod folder;
mod manifest;

pub use disk::{Disk, Files};
pub use folder::{Error, Result, SetFolder, Writer};
pub use manifest::{DataFile, FORMAT, Fault, Manifest, is_plain_name};
