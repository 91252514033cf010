//! Keys as Arrow's views of 16 bytes, and their hashes.

/// A row with its hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Routed {
    pub(super) hash: u64,
    pub(super) row: u32,
}

/// The longest key that is in its view.
pub(in crate::services) const INLINE: usize = 12;

/// The view of the null key: a length of 0, followed by bits that the empty key does not have.
pub const NULL_KEY: u128 = u128::MAX << 32;

/// Keys of rows, in the layout of Arrow's binary views: a view is the length in 4 bytes, then the key itself if it has at most 12 bytes, and
/// zeros; otherwise its first 4 bytes, the number of the buffer that it is in, and its offset there. The null key is [`NULL_KEY`].
#[derive(Debug, Clone)]
pub struct Keys<'a> {
    /// The views.
    pub views: &'a [u128],
    /// The buffers of longer keys.
    pub buffers: Vec<&'a [u8]>,
}

/// The length of a key.
#[inline(always)]
pub(in crate::services) fn length(view: u128) -> usize {
    view as u32 as usize
}

/// The view of a key that is at `offset` of the buffer `buffer`.
#[must_use]
pub fn view_of(key: &[u8], buffer: u32, offset: u32) -> u128 {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
    if key.len() <= INLINE {
        bytes[4..4 + key.len()].copy_from_slice(key);
    } else {
        bytes[4..8].copy_from_slice(&key[..4]);
        bytes[8..12].copy_from_slice(&buffer.to_le_bytes());
        bytes[12..].copy_from_slice(&offset.to_le_bytes());
    }
    u128::from_le_bytes(bytes)
}

impl Keys<'_> {
    /// The bytes of a key that is not in its view.
    #[inline(always)]
    pub(in crate::services) fn long(&self, view: u128) -> &[u8] {
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
        &self.buffers[buffer][offset..offset + length(view)]
    }

    /// The hash of a key.
    #[inline(always)]
    pub(in crate::services) fn hash(&self, view: u128) -> u64 {
        if length(view) <= INLINE { hash_inline(view) } else { hash_long(self.long(view)) }
    }
}

const SEEDS: [u64; 4] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
pub(super) fn hash_inline(view: u128) -> u64 {
    fold(fold(view as u64 ^ SEEDS[0], (view >> 64) as u64 ^ SEEDS[1]) ^ SEEDS[2], SEEDS[3])
}

/// The hash of more than 12 bytes.
pub(super) fn hash_long(key: &[u8]) -> u64 {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&key[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let mut hash = SEEDS[0] ^ key.len() as u64;
    let mut at = 0;
    while key.len() - at > 16 {
        hash = fold(word(at) ^ hash, word(at + 8) ^ SEEDS[1]);
        at += 16;
    }
    // The last 9 to 16 bytes; for a shorter rest, together with bytes before it.
    let last = key.len() - 8;
    hash = fold(word(at.min(last)) ^ hash, word(last) ^ SEEDS[1]);
    fold(hash ^ SEEDS[2], SEEDS[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_similar_keys_differ_in_all_parts() {
        let mut seen = [vec![0u32; 1 << 12], vec![0u32; 1 << 12], vec![0u32; 1 << 12]];
        for number in 0..1u32 << 16 {
            for text in [format!("{number}"), format!("a key of more than twelve bytes {number}")] {
                let bytes = text.as_bytes();
                let keys = Keys { views: &[], buffers: vec![bytes] };
                let hash = keys.hash(view_of(bytes, 0, 0));
                for (part, counts) in seen.iter_mut().enumerate() {
                    counts[(hash >> (26 * part)) as usize & 0xfff] += 1;
                }
            }
        }
        // 32 are expected in each class, with a standard deviation of 5.7.
        assert!(
            seen.iter().flatten().all(|count| (4..75).contains(count)),
            "{:?}",
            seen.map(|part| part.into_iter().max())
        );
    }

    #[test]
    fn every_byte_of_a_long_key_counts() {
        for length in 13..70usize {
            let key: Vec<u8> = (0..length as u8).collect();
            for place in 0..length {
                let mut other = key.clone();
                other[place] ^= 1;
                assert_ne!(hash_long(&key), hash_long(&other), "{place} of {length}");
            }
        }
        assert_ne!(hash_inline(view_of(b"", 0, 0)), hash_inline(NULL_KEY));
    }
}
