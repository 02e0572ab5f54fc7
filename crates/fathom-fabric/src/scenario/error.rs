//! What is wrong with a scenario, where, and what to write instead.

use fathom_core::text::position;
use std::ops::Range;

/// A mistake in a scenario. Its text is one line: `FILE:LINE:COLUMN: what is wrong; what to do`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ScenarioError {
    /// The file, as the caller named it.
    pub file: String,
    /// Line of the mistake, from 1.
    pub line: usize,
    /// Column of the mistake in characters, from 1.
    pub column: usize,
    /// The thing, what is wrong with it, and the remedy.
    pub message: String,
}

/// A scenario's text, for turning byte ranges into lines and columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// An error at the start of a byte range.
    pub(super) fn error(&self, span: &Range<usize>, message: impl Into<String>) -> ScenarioError {
        let (line, column) = position(self.text, span.start);
        ScenarioError { file: self.file.to_owned(), line, column, message: message.into() }
    }

    /// An error of the TOML parser, or of serde.
    pub(super) fn foreign(&self, error: &toml::de::Error, fallback: &Range<usize>) -> ScenarioError {
        let span = error.span().unwrap_or_else(|| fallback.clone());
        // The library's text may have several lines; an error here has one.
        self.error(&span, error.message().lines().map(str::trim).collect::<Vec<_>>().join("; "))
    }
}
