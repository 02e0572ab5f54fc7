//! Which formats there are.

use super::echo_client::EchoClientCsv;
use super::latte::Intervals;
use super::psping::Buckets;
use super::rows::Rows;
use super::run::{Run, Totals};
use super::sockperf::FullLog;
use super::{echo_client, latte, psping, sockperf};
use std::io::{self, Write};

/// The formats that are files of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFormat {
    /// The CSV of the articles' Python echo client.
    EchoClientCsv,
    /// sockperf's full log.
    SockperfLog,
}

impl RowFormat {
    /// Text before the rows of a run.
    pub fn header(self, run: &Run) -> String {
        match self {
            Self::EchoClientCsv => echo_client::HEADER.to_owned(),
            Self::SockperfLog => sockperf::header(run),
        }
    }

    /// First text of every file of this format.
    pub fn beginning(self) -> &'static str {
        match self {
            Self::EchoClientCsv => echo_client::HEADER,
            Self::SockperfLog => sockperf::BEGINNING,
        }
    }

    /// True if each run in a file has its own header; otherwise the file has one at its beginning.
    pub fn repeats_header(self) -> bool {
        self == Self::SockperfLog
    }
}

/// A file of this format, begun.
pub fn rows<'w>(
    format: RowFormat,
    run: &Run,
    mut out: impl Write + Send + 'w,
) -> io::Result<Box<dyn Rows + 'w>> {
    out.write_all(format.header(run).as_bytes())?;
    Ok(rows_below(format, run, out))
}

/// The rows of a run, below a header that is there.
pub fn rows_below<'w>(format: RowFormat, run: &Run, out: impl Write + Send + 'w) -> Box<dyn Rows + 'w> {
    match format {
        RowFormat::EchoClientCsv => Box::new(EchoClientCsv::new(out)),
        RowFormat::SockperfLog => Box::new(FullLog::new(out, run)),
    }
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
