//! What no set of numbers can break: checked before a model is looked for, so that impossible figures are named.

use super::Published;

/// Why the figures cannot all be of one sample, where they cannot.
pub(super) fn check(published: &Published) -> Result<(), String> {
    let Published { min_ns, mean_ns, sd_ns, p50_ns, p95_ns, p99_ns, max_ns } = *published;
    let ordered = [("min", min_ns), ("p50", p50_ns), ("p95", p95_ns), ("p99", p99_ns), ("max", max_ns)];
    let known: Vec<(&str, u64)> = ordered.iter().filter_map(|(name, v)| v.map(|v| (*name, v))).collect();
    for pair in known.windows(2) {
        let ((lower, a), (higher, b)) = (pair[0], pair[1]);
        if a > b {
            return Err(format!(
                "{lower} {} is above {higher} {}: min <= p50 <= p95 <= p99 <= max in every sample",
                us(a),
                us(b)
            ));
        }
    }
    let Some(mean) = mean_ns else { return Ok(()) };
    if let Some(min) = min_ns.filter(|&min| min > mean) {
        return Err(format!(
            "min {} is above the mean {}: no mean lies below the smallest value",
            us(min),
            us(mean)
        ));
    }
    if let Some(max) = max_ns.filter(|&max| max < mean) {
        return Err(format!(
            "max {} is below the mean {}: no mean lies above the largest value",
            us(max),
            us(mean)
        ));
    }
    // Each share of the sample is at least as large as the figure at its lower end.
    let mut floor = 0.0;
    let mut below = (0.0, min_ns.unwrap_or(0));
    for (share, value) in [(0.5, p50_ns), (0.95, p95_ns), (0.99, p99_ns), (1.0, None)] {
        if share < 1.0 && value.is_none() {
            continue;
        }
        floor += (share - below.0) * below.1 as f64;
        below = (share, value.unwrap_or(0));
    }
    if floor > mean as f64 {
        return Err(format!(
            "the mean {} is below {}, which the percentiles force it to reach (each share of a sample is at least as large as the percentile it starts at)",
            us(mean),
            us(floor as u64)
        ));
    }
    if let Some(sd) = sd_ns {
        spread(published, mean as f64, sd as f64)?;
    }
    Ok(())
}

fn spread(published: &Published, mean: f64, sd: f64) -> Result<(), String> {
    if let (Some(min), Some(max)) = (published.min_ns, published.max_ns) {
        let bound = ((max as f64 - mean) * (mean - min as f64)).sqrt();
        if sd > bound {
            return Err(format!(
                "sd {} is above {}, the most that min, mean and max allow (Bhatia and Davis 2000: sd^2 <= (max - mean)(mean - min))",
                us(sd as u64),
                us(bound as u64)
            ));
        }
    }
    for (name, p, value) in
        [("p50", 0.5, published.p50_ns), ("p95", 0.95, published.p95_ns), ("p99", 0.99, published.p99_ns)]
    {
        let Some(value) = value else { continue };
        // Cantelli 1928, both tails: a share 1 - p at or above, a share p at or below.
        let above = mean + sd * f64::sqrt(p / (1.0 - p));
        let below = mean - sd * f64::sqrt((1.0 - p) / p);
        if (value as f64) > above || (value as f64) < below {
            return Err(format!(
                "{name} {} is farther from the mean {} than sd {} allows (Cantelli's inequality)",
                us(value),
                us(mean as u64),
                us(sd as u64)
            ));
        }
    }
    Ok(())
}

/// "375 us".
pub(super) fn us(ns: u64) -> String {
    format!("{} us", ns as f64 / 1e3)
}
