//! Manifests: the files and the description of one version of a durable set, with a checksum.
//!
//! The first line is `craton-set FORMAT LENGTH CHECKSUM`; after it comes the body, a JSON object of LENGTH bytes, whose CRC-32C is CHECKSUM
//! in hexadecimal.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The format that this version writes; it reads this one and older ones.
pub const FORMAT: u32 = 1;
/// The most bytes of a manifest.
pub const MOST_BYTES: usize = 1 << 30;

const MAGIC: &str = "craton-set";

/// A file with rows of a set. It never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataFile {
    /// Its name in the folder of data.
    pub name: String,
    /// Its number of rows.
    pub rows: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The CRC-32C of its contents.
    pub checksum: u32,
    /// What else is known of it, such as statistics of its columns.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub about: Map<String, Value>,
}

/// One version of a set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Its number, from 1.
    pub version: u64,
    /// When it was made, in milliseconds since 1970; the clock may have jumped since the version before.
    pub time: i64,
    /// The files, in the order of their rows.
    pub files: Vec<DataFile>,
    /// What else is known of the version: its schema, its partitioning, what made it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub about: Map<String, Value>,
}

/// Why bytes are no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// They are not one of ours.
    #[error("it is not the manifest of a set")]
    Foreign,
    /// A later version of Craton wrote them.
    #[error("it has format {0}, and this version of Craton reads formats up to {FORMAT}")]
    Newer(u32),
    /// They differ from what was written.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

impl Manifest {
    /// The bytes of the file.
    ///
    /// # Panics
    /// Never: every manifest can be written as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("a manifest is JSON");
        let mut bytes = format!("{MAGIC} {FORMAT} {} {:08x}\n", body.len(), crc32c::crc32c(&body)).into_bytes();
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Read the bytes of a file.
    ///
    /// # Errors
    /// [`Fault`] if they are not exactly what [`Manifest::encode`] returned.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let damaged = |why: &str| Fault::Damaged(why.to_owned());
        let end = bytes.iter().take(80).position(|&byte| byte == b'\n').ok_or(Fault::Foreign)?;
        let line = std::str::from_utf8(&bytes[..end]).map_err(|_| Fault::Foreign)?;
        let words: Vec<&str> = line.split(' ').collect();
        let [MAGIC, format, length, checksum] = words[..] else { return Err(Fault::Foreign) };
        let format: u32 = format.parse().map_err(|_| Fault::Foreign)?;
        if format > FORMAT {
            return Err(Fault::Newer(format));
        }
        if format == 0 {
            return Err(damaged("there is no format 0"));
        }
        let body = &bytes[end + 1..];
        if length.parse::<usize>().ok() != Some(body.len()) || body.len() > MOST_BYTES {
            return Err(damaged(&format!("it has {} bytes, and should have {length}", body.len())));
        }
        if format!("{:08x}", crc32c::crc32c(body)) != checksum {
            return Err(damaged("its checksum differs"));
        }
        let manifest: Self = serde_json::from_slice(body).map_err(|error| damaged(&error.to_string()))?;
        match manifest.files.iter().find(|file| !is_plain_name(&file.name)) {
            Some(file) => Err(damaged(&format!("it names a file {:?}", file.name))),
            None => Ok(manifest),
        }
    }
}

/// Whether a name is that of a file in the same folder, which is not hidden.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        let file = DataFile { name: "a.arrow".into(), rows: 3, bytes: 100, checksum: 7, about: Map::new() };
        let about = Map::from_iter([("schema".to_owned(), Value::from("int64"))]);
        Manifest { version: 2, time: -5, files: vec![file], about }
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(Manifest::decode(&example().encode()), Ok(example()));
        let empty = Manifest { version: 1, time: 0, files: vec![], about: Map::new() };
        assert_eq!(Manifest::decode(&empty.encode()), Ok(empty));
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let bytes = example().encode();
        for at in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..at]).is_err());
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(Manifest::decode(&changed).is_err(), "byte {at}, bit {bit}");
            }
        }
        let mut longer = bytes.clone();
        longer.push(b' ');
        assert!(matches!(Manifest::decode(&longer), Err(Fault::Damaged(_))));
    }

    #[test]
    fn foreign_and_newer_manifests_are_told_apart() {
        assert_eq!(Manifest::decode(b""), Err(Fault::Foreign));
        assert_eq!(Manifest::decode(b"{\"version\": 1}\n"), Err(Fault::Foreign));
        assert_eq!(Manifest::decode(b"craton-set 2 0 00000000\n"), Err(Fault::Newer(2)));
    }

    #[test]
    fn files_outside_of_the_folder_are_refused() {
        for name in ["", "..", "../x", "/etc/passwd", "a/b", ".hidden", "a\0b"] {
            let mut manifest = example();
            manifest.files[0].name = name.into();
            assert!(matches!(Manifest::decode(&manifest.encode()), Err(Fault::Damaged(_))), "{name:?}");
        }
    }
}
