//! Rates.

use super::error::UnitError;
use super::scale::scaled;
use super::size::size;

/// Ten terabits a second is more than any host has, and far from where integers end.
const MOST: f64 = 1e13;

/// A rate in bits a second: `100Mbit`, `2.5 Gbit/s` or `1Gbps` (decimal, as networks count), `50MB` or `8MiB/s` (bytes a
/// second). The case of a multiple does not matter.
pub fn bits_per_s(text: &str) -> Result<u64, UnitError> {
    let wrong = |why: &str| {
        UnitError(format!(
            "{text:?} is no rate{why}; write it as in 100Mbit/s, 2.5Gbit/s, or 50MB/s for bytes a second"
        ))
    };
    let rate = text.trim();
    if rate.ends_with("Bps") {
        return Err(wrong(": Bps may mean bits or bytes"));
    }
    let rate = rate.strip_suffix("/s").unwrap_or(rate).trim_end();
    let bits = if rate.ends_with('B') {
        size(rate).map_err(|_| wrong(""))? as f64 * 8.0
    } else {
        let at = rate.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(|| wrong(": it has no unit"))?;
        let (number, unit) = rate.split_at(at);
        let unit = unit.to_ascii_lowercase();
        let multiple = match unit.strip_suffix("bit").or_else(|| unit.strip_suffix("bps")) {
            Some("") => 1.0,
            Some("k") => 1e3,
            Some("m") => 1e6,
            Some("g") => 1e9,
            Some("t") => 1e12,
            _ => return Err(wrong("")),
        };
        number.trim().parse::<f64>().map_err(|_| wrong(""))? * multiple
    };
    if (1.0..=MOST).contains(&bits) {
        Ok(bits.round() as u64)
    } else {
        Err(wrong(": rates go from 1bit/s to 10Tbit/s"))
    }
}

/// Bits a second in decimal multiples, as networks count: `9.71 Gbit/s`.
pub fn rate_text(bits_per_s: u64) -> String {
    scaled(bits_per_s, 1e3, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_as_people_write_them() {
        for (text, bits) in [
            ("100Mbit", 100_000_000),
            ("100 Mbps", 100_000_000),
            ("1Gbit/s", 1_000_000_000),
            ("2.01Gbit/s", 2_010_000_000),
            ("2.5Gbps", 2_500_000_000),
            ("1GBPS", 1_000_000_000),
            ("500 kbit", 500_000),
            ("500 KBIT/s", 500_000),
            ("8bit", 8),
            ("10Tbit/s", 10_000_000_000_000),
            ("50MB", 400_000_000),
            ("1MiB/s", 8 << 20),
        ] {
            assert_eq!(bits_per_s(text), Ok(bits), "{text}");
        }
    }

    #[test]
    fn invalid_rate_error_shows_the_syntax() {
        for text in [
            "100", "100M", "-1Mbit", "-1MB", "0Mbit", "Mbit", "fast", "", "99Tbit", "nanMbit", "infbit",
            "1GBps", "1Mbit/m",
        ] {
            let error = bits_per_s(text).expect_err(text).to_string();
            assert!(error.contains("100Mbit/s") && error.contains("50MB/s"), "{error}");
        }
        assert!(bits_per_s("1GBps").is_err_and(|e| e.to_string().contains("bits or bytes")));
    }

    #[test]
    fn rates_read_well() {
        for (bits, text) in [
            (0, "0 bit/s"),
            (999, "999 bit/s"),
            (9_712_345_678, "9.71 Gbit/s"),
            (100_000_000, "100 Mbit/s"),
            (999_999, "1 Mbit/s"),
        ] {
            assert_eq!(rate_text(bits), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(bits in prop_oneof![1..5_000_u64, 1..=10_000_000_000_000_u64]) {
            let text = rate_text(bits);
            let back = bits_per_s(&text).expect(&text);
            prop_assert_eq!(rate_text(back), text.as_str());
            prop_assert!(bits.abs_diff(back) as f64 <= bits as f64 * 0.005 + 1.0, "{text}");
        }
    }
}
