//! Rates and sizes in words.

/// Bits a second, decimal multiples as networks count, three digits and more.
pub(crate) fn rate(bits_per_second: u64) -> String {
    scaled(bits_per_second as f64, 1e3, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// Bytes, binary multiples as memory counts.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1_024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// µs as the view shows times.
pub(crate) fn micros(us: u64) -> String {
    crate::summary::duration(us * 1_000)
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or("");
    for next in units {
        if value < step {
            break;
        }
        (value, unit) = (value / step, next);
    }
    let decimals = if value.fract() == 0.0 || value >= 100.0 { 0 } else { 2 };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_in_words() {
        assert_eq!(rate(0), "0 bit/s");
        assert_eq!(rate(999), "999 bit/s");
        assert_eq!(rate(9_712_345_678), "9.71 Gbit/s");
        assert_eq!(rate(100_000_000), "100 Mbit/s");
        assert_eq!(bytes(131_072), "128 KiB");
        assert_eq!(bytes(1_610_612_736), "1.50 GiB");
    }
}
