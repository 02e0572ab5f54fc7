//! What we measured in the formats of other tools, for people whose scripts read those (`docs/peers.md`). Samples or a
//! histogram in, text out; `fathom import` reads each of them back.

pub(crate) mod latte;
pub(crate) mod psping;
pub(crate) mod sockperf;

use fathom_core::sample::Sample;
use fathom_recording::EchoClientCsv;
use std::io::{self, Write};

/// A file that takes the samples one by one.
pub(crate) trait Rows: Send {
    /// Writes a sample, if the format has a row for it.
    fn write(&mut self, sample: &Sample) -> io::Result<()>;
    /// Hands on what is buffered.
    fn flush(&mut self) -> io::Result<()>;
    /// Writes what comes after the last row.
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl<W: Write + Send> Rows for EchoClientCsv<W> {
    fn write(&mut self, sample: &Sample) -> io::Result<()> {
        Self::write(self, sample)
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::flush(self)
    }
}
