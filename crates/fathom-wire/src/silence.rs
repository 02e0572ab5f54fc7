//! The silence that a question is about, and which of its pauses a reflector tells then. Between the silence and the
//! question other pauses may lie: a death is asked about when the path is back.

use std::collections::VecDeque;

/// In a question's number: a silence stands in it...
const FLAG: u64 = 1 << 62;
/// ...as two times of so many bits, above the ordinal's 16.
const BITS: u32 = 23;
const ORDINAL_BITS: u32 = 16;
/// Pauses that a reflector remembers.
const REMEMBERED: usize = 16;
/// What is read within this after a pause may have waited for its end: the threads of a process wake one after another.
pub const WAKING_NS: u64 = 100_000_000;
/// A pause this long is told to whoever asks who a reflector is: it may have been a stall of its own.
const LONG_PAUSE_NS: u64 = 200_000_000;

/// A silence, told as how long ago it began and ended, in ms, so that no clock is compared with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    from_ago_ms: u32,
    to_ago_ms: u32,
}

impl Silence {
    /// One between two times of the clock that says `now_ns`. `None`: it began more than two hours ago.
    pub fn between(from_ns: u64, to_ns: u64, now_ns: u64) -> Option<Self> {
        let ago_ms = |at_ns: u64| now_ns.saturating_sub(at_ns) / 1_000_000;
        let told = |ms: u64| u32::try_from(ms).ok().filter(|ms| *ms < 1 << BITS);
        Some(Self { from_ago_ms: told(ago_ms(from_ns) + 1)?, to_ago_ms: told(ago_ms(to_ns))? })
    }

    /// The number of a question about it. Ordinals that are 65,536 apart are one.
    pub fn number(self, ordinal: u64) -> u64 {
        let spans = (u64::from(self.from_ago_ms) << BITS) | u64::from(self.to_ago_ms);
        FLAG | (spans << ORDINAL_BITS) | (ordinal % (1 << ORDINAL_BITS))
    }

    /// Start and end, by the clock of `now_ns`.
    pub fn span(self, now_ns: u64) -> (u64, u64) {
        let before = |ago_ms: u32| now_ns.saturating_sub(u64::from(ago_ms) * 1_000_000);
        (before(self.from_ago_ms), before(self.to_ago_ms))
    }

    /// The silence in a question's number, if one stands in it.
    pub fn in_number(number: u64) -> Option<Self> {
        let part = |shift: u32| (number >> shift) as u32 % (1 << BITS);
        let silence = Self { from_ago_ms: part(ORDINAL_BITS + BITS), to_ago_ms: part(ORDINAL_BITS) };
        (number & FLAG != 0).then_some(silence)
    }
}

/// A reflector's latest long pauses, by its own clock.
#[derive(Debug, Clone, Default)]
pub struct LongPauses {
    /// From and to, the latest last.
    latest: VecDeque<(u64, u64)>,
}

impl LongPauses {
    /// It did not run between these times, which take in what was added of them before. A time that is not long is not kept.
    pub fn add(&mut self, began_ns: u64, ended_ns: u64) {
        if ended_ns.saturating_sub(began_ns) < LONG_PAUSE_NS {
            return;
        }
        self.latest.retain(|pause| pause.1 <= began_ns || ended_ns <= pause.0);
        // Of a pause that is told in pieces the first may come last.
        let at = self.latest.partition_point(|pause| pause.1 <= began_ns);
        self.latest.insert(at, (began_ns, ended_ns));
        if self.latest.len() > REMEMBERED {
            self.latest.pop_front();
        }
    }

    /// What to tell at `now_ns`: of those in the silence asked about the one that covers most of it; where none is asked
    /// about, the latest. How many ms ago it ended, and how many it lasted.
    pub fn told(&self, now_ns: u64, silence: Option<Silence>) -> Option<(u32, u32)> {
        let (began, ended) = match silence {
            Some(silence) => {
                let (from, to) = silence.span(now_ns);
                let covers =
                    |(began, ended): &(u64, u64)| (*ended).min(to).saturating_sub((*began).max(from));
                *self.latest.iter().filter(|pause| covers(pause) > 0).max_by_key(|pause| covers(pause))?
            }
            None => *self.latest.back()?,
        };
        // The largest number stands for nothing known.
        let ms = |ns: u64| u32::try_from(ns / 1_000_000).unwrap_or(u32::MAX).min(u32::MAX - 1);
        Some((ms(now_ns.saturating_sub(ended)), ms(ended.saturating_sub(began))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn pause_inside_the_silence_is_chosen() {
        let mut pauses = LongPauses::default();
        pauses.add(10 * S, 13 * S);
        pauses.add(20 * S, 27 * S);
        let asked = |from: u64, to: u64| pauses.told(30 * S, Silence::between(from * S, to * S, 30 * S));
        assert_eq!(asked(9, 14), Some((17_000, 3_000)));
        assert_eq!(asked(19, 28), Some((3_000, 7_000)));
        // In both: what covers more of it.
        assert_eq!(asked(11, 21), Some((17_000, 3_000)));
        assert_eq!(asked(12, 30), Some((3_000, 7_000)));
        assert_eq!(asked(14, 19), None, "it ran then");
        assert_eq!(pauses.told(30 * S, None), Some((3_000, 7_000)), "an older probe asks about none");
        assert_eq!(LongPauses::default().told(30 * S, None), None);
        pauses.add(15 * S, 20 * S);
        assert_eq!(pauses.told(30 * S, None), Some((3_000, 7_000)), "told late, it is no later one");
        pauses.add(15 * S, 27 * S);
        assert_eq!(pauses.told(30 * S, None), Some((3_000, 12_000)));
        assert_eq!(pauses.latest.len(), 2);
    }

    #[test]
    fn only_the_latest_are_remembered() {
        let mut pauses = LongPauses::default();
        for n in 0..=REMEMBERED as u64 {
            pauses.add((10 * n + 1) * S, (10 * n + 2) * S);
        }
        let now = 1_000 * S;
        let asked = |from: u64| pauses.told(now, Silence::between(from * S, (from + 3) * S, now));
        assert_eq!(asked(0), None);
        assert_eq!(asked(10), Some((988_000, 1_000)));
        assert_eq!(pauses.latest.len(), REMEMBERED);
    }

    proptest! {
        #[test]
        fn a_number_bears_its_silence(from in 0u64..10_000 * S, lasted in 0u64..1_000 * S, ordinal: u64) {
            let now = 20_000 * S;
            match Silence::between(from, from + lasted, now) {
                // It fits beside the bit that asks who answers.
                Some(silence) => {
                    let number = silence.number(ordinal);
                    prop_assert_eq!(number >> 63, 0);
                    prop_assert_eq!(Silence::in_number(number), Some(silence));
                    prop_assert_eq!(number % 65_536, ordinal % 65_536);
                }
                None => prop_assert!(now - from > 2 * 3_600 * S),
            }
            prop_assert_eq!(Silence::in_number(ordinal % (1 << 62)), None);
        }
    }
}
