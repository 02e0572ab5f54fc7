//! The keyed filler of a message: bytes that a third party's echo, a repeated echo or a damaged one cannot
//! match by chance.
//!
//! The pattern is SplitMix64 in counter mode (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
//! Generators", OOPSLA 2014), so that any part of a long message can be made or checked without the rest.

/// The finalising function of SplitMix64.
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

fn word(seed: u64, index: u64) -> [u8; 8] {
    mix(seed.wrapping_add(GOLDEN_GAMMA.wrapping_mul(index.wrapping_add(1)))).to_be_bytes()
}

/// Writes the pattern's bytes `offset..offset + out.len()` into `out`.
pub fn fill(seed: u64, offset: u64, out: &mut [u8]) {
    each_run(seed, offset, out.len(), |at, bytes| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        true
    });
}

/// Whether `bytes` are the pattern's bytes from `offset` on.
pub fn matches(seed: u64, offset: u64, bytes: &[u8]) -> bool {
    each_run(seed, offset, bytes.len(), |at, expected| bytes[at..at + expected.len()] == *expected)
}

/// Walks the pattern in runs of up to eight bytes; stops, and says false, where `visit` does.
fn each_run(seed: u64, offset: u64, len: usize, mut visit: impl FnMut(usize, &[u8]) -> bool) -> bool {
    let mut at = 0;
    while at < len {
        let position = offset + at as u64;
        let word = word(seed, position / 8);
        let start = (position % 8) as usize;
        let run = (8 - start).min(len - at);
        if !visit(at, &word[start..start + run]) {
            return false;
        }
        at += run;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_splitmix64() {
        // The first outputs for seed 1234567, as published with the reference implementation.
        let expected = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973];
        assert_eq!([0, 1].map(|i| u64::from_be_bytes(word(1_234_567, i))), expected);
    }

    proptest! {
        #[test]
        fn any_part_equals_the_whole(seed: u64, len in 0usize..200, cut in 0usize..200) {
            let mut whole = vec![0; len];
            fill(seed, 7, &mut whole);
            let cut = cut.min(len);
            let mut tail = vec![0; len - cut];
            fill(seed, 7 + cut as u64, &mut tail);
            prop_assert_eq!(&whole[cut..], &tail[..]);
            prop_assert!(matches(seed, 7, &whole));
        }

        #[test]
        fn one_flipped_bit_is_seen(seed: u64, len in 1usize..200, bit: usize) {
            let mut bytes = vec![0; len];
            fill(seed, 0, &mut bytes);
            let bit = bit % (len * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!matches(seed, 0, &bytes));
        }
    }
}
