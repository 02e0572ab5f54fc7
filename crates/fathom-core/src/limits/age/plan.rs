//! When busy connections begin, and how often each is spoken on.

use super::super::plan::S;

/// Each is spoken on this often at the most, and at the least.
const OFTEN_NS: u64 = S / 4;
const RARELY_NS: u64 = 5 * S;
/// Beside what it takes to notice deaths, those of one moment are so far apart.
const AT_ONCE_NS: u64 = S / 2;

/// The times of a search.
#[expect(clippy::struct_field_names, reason = "all of them are times, and say so")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// Between two requests on a connection: a six hundredth of the highest age, so that an age of a tenth of it is known to
    /// 2 %.
    pub(super) every_ns: u64,
    /// Deaths that are this near to each other are of one moment.
    pub(super) moment_ns: u64,
    /// From one beginning to the next, on the average.
    apart_ns: u64,
}

impl Pace {
    pub(super) fn of(up_to_ns: u64) -> Self {
        let every_ns = (up_to_ns / 600).clamp(OFTEN_NS, RARELY_NS);
        let moment_ns = 2 * every_ns + AT_ONCE_NS;
        Self { every_ns, moment_ns, apart_ns: (2 * moment_ns).max(up_to_ns / 120) }
    }

    /// From the beginning before to this one: half of the average to one and a half of it, by chance. Connections that begin
    /// at even distances would be of one age also where each new one puts the oldest out of a table that is full.
    pub(super) fn apart_ns(self, seed: u32, ordinal: u64) -> u64 {
        self.apart_ns / 2 + mixed(u64::from(seed) << 32 | ordinal) % self.apart_ns
    }
}

/// Numbers without a pattern (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: the
/// finalizer of `SplitMix`).
fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_gaps_vary_above_a_minimum() {
        for up_to_s in [1, 12, 600, 43_200] {
            let pace = Pace::of(up_to_s * S);
            let apart: Vec<u64> = (0..200).map(|n| pace.apart_ns(7, n)).collect();
            assert!(apart.iter().all(|ns| *ns >= pace.moment_ns), "{pace:?}");
            let mean = apart.iter().sum::<u64>() / 200;
            assert!(mean.abs_diff(pace.apart_ns) < pace.apart_ns / 8, "{mean} {pace:?}");
            let (least, most) = (apart.iter().min().expect("some"), apart.iter().max().expect("some"));
            assert!(*most - *least > pace.apart_ns * 9 / 10, "{least} {most} {pace:?}");
        }
    }
}
