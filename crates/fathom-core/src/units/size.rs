//! Sizes.

use super::error::UnitError;
use super::scale::scaled;

/// A size in bytes: `64`, `1KiB`, `1.5MiB`, `1MB`.
pub fn size(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(UnitError(format!(
            "a size cannot be negative (got {text}); write it as in 64, 1KiB, 1MB"
        )));
    }
    let size = text.parse::<bytesize::ByteSize>();
    size.map(|size| size.as_u64())
        .map_err(|_| UnitError(format!("{text:?} is no size; write it as in 64, 64KiB, 1.5MiB, 1MB")))
}

/// Bytes in binary multiples, as memory counts: `128 KiB`, `1.50 GiB`.
pub fn size_text(bytes: u64) -> String {
    scaled(bytes, 1_024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in
            [("64", 64), ("1KiB", 1_024), ("1KB", 1_000), (" 1MiB ", 1 << 20), ("1.5 GiB", 3 << 29), ("0", 0)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["-1", "big", "", "1 parsec", "1Mbit"] {
            assert!(
                size(text).is_err_and(|e| e.to_string().contains("as in 64")),
                "{text}: {:?}",
                size(text)
            );
        }
    }

    #[test]
    fn sizes_read_well() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (131_072, "128 KiB"),
            (1_610_612_736, "1.50 GiB"),
            ((1 << 20) - 1, "1 MiB"),
            (2_044, "2 KiB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(bytes in prop_oneof![0..5_000_u64, 0..1_u64 << 50]) {
            let text = size_text(bytes);
            let back = size(&text).expect(&text);
            prop_assert_eq!(size_text(back), text.as_str());
            prop_assert!(bytes.abs_diff(back) as f64 <= bytes as f64 * 0.005 + 1.0, "{text}");
        }
    }
}
