//! A throughput test, checked.

use super::super::args;
use super::super::config::{Config, POLITE_IN_ALL, POLITE_PER_CONNECTION, Path};
use super::super::effective;
use super::super::start::is_here;
use crate::exit::Failure;
use crate::probe::resolve::lookup;
use fathom_core::event::THROUGHPUT_MODE;
use fathom_iperf3::client::{Target, TestOptions};
use fathom_iperf3::codec::{DEFAULT_BLOCK, MAX_BLOCK, MAX_PARALLEL};
use fathom_iperf3::{Direction, Traffic};
use fathom_os::socket::TcpOptions;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long a test is where nobody says, as iperf3 has it.
const DURATION: Duration = Duration::from_secs(10);
/// Payload of a packet as large as Ethernet has them: 1,500 bytes less 20 for IP, 20 for TCP and 12 for its timestamps.
const PAYLOAD_BITS: f64 = 1_448.0 * 8.0;

/// What is going to be measured.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// What every probe has: where to, what to call it, what to keep and show.
    pub(super) config: Config,
    /// The test itself.
    pub(super) test: TestOptions,
}

impl Plan {
    /// What may be measured: to another host, no more than is polite unless the user says so.
    pub(super) fn new(args: args::Args) -> Result<Self, Failure> {
        let plan = Self::asked_for(args)?;
        match plan.impolite() {
            Some(reason) if !is_here(plan.path()) => Err(Failure::usage(reason)),
            _ => Ok(plan),
        }
    }

