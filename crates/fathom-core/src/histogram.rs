//! The log-linear histogram: the one mergeable aggregate of the project.
//!
//! Below 2,048 ns a bucket is the value itself; above, 2,048 buckets an octave, so that a bucket is narrower than
//! 0.05 % of its value. 2^42 ns (73 minutes) fills the last bucket of a `u16`; longer values are counted there.
//! The idea is HdrHistogram's (Tene); the bucket numbers are part of the recording format, so they are ours to keep.

/// Number of buckets: every value of `u16`.
pub const BUCKETS: usize = 1 << 16;
const SUB_BUCKETS: u64 = 2_048;
const SUB_BITS: u32 = 11;
/// The largest value with a bucket of its own, in ns.
pub const MAX_NS: u64 = (1 << 42) - 1;

/// The bucket of a value in ns; negative values (which no round trip has) count as 0.
pub fn bucket_of(value_ns: i64) -> u16 {
    let value = (value_ns.max(0) as u64).min(MAX_NS);
    if value < SUB_BUCKETS {
        return value as u16;
    }
    let octave = u64::from(value.ilog2() - SUB_BITS);
    (SUB_BUCKETS * octave + (value >> octave)) as u16
}

/// The smallest value of a bucket, in ns, and how many values it holds.
pub fn bucket_range(bucket: u16) -> (u64, u64) {
    let bucket = u64::from(bucket);
    if bucket < SUB_BUCKETS {
        return (bucket, 1);
    }
    let octave = (bucket - SUB_BUCKETS) / SUB_BUCKETS;
    ((bucket - SUB_BUCKETS * octave) << octave, 1 << octave)
}

/// Counts by bucket, with exact count, extremes and moments.
///
/// The counts are a sparse table of pages, so that a run whose values are alike stays small.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    pages: Vec<Option<Box<[u64; PAGE]>>>,
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    sum_of_squares: u128,
}

const PAGE: usize = 256;

impl Histogram {
    /// Adds one value in ns.
    pub fn record(&mut self, value_ns: i64) {
        self.add(bucket_of(value_ns), value_ns.max(0) as u64, 1);
    }

    fn add(&mut self, bucket: u16, value: u64, times: u64) {
        let bucket = usize::from(bucket);
        if self.pages.is_empty() {
            self.pages.resize_with(BUCKETS / PAGE, || None);
        }
        self.pages[bucket / PAGE].get_or_insert_with(|| Box::new([0; PAGE]))[bucket % PAGE] += times;
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.sum_of_squares += u128::from(value) * u128::from(value) * u128::from(times);
    }

    /// Adds all of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.pages.resize_with(BUCKETS / PAGE, || None);
        for (mine, theirs) in self.pages.iter_mut().zip(&other.pages) {
            let Some(theirs) = theirs else { continue };
            let mine = mine.get_or_insert_with(|| Box::new([0; PAGE]));
            for (a, b) in mine.iter_mut().zip(theirs.iter()) {
                *a += b;
            }
        }
    }

    /// What was added since an earlier state of this histogram: count and mean exact, extremes and deviation by its
    /// buckets. Of what is no earlier state of it, all that it has more.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut only = Self::default();
        let mut before = earlier.buckets().peekable();
        for (bucket, count) in self.buckets() {
            while before.peek().is_some_and(|&(b, _)| b < bucket) {
                before.next();
            }
            let known = before.peek().filter(|&&(b, _)| b == bucket).map_or(0, |&(_, n)| n);
            let (low, width) = bucket_range(bucket);
            if count > known {
                only.add(bucket, low + (width - 1) / 2, count - known);
            }
        }
        only.sum = self.sum.saturating_sub(earlier.sum);
        only
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Smallest value, exact, in ns.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Largest value, exact, in ns.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Arithmetic mean, exact to rounding, in ns.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Sample standard deviation (n - 1), in ns; needs two values.
    pub fn stddev(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        // n·Σx² - (Σx)² in integers: no cancellation, however small the spread beside the mean.
        let n = u128::from(self.count);
        let products = n.checked_mul(self.sum_of_squares).zip(self.sum.checked_mul(self.sum));
        let numerator = products.map_or_else(
            || {
                let mean = self.sum as f64 / n as f64;
                n as f64 * (self.sum_of_squares as f64 - mean * self.sum as f64).max(0.0)
            },
            |(a, b)| (a - b) as f64,
        );
        Some((numerator / (n as f64 * (n - 1) as f64)).sqrt())
    }

    /// The value below or at which a share `q` of the values lie (nearest rank), as the middle of its bucket and
    /// never outside the exact extremes; in ns.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (bucket, count) in self.buckets() {
            seen += count;
            if seen >= rank {
                let (low, width) = bucket_range(bucket);
                return Some((low + (width - 1) / 2).clamp(self.min, self.max));
            }
        }
        Some(self.max)
    }

    /// As [`Histogram::quantile`], where the count supports it (see [`supports`]).
    pub fn supported_quantile(&self, q: f64) -> Option<u64> {
        if supports(self.count, q) { self.quantile(q) } else { None }
    }

    /// Every bucket that counts something, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.pages.iter().enumerate().flat_map(|(page, counts)| {
            counts.iter().flat_map(move |counts| {
                counts
                    .iter()
                    .enumerate()
                    .filter(|&(_, &c)| c > 0)
                    .map(move |(i, &c)| ((page * PAGE + i) as u16, c))
            })
        })
    }
}

