//! A file that takes samples one by one.

use fathom_core::sample::Sample;
use std::io;

/// A file that takes samples one by one: [`Rows::write`] each in the order in which they were resolved, then
/// [`Rows::finish`], once. [`Rows::flush`] may be called at any time between.
pub trait Rows: Send {
    /// Writes a sample, if the format has a row for it.
    fn write(&mut self, sample: &Sample) -> io::Result<()>;
    /// Hands on what is buffered.
    fn flush(&mut self) -> io::Result<()>;
    /// Writes what comes after the last row.
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}
