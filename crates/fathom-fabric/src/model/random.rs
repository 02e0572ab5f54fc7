//! Streams of random numbers that do not disturb each other.

use rand_pcg::Pcg64;

/// FNV-1a (Fowler, Noll, Vo), 64 bits: stable between versions and machines, which std's hashers do not promise.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The stream of a name under a seed. What else there is in the world does not matter to it: another leg or middlebox
/// leaves everybody else's numbers as they were.
pub fn stream(seed: u64, name: &str) -> Pcg64 {
    let hash = fnv(name.bytes());
    let state =
        (u128::from(mix(seed ^ hash)) << 64) | u128::from(mix(seed.wrapping_add(hash.rotate_left(32))));
    let sequence = (u128::from(mix(hash)) << 64) | u128::from(mix(!hash));
    Pcg64::new(state, sequence)
}
