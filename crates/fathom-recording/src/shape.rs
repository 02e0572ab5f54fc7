//! The rules of a recording's JSON that every reader shares, the Python half too: integers of 64 bits, limited nesting,
//! RFC 3339 times, and a manifest that matches its schema.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Maximum depth of nested lists and objects; ours have a handful.
const DEEPEST: usize = 64;
/// First number that does not fit into 64 bits: `serde_json` makes a float of a larger integer.
const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;

/// The reason why some reader refuses a value. `None`: every reader takes it.
pub(crate) fn unfit(value: &Value) -> Option<String> {
    unfit_below(value, DEEPEST)
}

fn unfit_below(value: &Value, levels: usize) -> Option<String> {
    let children: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Number(n) if n.is_f64() && n.as_f64().is_none_or(|n| n.abs() >= TOO_LARGE) => {
            return Some("a number does not fit into 64 bits".to_owned());
        }
        Value::Array(_) | Value::Object(_) if levels == 0 => {
            return Some(format!("it has more than {DEEPEST} levels"));
        }
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => return None,
    };
    children.into_iter().find_map(|child| unfit_below(child, levels - 1))
}

/// True for an event of this version or a later one: it has a time and a kind.
pub(crate) fn is_event(value: &Value) -> bool {
    value["kind"].is_string() && value["at"].as_str().is_some_and(is_time) && unfit(value).is_none()
}

/// True for a time of RFC 3339 with its offset, whose ns fit into 64 bits.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((date, rest)) = bytes.split_at_checked("0000-00-00T00:00:00".len()) else { return false };
    let like = |pattern: &[u8], text: &[u8]| {
        pattern.len() == text.len()
            && pattern.iter().zip(text).all(|(p, t)| if *p == b'0' { t.is_ascii_digit() } else { p == t })
    };
    let separated = matches!(date[10], b'T' | b't' | b' ');
    let digits = match rest.strip_prefix(b".") {
        Some(fraction) => fraction.iter().take_while(|c| c.is_ascii_digit()).count() + 1,
        None => 0,
    };
    let zone = &rest[digits..];
    let zoned = matches!(zone, b"Z" | b"z") || like(b"+00:00", zone) || like(b"-00:00", zone);
    like(b"0000-00-00", &date[..10])
        && like(b"00:00:00", &date[11..])
        && separated
        && digits != 1
        && zoned
        // Not all readers know a minute of 61 seconds.
        && &date[17..] != b"60"
        && text.parse::<Timestamp>().is_ok_and(|at| i64::try_from(at.as_nanosecond()).is_ok())
}

/// The first violation of the manifest's schema. `None`: there is none.
pub(crate) fn breaks_manifest_schema(manifest: &Value) -> Option<String> {
    let schema: Value = serde_json::from_str(include_str!("../../../schema/manifest.schema.json"))
        .expect("a test reads the schema that is compiled in");
    unfit(manifest).or_else(|| breaks(manifest, &schema, "it"))
}

/// Checks the keywords that the manifest's schema uses; a test ensures that it uses no others.
fn breaks(value: &Value, schema: &Value, name: &str) -> Option<String> {
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        several => several.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    if !types.is_empty() && !types.iter().any(|kind| is_of(value, kind)) {
        return Some(format!("{name} must be {}", types.join(" or ")));
    }
    let allowed = schema["enum"].as_array();
    if allowed.is_some_and(|allowed| !allowed.contains(value)) {
        return Some(format!("{name} must be one of {}", schema["enum"]));
    }
    if let Some(number) = value.as_f64() {
        let bound = |of: &str| schema[of].as_f64();
        if bound("minimum").is_some_and(|least| number < least)
            || bound("maximum").is_some_and(|most| number > most)
        {
            return Some(format!("{name} is too small or too large"));
        }
    }
    match value {
        Value::String(text) if schema["format"] == "date-time" && !is_time(text) => {
            Some(format!("{name} is no RFC 3339 time"))
        }
        Value::Array(list) if schema["maxItems"].as_u64().is_some_and(|most| list.len() as u64 > most) => {
            Some(format!("{name} has more than {} entries", schema["maxItems"]))
        }
        Value::Array(list) => {
            list.iter().find_map(|one| breaks(one, &schema["items"], &format!("an entry of {name}")))
        }
        Value::Object(map) => object_breaks(map, schema, name),
        _ => None,
    }
}

fn object_breaks(map: &Map<String, Value>, schema: &Value, name: &str) -> Option<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required.into_iter().find(|field| !map.contains_key(*field));
    missing.map(|field| format!("{name} has no {field}")).or_else(|| {
        map.iter().find_map(|(field, value)| {
            let known = schema["properties"].get(field);
            let schema = known.or_else(|| schema.get("additionalProperties"))?;
            breaks(value, schema, field)
        })
    })
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_those_of_rfc_3339() {
        for (text, is) in [
            ("2026-01-02T03:04:05Z", true),
            ("2026-01-02t03:04:05.000000006z", true),
            ("2026-01-02 03:04:05.5+01:00", true),
            ("2026-01-02T03:04:05", false),
            ("2026-01-02T03:04:05.Z", false),
            ("2026-01-02T03:04:60Z", false),
            ("2026-13-02T03:04:05Z", false),
            ("2026-01-02T03:04:05+01:00[Europe/Paris]", false),
            ("20260102T030405Z", false),
            // Does not fit into 64 bits of ns.
            ("0001-01-01T00:00:00Z", false),
            ("9999-12-31T23:59:59Z", false),
            ("é", false),
            ("", false),
        ] {
            assert_eq!(is_time(text), is, "{text}");
        }
    }

    #[test]
    fn numbers_and_levels_are_bounded() {
        let nested = |levels| (0..levels).fold(json!(1), |value, _| json!([value]));
        let number = |text: &str| unfit(&serde_json::from_str(text).expect("JSON"));
        assert_eq!(unfit(&nested(DEEPEST)), None);
        assert!(unfit(&nested(DEEPEST + 1)).is_some());
        for fits in ["18446744073709551615", "-9223372036854775808", "1.5", "-1e9"] {
            assert_eq!(number(fits), None, "{fits}");
        }
        for large in ["18446744073709551616", "[{\"a\": -99999999999999999999}]"] {
            assert!(number(large).is_some(), "{large}");
        }
    }

    /// A keyword that is unknown here would not be checked.
    #[test]
    fn schema_has_known_keywords_only() {
        fn keywords(schema: &Value, found: &mut Vec<String>) {
            for (name, value) in schema.as_object().into_iter().flatten() {
                found.push(name.clone());
                match name.as_str() {
                    "properties" => {
                        value.as_object().into_iter().flatten().for_each(|(_, of)| keywords(of, found));
                    }
                    "items" | "additionalProperties" => keywords(value, found),
                    _ => {}
                }
            }
        }
        let schema: Value =
            serde_json::from_str(include_str!("../../../schema/manifest.schema.json")).expect("JSON");
        let mut found = Vec::new();
        keywords(&schema, &mut found);
        let known = "$schema title description type required properties additionalProperties items enum minimum maximum maxItems format";
        let unknown: Vec<_> = found.iter().filter(|name| !known.split(' ').any(|k| k == *name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
