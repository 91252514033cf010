//! Identity: the 128-bit content hash by which plans and data are known.
//!
//! All processes on all machines must compute the same hash of the same plan, so that one can find a result that
//! another computed. Python's own `hash` is salted per process and only 64 bits wide. The hash here is XXH3 with
//! 128 bits, without a seed or a secret: fast enough to hash whole buffers, and wide enough that accidental
//! collisions need not be handled.
//!
//! It is *not* cryptographic: an attacker who can choose the input can make two inputs collide. Do not use it to
//! guard against an adversary.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Length in bytes of a [`ContentHash`].
pub const LENGTH: usize = 16;

/// A content hash: the XXH3-128 value as 16 bytes, least significant byte first.
///
/// The byte order is part of the format and does not depend on the machine. xxHash's own command line tool prints
/// the most significant byte first, that is, these bytes reversed.
pub type ContentHash = [u8; LENGTH];

/// Hash contiguous bytes.
///
/// # Guarantees
///
/// The result depends on the bytes alone: not on the process, the platform, the pointer's alignment or the
/// version of this crate. A change of the algorithm would invalidate every stored hash.
///
/// ```
/// let name = craton_ident::content_hash(b"craton");
/// assert_eq!(name, craton_ident::content_hash(&"craton".to_owned().into_bytes()));
/// assert_ne!(name, craton_ident::content_hash(b"Craton"));
/// ```
#[must_use]
pub fn content_hash(data: &[u8]) -> ContentHash {
    xxh3_128(data).to_le_bytes()
}

/// Hashes bytes that arrive in pieces; the result is that of the joined bytes.
///
/// ```
/// let mut hasher = craton_ident::ContentHasher::new();
/// hasher.update(b"cra");
/// hasher.update(b"ton");
/// assert_eq!(hasher.finish(), craton_ident::content_hash(b"craton"));
/// ```
#[derive(Clone, Default)]
pub struct ContentHasher {
    state: Xxh3,
}

impl ContentHasher {
    /// A hasher of no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Append `data` to the hashed bytes.
    pub fn update(&mut self, data: &[u8]) {
        self.state.update(data);
    }

    /// The hash of all bytes so far; more may be appended.
    #[must_use]
    pub fn finish(&self) -> ContentHash {
        self.state.digest128().to_le_bytes()
    }
}

impl std::fmt::Debug for ContentHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContentHasher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentHasher, content_hash};

    /// The buffer of xxHash's own sanity checks: bytes of a 64-bit multiplicative generator.
    fn sanity_buffer(length: usize) -> Vec<u8> {
        const PRIME32: u64 = 2_654_435_761;
        const PRIME64: u64 = 11_400_714_785_074_694_797;
        let mut generator = PRIME32;
        (0..length)
            .map(|_| {
                let byte = (generator >> 56) as u8;
                generator = generator.wrapping_mul(PRIME64);
                byte
            })
            .collect()
    }

    fn joined(low64: u64, high64: u64) -> [u8; 16] {
        ((u128::from(high64) << 64) | u128::from(low64)).to_le_bytes()
    }

    /// Computed with the reference implementation (xxHash 0.8.4, seed 0); one for each of its branches by length.
    #[test]
    fn known_vectors() {
        let vectors = [
            (0, 0x6001_C324_468D_497F, 0x99AA_06D3_0147_98D8),
            (1, 0xC44B_DFF4_074E_ECDB, 0xA6CD_5E93_9200_0F6A),
            (6, 0x3E70_39BD_DA43_CFC6, 0x082A_FE0B_8162_D12A),
            (12, 0x061A_1927_13F6_9AD9, 0x6E3E_FD8F_C780_2B18),
            (24, 0x1E70_44D2_8B1B_901D, 0x0CE9_66E4_678D_3761),
            (48, 0xF942_219A_ED80_F67B, 0xA002_AC4E_5478_227E),
            (81, 0x5E8B_AFB9_F95F_B803, 0x4952_F581_81AB_0042),
            (222, 0xF1AE_BD59_7CEC_6B3A, 0x337E_0964_1B94_8717),
            (403, 0xCDEB_804D_65C6_DEA4, 0x1B6D_E21E_332D_D73D),
            (512, 0x617E_4959_9013_CB6B, 0x18D2_D110_DCC9_BCA1),
            (2048, 0xDD59_E2C3_A5F0_38E0, 0xF736_557F_D470_73A5),
            (4096, 0xE912_0642_9D1F_48F9, 0xB9CF_AEA2_CA56_26A4),
        ];
        let buffer = sanity_buffer(4096);
        for (length, low, high) in vectors {
            assert_eq!(content_hash(&buffer[..length]), joined(low, high), "length {length}");
        }
    }

    #[test]
    fn pieces_equal_the_whole_at_every_cut() {
        let buffer = sanity_buffer(600);
        let whole = content_hash(&buffer);
        for cut in 0..=buffer.len() {
            let mut hasher = ContentHasher::new();
            hasher.update(&buffer[..cut]);
            hasher.update(&buffer[cut..]);
            assert_eq!(hasher.finish(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn alignment_does_not_matter() {
        let buffer = sanity_buffer(1024);
        let expected = content_hash(&buffer);
        for shift in 1..16 {
            let mut shifted = vec![0; shift];
            shifted.extend_from_slice(&buffer);
            assert_eq!(content_hash(&shifted[shift..]), expected, "shift {shift}");
        }
    }

    #[test]
    fn every_prefix_has_its_own_hash() {
        let buffer = vec![0_u8; 2048];
        let names: std::collections::HashSet<_> = (0..=buffer.len()).map(|n| content_hash(&buffer[..n])).collect();
        assert_eq!(names.len(), buffer.len() + 1);
    }
}
