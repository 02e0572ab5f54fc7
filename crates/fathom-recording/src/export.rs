//! Samples for other programs.

use crate::convert::ParquetSink;
use crate::manifest::timestamp;
use crate::recording::Recording;
use crate::{COLUMNS, Error, Kind};
use fathom_core::sample::Sample;
use jiff::tz::TimeZone;
use std::io::{self, Write};

/// What to export to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Every column, with a header; an absent value is an empty field.
    Csv,
    /// One Parquet file.
    Parquet,
    /// The columns of the articles' Python echo client; see [`EchoClientCsv`].
    EchoClientCsv,
}

/// Writes all samples of a recording to `out`; gives their number. What could not be read is told by
/// [`Recording::damage`]. `progress` is told the rows written, every now and then.
pub fn export(
    recording: &Recording,
    format: Format,
    out: impl Write + Send,
    mut progress: impl FnMut(u64),
) -> Result<u64, Error> {
    let failed = |source: io::Error| Error::Io {
        operation: "write the export of",
        path: recording.dir().to_owned(),
        source,
    };
    let mut rows = 0;
    let mut chunks = recording.samples().inspect(|chunk| {
        rows += chunk.len() as u64;
        progress(rows);
    });
    let done = match format {
        Format::Parquet => chunks_to_parquet(chunks, out).map_err(io::Error::other),
        Format::Csv => {
            let mut out = io::BufWriter::new(out);
            header(&mut out)
                .and_then(|()| chunks.try_for_each(|chunk| chunk.iter().try_for_each(|s| row(&mut out, s))))
                .and_then(|()| out.flush())
        }
        Format::EchoClientCsv => EchoClientCsv::new(io::BufWriter::new(out)).and_then(|mut csv| {
            chunks.try_for_each(|chunk| chunk.iter().try_for_each(|s| csv.write(s)))?;
            csv.flush()
        }),
    };
    done.map_err(failed)?;
    Ok(rows)
}

fn chunks_to_parquet(
    mut chunks: impl Iterator<Item = Vec<Sample>>,
    out: impl Write + Send,
) -> Result<(), parquet::errors::ParquetError> {
    let mut sink = ParquetSink::new(out)?;
    chunks.try_for_each(|chunk| sink.push(&chunk))?;
    sink.finish().map(drop)
}

fn header(out: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = COLUMNS.iter().map(|c| c.name).collect();
    writeln!(out, "{}", names.join(","))
}

fn row(out: &mut impl Write, sample: &Sample) -> io::Result<()> {
    for (i, column) in COLUMNS.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        match (column.get(sample), column.kind) {
            (None, _) => write!(out, "{comma}")?,
            (Some(value), Kind::I64) => write!(out, "{comma}{}", value as i64)?,
            (Some(value), _) => write!(out, "{comma}{value}")?,
        }
    }
    writeln!(out)
}

/// Writes the CSV of the articles' Python echo client, a row an answered sample (theirs has none for an unanswered
/// one): `packet_num,timestamp,send_time_ns,receive_time_ns,rtt_us`.
///
/// `packet_num` counts from 1. `timestamp` is the moment of sending without a zone, as theirs, but in UTC (theirs is
/// local time and says nowhere which). The receive time is sent + RTT, so that the three columns always agree.
#[derive(Debug)]
pub struct EchoClientCsv<W: Write> {
    out: W,
    packets: u64,
}

impl<W: Write> EchoClientCsv<W> {
    /// Writes the header.
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "packet_num,timestamp,send_time_ns,receive_time_ns,rtt_us")?;
        Ok(Self { out, packets: 0 })
    }

    /// Writes a sample, if it was answered.
    pub fn write(&mut self, sample: &Sample) -> io::Result<()> {
        let Some(rtt_ns) = sample.rtt_ns else { return Ok(()) };
        self.packets += 1;
        let sent_ns = sample.sent_ns;
        let at = timestamp(sent_ns).to_zoned(TimeZone::UTC).datetime();
        let received_ns = sent_ns.saturating_add(rtt_ns);
        // Exact: µs with three decimals are ns.
        let (sign, rtt) = (if rtt_ns < 0 { "-" } else { "" }, rtt_ns.unsigned_abs());
        writeln!(
            self.out,
            "{},{},{sent_ns},{received_ns},{sign}{}.{:03}",
            self.packets,
            at.strftime("%Y-%m-%dT%H:%M:%S.%6f"),
            rtt / 1_000,
            rtt % 1_000
        )
    }

    /// Hands on what is buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_articles_columns() {
        let mut out = Vec::new();
        let mut csv = EchoClientCsv::new(&mut out).unwrap();
        let sample =
            Sample { sent_ns: 1_742_468_645_123_456_789, rtt_ns: Some(1_234_567), ..Sample::default() };
        csv.write(&sample).unwrap();
        csv.write(&Sample { rtt_ns: None, ..sample }).unwrap();
        csv.write(&Sample { rtt_ns: Some(7), ..sample }).unwrap();
        // `date -u -d @1742468645` says 2025-03-20 11:04:05.
        let expected = "packet_num,timestamp,send_time_ns,receive_time_ns,rtt_us\n\
            1,2025-03-20T11:04:05.123456,1742468645123456789,1742468645124691356,1234.567\n\
            2,2025-03-20T11:04:05.123456,1742468645123456789,1742468645123456796,0.007\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn absent_values_are_empty_fields() {
        let mut out = Vec::new();
        let sample =
            Sample { connection: 1, seq: 2, size: 64, sent_ns: 5, lateness_ns: -3, ..Sample::default() };
        row(&mut out, &sample).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "1,2,64,5,-3,,,,,,,,,,0\n");
    }
}
