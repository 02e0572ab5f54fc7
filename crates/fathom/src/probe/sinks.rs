//! What is written of one path while it is measured.

use super::tables::Table;
use fathom_recording::Recorder;

/// See the module.
pub(super) struct Sinks {
    pub(super) recorder: Option<Recorder>,
    /// Files of rows in other programs' formats.
    pub(super) tables: Vec<Table>,
}