    /// What is asked for, polite or not.
    pub(super) fn asked_for(args: args::Args) -> Result<Self, Failure> {
        if args.targets.len() > 1 {
            return Err(Failure::usage(
                "--throughput measures one target at a time: tests side by side would share this host's links; give one TARGET",
            ));
        }
        let block = args.size.unwrap_or(u64::from(DEFAULT_BLOCK));
        let block = u32::try_from(block).ok().filter(|block| (1..=MAX_BLOCK).contains(block));
        let block = block
            .ok_or_else(|| Failure::usage("--size: with --throughput a block has from 1 byte to 1MiB"))?;
        let (asked, duration) = (args.throughput.clone(), args.duration.unwrap_or(DURATION));
        if asked.omit.subsec_nanos() > 0 {
            return Err(Failure::usage(
                "--omit: iperf3's protocol counts it in whole seconds; write it as in 1s, 3s",
            ));
        }
        if args.connections > MAX_PARALLEL {
            return Err(Failure::usage(format!(
                "--connections {}: a throughput test has at most {MAX_PARALLEL} parallel streams",
                args.connections
            )));
        }
        let direction = match (asked.reverse, asked.bidirectional) {
            (true, _) => Direction::Reverse,
            (_, true) => Direction::Bidirectional,
            _ => Direction::Forward,
        };
        let traffic =
            Traffic { block, bitrate: asked.bitrate, omit_ns: asked.omit.as_secs() * 1_000_000_000 };
        let config = Config::new(args)?;
        let user_timeout = config.user_timeout;
        let tcp = TcpOptions {
            // As iperf3's streams: large writes have nothing to gain from going out at once.
            nodelay: false,
            source: config.source,
            dscp: config.dscp,
            user_timeout_ms: user_timeout.map(|t| u32::try_from(t.as_millis()).unwrap_or(u32::MAX)),
            ..TcpOptions::default()
        };
        let test = TestOptions {
            direction,
            parallel: config.connections,
            traffic,
            duration,
            timeout: config.timeout,
            tcp,
            version: concat!("fathom ", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        Ok(Self { config, test })
    }

    /// The one path.
    pub(super) fn path(&self) -> &Path {
        &self.config.paths[0]
    }

    /// Where the server is, its name resolved.
    pub(super) fn target(&self) -> Result<Target, Failure> {
        let target = &self.path().target;
        let addresses = lookup(target, self.config.family).map_err(Failure::run)?;
        Ok(Target { name: target.to_string(), port: target.port, addresses })
    }

    /// The configuration in force, for the recording.
    pub(super) fn effective(&self) -> Value {
        json!({
            "mode": THROUGHPUT_MODE,
            "size": null,
            "interval_ns": null,
            "block_bytes": self.test.traffic.block,
            "direction": self.test.direction,
            "connections": self.test.parallel,
            "bitrate_bits_per_second": self.test.traffic.bitrate,
            "omit_ns": self.test.traffic.omit_ns,
            "duration_ns": self.test.duration.as_nanos() as u64,
            "source": self.config.source,
            "dscp": self.config.dscp,
        })
    }

    /// The same and what else bears on a test, as `--show-config` prints it.
    pub(super) fn shown(&self) -> Map<String, Value> {
        let rest = json!({
            "targets": effective::targets(&self.config.paths),
            "labels": effective::labels(&self.config.paths),
            "allow_high_rate": self.config.allow_high_rate,
            "needs_allow_high_rate": self.impolite(),
            "record": effective::directory(&self.config.record),
        });
        [self.effective(), rest].into_iter().filter_map(|part| part.as_object().cloned()).flatten().collect()
    }

    /// Why a test to another host needs an explicit word; none: it is slow enough.
    fn impolite(&self) -> Option<String> {
        if self.config.allow_high_rate {
            return None;
        }
        let add = "add --allow-high-rate if the path is yours to load";
        let Some(bitrate) = self.test.traffic.bitrate else {
            return Some(format!(
                "--throughput fills the path to another host; {add}, or name a polite --bitrate"
            ));
        };
        let streams = self.test.direction.client_sends(self.test.parallel).len();
        let packets = bitrate as f64 / PAYLOAD_BITS;
        let all = packets * streams as f64;
        (packets > POLITE_PER_CONNECTION || all > POLITE_IN_ALL).then(|| {
            format!(
                "--bitrate: {packets:.0} packets/s on a stream and {all:.0} in all are above the polite {POLITE_PER_CONNECTION:.0} and {POLITE_IN_ALL:.0}; {add}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn plan(line: &str) -> Result<Plan, String> {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: args::Args,
        }
        let words = ["probe", "--throughput"].into_iter().chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|e| e.to_string())?;
        Plan::new(line.args).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults_are_iperf3s() {
        let plan = plan("127.0.0.1").unwrap();
        assert_eq!(plan.path().target.to_string(), "127.0.0.1:5201");
        let asked = plan.test.parameters();
        assert_eq!((asked.time_s, asked.omit_s, asked.parallel, asked.block), (10, 0, 1, 131_072));
        assert_eq!(
            (asked.tcp, asked.reverse, asked.bidirectional, asked.bitrate),
            (true, false, false, None)
        );
    }

    #[test]
    fn what_makes_no_sense_together_is_refused() {
        for (line, part) in [
            ("127.0.0.1 127.0.0.2", "one target"),
            ("127.0.0.1 --size 2MiB", "1MiB"),
            ("127.0.0.1 --omit 1500ms", "whole seconds"),
            ("127.0.0.1 --connections 129", "128"),
            ("127.0.0.1 --reverse --bidirectional", "cannot be used"),
            ("127.0.0.1 --udp", "cannot be used"),
            ("127.0.0.1 --spin", "cannot be used"),
        ] {
            let error = plan(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn high_rate_to_remote_host_needs_flag() {
        for line in
            ["192.0.2.1", "192.0.2.1 --bitrate 100Mbit", "192.0.2.1 --bitrate 50Mbit --connections 12"]
        {
            assert!(plan(line).is_err_and(|e| e.contains("--allow-high-rate")), "{line}");
        }
        for line in ["192.0.2.1 --allow-high-rate", "192.0.2.1 --bitrate 50Mbit", "127.0.0.1"] {
            assert!(plan(line).is_ok(), "{line}: {:?}", plan(line));
        }
    }
}
