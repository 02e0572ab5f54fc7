//! Which formats there are.

use super::echo_client::EchoClientCsv;
use super::latte::Intervals;
use super::psping::Buckets;
use super::rows::Rows;
use super::run::{Run, Totals};
use super::sockperf::FullLog;
use super::{latte, psping};
use std::io::{self, Write};

/// The formats that are files of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFormat {
    /// The CSV of the articles' Python echo client.
    EchoClientCsv,
    /// sockperf's full log.
    SockperfLog,
}

/// A file of this format, begun.
pub fn rows<'w>(format: RowFormat, run: &Run, out: impl Write + Send + 'w) -> io::Result<Box<dyn Rows + 'w>> {
    Ok(match format {
        RowFormat::EchoClientCsv => Box::new(EchoClientCsv::new(out)?),
        RowFormat::SockperfLog => Box::new(FullLog::new(out, run)?),
    })
}

/// The formats that are the text at the end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultFormat {
    /// latte's result and histogram.
    Latte(Intervals),
    /// `PsPing`'s result and histogram.
    Psping(Buckets),
}

/// What the tool would print.
pub fn result(format: &ResultFormat, run: &Run, totals: &Totals<'_>) -> String {
    match format {
        ResultFormat::Latte(intervals) => latte::text(run, totals, *intervals),
        ResultFormat::Psping(buckets) => psping::text(run, totals, buckets),
    }
}
