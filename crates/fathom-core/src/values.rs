//! What options take: single quantities are `crate::units`', lists of them and words beside them are read here.

pub use crate::units::{UnitError, bits_per_s, duration, size};

use crate::gaps::APART;
use std::time::Duration;

/// `off`, or how often something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffOr(pub Option<Duration>);

/// `off`, or the period of a clock that ticks.
pub fn off_or_period(text: &str) -> Result<OffOr, String> {
    if text == "off" {
        return Ok(OffOr(None));
    }
    match duration(text).map_err(|e| e.to_string())? {
        period if period < Duration::from_millis(1) => {
            Err("shorter than 1ms costs more than it tells; write off to have none".to_owned())
        }
        period => Ok(OffOr(Some(period))),
    }
}

/// Sizes in bytes of a sweep: ascending, each once, none of them 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

/// Silences of a plan: ascending, and apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gaps(pub Vec<Duration>);

/// A shorter silence is none: timers and the machine's idle states are of that order.
const SHORTEST_GAP: Duration = Duration::from_millis(1);

/// `1s,10s,60s`: silences, of which a recording must be able to tell one from another by its length.
pub fn gaps(text: &str) -> Result<Gaps, String> {
    let wrong = |what: String| format!("{what}; write it as in 1s,10s,60s");
    let mut all = text
        .split(',')
        .map(|part| duration(part.trim()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| wrong(e.to_string()))?;
    all.sort_unstable();
    all.dedup();
    if all[0] < SHORTEST_GAP {
        return Err(wrong(format!("{:?} is no silence; the shortest is 1ms", all[0])));
    }
    if all.len() > MOST_SIZES {
        return Err(format!("{} gaps are more than the {MOST_SIZES} of one run; name fewer", all.len()));
    }
    match all.windows(2).find(|two| two[1] < two[0].mul_f64(APART)) {
        Some(two) => Err(wrong(format!("{:?} and {:?} are too near to be told apart", two[0], two[1]))),
        None => Ok(Gaps(all)),
    }
}

/// More sizes than this in one run would leave each with too few samples to say anything.
const MOST_SIZES: usize = 32;

/// `64,1KiB,4KiB..1MiB`: sizes, and ranges that double from their beginning and have their end in any case.
pub fn sizes(text: &str) -> Result<Sizes, String> {
    let wrong = |what: &str| format!("{what}; write it as in 64,1KiB,4KiB..1MiB");
    let one = |text: &str| match size(text.trim()) {
        Ok(0) => Err(wrong("an empty message has no echo")),
        Ok(bytes) => Ok(bytes),
        Err(e) => Err(wrong(&format!("{text:?}: {e}"))),
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let Some((from, to)) = part.split_once("..") else {
            all.push(one(part)?);
            continue;
        };
        let (from, to) = (one(from)?, one(to)?);
        if from > to {
            return Err(wrong(&format!("{part}: the range ends below its beginning")));
        }
        all.extend(std::iter::successors(Some(from), |bytes| bytes.checked_mul(2)).take_while(|b| *b < to));
        all.push(to);
    }
    all.sort_unstable();
    all.dedup();
    if all.len() > MOST_SIZES {
        return Err(format!("{} sizes are more than the {MOST_SIZES} of one run; name fewer", all.len()));
    }
    Ok(Sizes(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_can_be_off() {
        assert_eq!(off_or_period("off"), Ok(OffOr(None)));
        assert_eq!(off_or_period("15ms"), Ok(OffOr(Some(Duration::from_millis(15)))));
        assert!(off_or_period("0").unwrap_err().contains("off"));
    }

    #[test]
    fn sweeps_as_people_write_them() {
        let all = |text: &str| sizes(text).map(|sizes| sizes.0);
        assert_eq!(all("64"), Ok(vec![64]));
        assert_eq!(all("64, 1KiB,4KiB..16KiB"), Ok(vec![64, 1_024, 4_096, 8_192, 16_384]));
        assert_eq!(all("1000..5000"), Ok(vec![1_000, 2_000, 4_000, 5_000]));
        assert_eq!(all("8,2..8,2"), Ok(vec![2, 4, 8]));
        for (text, part) in [
            ("", "as in"),
            ("64,", "as in"),
            ("0,64", "no echo"),
            ("0..8", "no echo"),
            ("8..4", "below its beginning"),
            ("1..2..3", "as in"),
            ("big", "as in"),
            ("1,2,3,4,5,6,7,9,10,11,12,13,14,15,16..64MiB", "name fewer"),
        ] {
            assert!(sizes(text).is_err_and(|e| e.contains(part)), "{text}: {:?}", sizes(text));
        }
    }

    #[test]
    fn silences_as_people_write_them() {
        let seconds = |text: &str| gaps(text).map(|gaps| gaps.0.iter().map(Duration::as_secs_f64).collect());
        assert_eq!(seconds("60s, 1s,10s,1s"), Ok(vec![1.0, 10.0, 60.0]));
        assert_eq!(seconds("100ms"), Ok(vec![0.1]));
        for (text, part) in [
            ("", "1s,10s,60s"),
            ("1s,", "1s,10s,60s"),
            ("0", "shortest"),
            ("5", "unit"),
            ("1s,1100ms", "told apart"),
        ] {
            assert!(gaps(text).is_err_and(|e| e.contains(part)), "{text}: {:?}", gaps(text));
        }
    }
}
