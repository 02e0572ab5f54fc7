//! Why a reflector could not do what it was asked to.

/// One line that names the thing, says what is wrong with it and how to mend it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}
