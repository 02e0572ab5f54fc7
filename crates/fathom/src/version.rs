//! Which build this is.

use std::sync::LazyLock;

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The revision of the source, where the build says (the Makefile's do).
pub(crate) const REVISION: Option<&str> = match option_env!("FATHOM_REVISION") {
    // A source without its history.
    Some(revision) if revision.is_empty() => None,
    known => known,
};

/// Both, as `--version` prints them.
pub(crate) fn in_words() -> &'static str {
    static WORDS: LazyLock<String> = LazyLock::new(|| words(REVISION));
    &WORDS
}

fn words(revision: Option<&str>) -> String {
    revision.map_or_else(|| VERSION.to_owned(), |revision| format!("{VERSION} ({revision})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_revision_shows_only_version() {
        assert_eq!(words(None), VERSION);
        assert_eq!(words(Some("0123abc-dirty")), format!("{VERSION} (0123abc-dirty)"));
    }
}
