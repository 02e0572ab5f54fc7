//! sockperf's `--full-log` with `--full-rtt` (seen of sockperf 3.7), without the figures between its parameters and its
//! rows: while a run goes on nobody knows them.

use super::rows::Rows;
use super::run::Run;
use fathom_core::sample::{Flags, Sample};
use std::io::{self, Write};

const RULE: &str = "------------------------------";
/// First text of every log.
pub(super) const BEGINNING: &str =
    "------------------------------\ntest was performed using the following parameters: ";

/// Writes the log. A row is a message with its echo: one without has a number and no row, and what came during the
/// warm-up has neither. With several connections, rows are in the order in which the echoes came.
#[derive(Debug)]
pub(super) struct FullLog<W> {
    out: W,
    started_utc_ns: i64,
    packets: u64,
}

/// Text before the rows of a run.
pub(super) fn header(run: &Run) -> String {
    let mps = run
        .interval_ns
        .map_or_else(String::new, |every| format!("--mps={} ", (1e9 / every.max(1) as f64).round().max(1.0)));
    let size = run.size.unwrap_or(0);
    format!(
        "{BEGINNING}{mps}--burst=1 --reply-every=1 --msg-size={size} --full-rtt\n{RULE}\n\
         packet, txTime(sec), rxTime(sec), rtt(usec)\n"
    )
}

impl<W: Write> FullLog<W> {
    pub(super) fn new(out: W, run: &Run) -> Self {
        Self { out, started_utc_ns: run.started_utc_ns, packets: 0 }
    }
}

impl<W: Write + Send> Rows for FullLog<W> {
    fn write(&mut self, sample: &Sample) -> io::Result<()> {
        if sample.flags.contains(Flags::WARM_UP) {
            return Ok(());
        }
        let packet = self.packets;
        self.packets += 1;
        let Some(rtt_ns) = sample.rtt_ns else { return Ok(()) };
        let rtt_ns = rtt_ns.unsigned_abs();
        // Nothing is sent before the run begins, but for a wall clock that is set back.
        let sent_ns = sample.sent_ns.saturating_sub(self.started_utc_ns).unsigned_abs();
        let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        writeln!(
            self.out,
            "{packet}, {}, {}, {}.{:03}",
            seconds(sent_ns),
            seconds(sent_ns + rtt_ns),
            rtt_ns / 1_000,
            rtt_ns % 1_000
        )
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        writeln!(self.out, "{RULE}")?;
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{RowFormat, rows};

    #[test]
    fn the_rows_are_as_sockperf_writes_them() {
        let run = Run {
            size: Some(64),
            interval_ns: Some(50_000_000),
            started_utc_ns: 1_000_000_000,
            ..Run::default()
        };
        let mut out = Vec::new();
        let mut log = rows(RowFormat::SockperfLog, &run, &mut out).unwrap();
        let sample = |sent_ns, rtt_ns| Sample { sent_ns, rtt_ns, ..Sample::default() };
        let warm_up = Sample { flags: Flags::WARM_UP, ..sample(2_000_000_000, Some(9)) };
        let all = [
            warm_up,
            sample(3_435_966_318, Some(94_851)),
            sample(3_475_994_010, None),
            sample(3_519_968_827, Some(1_000_000_007)),
        ];
        for sample in &all {
            log.write(sample).unwrap();
        }
        log.finish().unwrap();
        drop(log);
        // The first row is one that sockperf 3.7 wrote, of the same times.
        let expected = "------------------------------\n\
            test was performed using the following parameters: --mps=20 --burst=1 --reply-every=1 --msg-size=64 --full-rtt\n\
            ------------------------------\n\
            packet, txTime(sec), rxTime(sec), rtt(usec)\n\
            0, 2.435966318, 2.436061169, 94.851\n\
            2, 2.519968827, 3.519968834, 1000000.007\n\
            ------------------------------\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
