//! Helpers shared by the tests.
#![allow(dead_code)]

use craton_slab::{Backing, SlabOptions};

/// Every backing that this system supports.
pub fn backings() -> Vec<Backing> {
    let mut all = vec![Backing::default()];
    let file = Backing::File(std::env::temp_dir());
    if all[0] != file {
        all.push(file);
    }
    all
}

pub fn is_file(backing: &Backing) -> bool {
    matches!(backing, Backing::File(_))
}

pub fn options(backing: &Backing) -> SlabOptions {
    SlabOptions { backing: backing.clone(), ..SlabOptions::default() }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A random length: mostly small, sometimes large, 0, or next to a multiple of the unit.
    pub fn length(&mut self, most_bits: u32) -> usize {
        match self.below(8) {
            0 => 0,
            1 => 64 * self.below(64),
            _ => {
                let bits = self.below(most_bits as usize) as u32;
                self.below(1 << bits) + 1
            }
        }
    }
}

pub fn fill(bytes: &mut [u8], seed: u64) {
    for (at, chunk) in bytes.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&(seed ^ at as u64).to_le_bytes()[..chunk.len()]);
    }
}

pub fn holds(bytes: &[u8], seed: u64) -> bool {
    bytes.chunks(8).enumerate().all(|(at, chunk)| chunk == &(seed ^ at as u64).to_le_bytes()[..chunk.len()])
}