/// Whether `count` values support a percentile: whether, with 95 % confidence, at least one of them lies beyond it
/// (`1 - q^n >= 0.95`; Wilks, "Determination of sample sizes for setting tolerance limits", 1941). Five values
/// support a median, 59 the 95th percentile, 299 the 99th, 2,995 p99.9 and 29,956 p99.99.
pub fn supports(count: u64, q: f64) -> bool {
    q <= 0.0 || count as f64 * q.ln() <= 0.05_f64.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bucket_numbers_are_the_formats() {
        // By hand from the definition: 2,048 steps an octave above 2,048.
        for (value, bucket) in
            [(-1, 0), (0, 0), (2_047, 2_047), (2_048, 2_048), (4_095, 4_095), (4_096, 4_096), (4_098, 4_097)]
        {
            assert_eq!(bucket_of(value), bucket, "{value}");
        }
        assert_eq!(bucket_of((1 << 42) - 1), u16::MAX);
        assert_eq!(bucket_of(i64::MAX), u16::MAX);
    }

    #[test]
    fn percentiles_need_their_count() {
        for (q, needed) in [(0.5, 5), (0.95, 59), (0.99, 299), (0.999, 2_995), (0.9999, 29_956)] {
            assert!(supports(needed, q) && !supports(needed - 1, q), "{q}");
        }
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_within_its_width(value in 0i64..1 << 42) {
            let (low, width) = bucket_range(bucket_of(value));
            prop_assert!((low..low + width).contains(&(value as u64)));
            prop_assert!(width == 1 || (width as f64) / (low as f64) < 0.0005);
        }

        #[test]
        fn buckets_rise_with_values(a in 0i64..1 << 43, b in 0i64..1 << 43) {
            prop_assert!((a <= b) == (bucket_of(a) <= bucket_of(b)) || bucket_of(a) == bucket_of(b));
        }

        #[test]
        fn it_agrees_with_sorting(mut values in prop::collection::vec(0i64..10_000_000_000, 1..300), q in 0.01f64..0.9999) {
            let mut histogram = Histogram::default();
            for &v in &values { histogram.record(v); }
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1] as f64;
            let found = histogram.quantile(q).unwrap() as f64;
            prop_assert!((found - exact).abs() <= exact * 0.0005 + 0.5, "{found} {exact}");
            prop_assert_eq!(histogram.min(), Some(values[0] as u64));
            prop_assert_eq!(histogram.max(), values.last().map(|&v| v as u64));
            let n = values.len() as f64;
            let mean = values.iter().sum::<i64>() as f64 / n;
            prop_assert!((histogram.mean().unwrap() - mean).abs() <= 1e-9 * mean.max(1.0));
            if values.len() > 1 {
                let variance = values.iter().map(|&v| (v as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0);
                prop_assert!((histogram.stddev().unwrap() - variance.sqrt()).abs() <= 1e-6 * variance.sqrt() + 1e-3);
            }
        }

        #[test]
        fn merging_is_recording_both(a in prop::collection::vec(0i64..1 << 43, 0..50), b in prop::collection::vec(0i64..1 << 43, 0..50)) {
            let of = |values: &[i64]| {
                let mut h = Histogram::default();
                for &v in values { h.record(v); }
                h
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both = of(&[a, b].concat());
            prop_assert_eq!(merged.buckets().collect::<Vec<_>>(), both.buckets().collect::<Vec<_>>());
            prop_assert_eq!((merged.count(), merged.min(), merged.max()), (both.count(), both.min(), both.max()));
            prop_assert_eq!(merged.stddev(), both.stddev());
        }
    }
}
