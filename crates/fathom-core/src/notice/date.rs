//! Dates as the clouds write them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;

/// RFC 1123 is RFC 2822's date with a four-digit year. Weekdays in Azure's own samples are wrong, so none is checked.
const RFC_2822: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);

/// `Mon, 11 Apr 2026 22:26:58 GMT` (Azure), `19 Dec 2023 13:56:07 GMT` (AWS) or ISO 8601, which is taken as UTC where
/// it names no offset. `None`: no date, as in the empty string that Azure gives once an event has started.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    if let Ok(at) = RFC_2822.parse_timestamp(text) {
        return Some(at);
    }
    // Without an offset; jiff reads one with an offset as a civil time too, but such a text was a timestamp above.
    text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_the_clouds_document() {
        for (text, utc) in [
            // The 11th of April 2026 was a Saturday.
            ("Mon, 11 Apr 2026 22:26:58 GMT", "2026-04-11T22:26:58Z"),
            ("Sat, 11 Apr 2026 22:26:58 GMT", "2026-04-11T22:26:58Z"),
            ("19 Dec 2023 13:56:07 GMT", "2023-12-19T13:56:07Z"),
            ("1 Dec 2023 03:06:07 GMT", "2023-12-01T03:06:07Z"),
            ("2026-04-11T22:26:58Z", "2026-04-11T22:26:58Z"),
            ("2026-04-11T22:26:58.25+02:00", "2026-04-11T20:26:58.25Z"),
            ("2026-04-11T22:26:58", "2026-04-11T22:26:58Z"),
            (" 2026-04-11 22:26:58 ", "2026-04-11T22:26:58Z"),
        ] {
            assert_eq!(parse(text), Some(utc.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn invalid_date_is_absent() {
        for text in ["", " ", "soon", "Mon, 31 Feb 2026 22:26:58 GMT", "1744410418", "2026-04-11T25:00:00Z"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
