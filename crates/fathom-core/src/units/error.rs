//! What is wrong with a quantity that somebody wrote.

/// What is wrong with a quantity that somebody wrote, and how to write it; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(pub(super) String);
