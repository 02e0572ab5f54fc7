//! Values that something else fills in: `${NAME:default}` of Spring, `${NAME:-default}` and `${NAME-default}` of shells
//! and Compose. If a placeholder has a default, that is the known value.

use std::ops::Range;

/// Syntax of placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Spring: everything after the first colon is the default.
    Spring,
    /// Shells: `-` begins the default, with or without a colon before it.
    Shell,
}

/// True if something else fills in a value, or a part of it.
pub(crate) fn is_filled_in(value: &str) -> bool {
    value.contains("${") || value.contains("%(") || value.starts_with('%')
}

/// Range of the default in a value that is a single placeholder; of nested ones the innermost. `None`: there is none.
fn default(value: &str, dialect: Dialect) -> Option<Range<usize>> {
    let inner = value.strip_prefix("${")?.strip_suffix('}')?;
    let (at, sign) = match dialect {
        Dialect::Spring => (inner.find(':')?, 1),
        Dialect::Shell => inner.find(":-").map(|at| (at, 2)).or_else(|| Some((inner.find('-')?, 1)))?,
    };
    // A name has no brace: a brace belongs to another placeholder.
    if inner[..at].contains(['{', '}']) {
        return None;
    }
    let from = "${".len() + at + sign;
    let default = &value[from..value.len() - 1];
    if default.starts_with("${") {
        let within = self::default(default, dialect)?;
        return Some(from + within.start..from + within.end);
    }
    let is_plain = !default.contains(['{', '}']) && !is_filled_in(default);
    (!default.is_empty() && is_plain).then_some(from..value.len() - 1)
}

/// The known value: a placeholder's default. `None`: something else fills it in.
pub(crate) fn known(value: &str, dialect: Dialect) -> Option<&str> {
    if !is_filled_in(value) {
        return Some(value);
    }
    Some(&value[default(value, dialect)?])
}

/// The range that `new` replaces, if `value` is at `span`, and the text to show with it. That text leaves out the placeholder's
/// name, which belongs to the file.
pub(crate) fn replaced(
    value: &str,
    span: &Range<usize>,
    dialect: Dialect,
    new: &str,
) -> (Range<usize>, String) {
    let whole = (span.clone(), new.to_owned());
    let Some(found) = default(value, dialect) else { return whole };
    // In a value with escapes, positions are unknown.
    if span.len() != value.len() {
        return whole;
    }
    let sign = if dialect == Dialect::Spring { ":" } else { ":-" };
    (span.start + found.start..span.start + found.end, format!("${{…{sign}{new}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_defaults_are_found() {
        for (value, dialect, known) in [
            ("${LIFE:1800000}", Dialect::Spring, Some("1800000")),
            ("${pool.life:${LIFE:30}}", Dialect::Spring, Some("30")),
            ("${my-pool.life:-1}", Dialect::Spring, Some("-1")),
            ("${LIFE:-30}", Dialect::Shell, Some("30")),
            ("${LIFE-30}", Dialect::Shell, Some("30")),
            ("${LIFE:-${OTHER:-30}}", Dialect::Shell, Some("30")),
            ("${LIFE}", Dialect::Spring, None),
            ("${LIFE:}", Dialect::Spring, None),
            ("${LIFE:?unset}", Dialect::Shell, None),
            ("${A}${B:5}", Dialect::Spring, None),
            ("${A:5}0", Dialect::Spring, None),
            ("%(life)s", Dialect::Shell, None),
            ("30", Dialect::Shell, Some("30")),
        ] {
            assert_eq!(super::known(value, dialect), known, "{value}");
        }
    }
}
