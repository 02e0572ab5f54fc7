//! The CSV of the articles' Python echo client.

use super::rows::Rows;
use crate::manifest::timestamp;
use fathom_core::sample::Sample;
use jiff::tz::TimeZone;
use std::io::{self, Write};

/// Line before the rows.
pub(super) const HEADER: &str = "packet_num,timestamp,send_time_ns,receive_time_ns,rtt_us\n";

/// Writes the CSV of the articles' Python echo client, a row an answered sample (theirs has none for an unanswered
/// one): `packet_num,timestamp,send_time_ns,receive_time_ns,rtt_us`.
///
/// `packet_num` counts from 1. `timestamp` is the moment of sending without a zone, as theirs, but in UTC (theirs is
/// local time and says nowhere which). The receive time is sent + RTT, so that the three columns always agree.
#[derive(Debug)]
pub(super) struct EchoClientCsv<W> {
    out: W,
    packets: u64,
}

impl<W: Write> EchoClientCsv<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, packets: 0 }
    }
}

impl<W: Write + Send> Rows for EchoClientCsv<W> {
    fn write(&mut self, sample: &Sample) -> io::Result<()> {
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

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{RowFormat, Run, rows};

    #[test]
    fn the_articles_columns() {
        let mut out = Vec::new();
        let mut csv = rows(RowFormat::EchoClientCsv, &Run::default(), &mut out).unwrap();
        let sample =
            Sample { sent_ns: 1_742_468_645_123_456_789, rtt_ns: Some(1_234_567), ..Sample::default() };
        csv.write(&sample).unwrap();
        csv.write(&Sample { rtt_ns: None, ..sample }).unwrap();
        csv.write(&Sample { rtt_ns: Some(7), ..sample }).unwrap();
        drop(csv);
        // `date -u -d @1742468645` says 2025-03-20 11:04:05.
        let expected = "packet_num,timestamp,send_time_ns,receive_time_ns,rtt_us\n\
            1,2025-03-20T11:04:05.123456,1742468645123456789,1742468645124691356,1234.567\n\
            2,2025-03-20T11:04:05.123456,1742468645123456789,1742468645123456796,0.007\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
