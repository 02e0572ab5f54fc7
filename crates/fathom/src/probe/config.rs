//! What a probe run is, checked: everything later code relies on holds once this is built.

use super::args::{Args, Timestamps};
use super::cloud::Settings;
use super::formats::{self, Formats};
use crate::exit::Failure;
use crate::summary::CONNECT;
use fathom_core::schedule::Pace;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The port of a reflector of ours; 7 is RFC 862's, and needs a right to listen on.
pub(crate) const DEFAULT_PORT: u16 = 7007;
/// The largest datagram payload of UDP over IPv4: 65,535 less 20 for IP and 8 for UDP.
const MAX_DATAGRAM: u64 = 65_507;
/// Packets a second that need an explicit word (an Azure team met trouble at 10,000 on one connection and 100,000
/// on one address; half of that leaves room for others).
const POLITE_PER_CONNECTION: f64 = 5_000.0;
const POLITE_IN_ALL: f64 = 50_000.0;

/// Connections a second that need an explicit word. Each leaves its port in TIME-WAIT here for a minute (RFC 9293,
/// section 3.6.1; Linux: 60 s), and Linux has 28,232 such ports to an address unless told otherwise: a fifth of them.
const POLITE_CONNECTIONS: f64 = 100.0;

/// Runs of up to so many samples a second in all are stamped by the kernel without being asked.
const STAMPED_RATE: f64 = 1_000.0;

/// A host and port, as the user named them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| Err(format!("target {text}: {what}; write HOST, HOST:PORT or [IPV6]:PORT"));
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            match rest.split_once(']') {
                Some((host, "")) => (host, None),
                Some((host, port)) => (host, port.strip_prefix(':')),
                None => return wrong("the bracket is not closed"),
            }
        } else if text.parse::<IpAddr>().is_ok() {
            (text, None)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() || host.contains(char::is_whitespace) || host.contains('/') {
            return wrong("that is no host");
        }
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => match port.parse() {
                Ok(port) if port != 0 => port,
                _ => return wrong(&format!("{port} is no port (1 to 65535)")),
            },
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

/// One path to measure.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) target: Target,
    pub(crate) label: String,
}

/// Which transport carries the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// Which addresses will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Any,
    V4,
    V6,
}

impl Family {
    pub(crate) fn admits(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

/// Where to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// Nowhere.
    No,
    /// Under `./recordings`, by label and time.
    Default,
    /// In this directory.
    Into(PathBuf),
}

/// What to show while running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// The live view on a terminal, else a line every ten seconds.
    Auto,
    /// A line a sample.
    Plain,
    /// Nothing.
    Nothing,
}

/// A checked run.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) paths: Vec<Path>,
    pub(crate) pace: Pace,
    /// Each sample is a connection.
    pub(crate) connect: bool,
    /// Bytes of a sample; of a sweep, the smallest.
    pub(crate) size: u32,
    /// The sizes of a sweep, ascending; empty: it is none.
    pub(crate) sizes: Vec<u32>,
    pub(crate) count: Option<u64>,
    pub(crate) duration: Option<Duration>,
    pub(crate) connections: u32,
    pub(crate) warm_up: u64,
    pub(crate) transport: Transport,
    pub(crate) allow_high_rate: bool,
    pub(crate) timeout: Duration,
    pub(crate) give_up: Option<Duration>,
    pub(crate) user_timeout: Option<Duration>,
    pub(crate) stall_after: Option<Duration>,
    pub(crate) pause_clock: Option<Duration>,
    pub(crate) reconnect: bool,
    pub(crate) keep_trying: bool,
    pub(crate) family: Family,
    pub(crate) source: Option<IpAddr>,
    pub(crate) dscp: Option<u8>,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) via: Option<String>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) cloud: Settings,
    pub(crate) record: Record,
    pub(crate) csv: Option<PathBuf>,
    pub(crate) formats: Formats,
    pub(crate) show: Show,
    pub(crate) json: bool,
    pub(crate) timestamps: Timestamps,
    pub(crate) cpu: Option<usize>,
    pub(crate) cpu_latency_us: Option<u32>,
    pub(crate) spin: bool,
    pub(crate) priority: bool,
}

impl Config {
    /// Checks the arguments together.
    pub(crate) fn new(args: Args) -> Result<Self, Failure> {
        let transport = if args.udp { Transport::Udp } else { Transport::Tcp };
        let sizes = args.sizes.as_ref().map_or(&[][..], |sizes| &sizes.0[..]);
        let sizes = sizes.iter().map(|&size| checked_size("--sizes", size, transport));
        let sizes: Vec<u32> = sizes.collect::<Result<_, Failure>>()?;
        let size =
            sizes.first().map_or_else(|| checked_size("--size", args.size, transport), |size| Ok(*size))?;
        // A connection carries nothing.
        let size = if args.connect { 0 } else { size };
        if !sizes.is_empty() && args.csv.is_some() {
            return Err(Failure::usage(
                "--csv has no column for a sample's size, so its readers would pool the sizes; use `fathom recording export` on the recording",
            ));
        }
        let pace = if args.ping_pong {
            Pace::PingPong
        } else if args.every.is_zero() {
            return Err(Failure::usage(
                "--every 0: samples need time between them; for back to back use --ping-pong",
            ));
        } else {
            Pace::Every(args.every.as_nanos() as u64)
        };
        let family = match (args.ipv4, args.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        };
        if let Some(source) = args.source
            && !family.admits(source)
        {
            return Err(Failure::usage(format!(
                "--source {source} is not of the family asked for by -4 or -6"
            )));
        }
        if args.duration == Some(Duration::ZERO) {
            return Err(Failure::usage(
                "--for 0: that ends before it begins; leave it out to run until Ctrl-C",
            ));
        }
        if args.timeout.is_zero() {
            return Err(Failure::usage("--timeout 0: every echo would be late; the default is 5s"));
        }
        let paths = paths(&args)?;
        let cloud = Settings::new(args.cloud, args.metadata_url, args.cloud_every, args.cloud_tags)?;
        let config = Self {
            paths,
            pace,
            connect: args.connect,
            size,
            sizes,
            count: args.count,
            duration: args.duration,
            connections: args.connections,
            warm_up: args.warm_up,
            transport,
            allow_high_rate: args.allow_high_rate,
            timeout: args.timeout,
            give_up: args.give_up.0,
            user_timeout: args.user_timeout,
            stall_after: args.stall_after.0,
            pause_clock: args.pause_clock.0,
            reconnect: !args.no_reconnect,
            keep_trying: args.keep_trying,
            family,
            source: args.source,
            dscp: args.dscp,
            from: args.from,
            to: args.to,
            via: args.via,
            tags: args.tags.into_iter().collect(),
            cloud,
            record: match (args.no_record, args.record) {
                (true, _) => Record::No,
                (_, Some(dir)) => Record::Into(dir),
                _ => Record::Default,
            },
            csv: args.csv,
            formats: args.formats,
            show: match (args.plain, args.quiet) {
                (true, _) => Show::Plain,
                (_, true) => Show::Nothing,
                _ => Show::Auto,
            },
            json: args.json,
            timestamps: args.timestamps,
            cpu: args.cpu,
            cpu_latency_us: args.cpu_latency,
            spin: args.spin,
            priority: args.priority,
        };
        formats::refuse_several_targets(&config)?;
        Ok(config)
    }

    /// Connections in all.
    pub(crate) fn lanes(&self) -> usize {
        self.paths.len() * self.connections as usize
    }

    /// Bytes of every sample; `None`: they have several sizes.
    pub(crate) fn one_size(&self) -> Option<u32> {
        self.sizes.is_empty().then_some(self.size)
    }

    /// Bytes of the largest sample.
    pub(crate) fn largest_size(&self) -> u32 {
        self.sizes.last().copied().unwrap_or(self.size)
    }

    /// Whether some samples can carry a header and some cannot: our reflector then stamps a TCP connection's samples
    /// only up to the first short one.
    pub(crate) fn is_half_framed(&self) -> bool {
        let header = fathom_wire::HEADER_LEN as u32;
        self.size < header && self.largest_size() >= header
    }

    /// Packets of a sample each way, on the average, as large as Ethernet has them (1,448 bytes of TCP payload with
    /// its timestamp option). A sample of one given size counts as one.
    fn packets_a_sample(&self) -> f64 {
        let packets: u64 = self.sizes.iter().map(|size| u64::from(size.div_ceil(1_448))).sum();
        if self.sizes.is_empty() { 1.0 } else { packets as f64 / self.sizes.len() as f64 }
    }

    /// Samples a second on one connection, where the schedule says.
    pub(crate) fn rate_per_connection(&self) -> Option<f64> {
        match self.pace {
            Pace::Every(every_ns) => Some(1e9 / every_ns as f64),
            Pace::PingPong => None,
        }
    }

    /// Whether the rate needs `--allow-high-rate`, given that not all targets are on this host; says why.
    pub(crate) fn impolite(&self) -> Option<String> {
        if self.allow_high_rate {
            return None;
        }
        let add = "add --allow-high-rate if the path is yours to load";
        let Some(rate) = self.rate_per_connection() else {
            return Some(format!("--ping-pong sends to another host as fast as it answers; {add}"));
        };
        if self.connect && rate * self.lanes() as f64 > POLITE_CONNECTIONS {
            let all = rate * self.lanes() as f64;
            return Some(format!(
                "{all:.0} connections/s is above the polite {POLITE_CONNECTIONS:.0}, each leaving a port in TIME-WAIT for a minute; {add}"
            ));
        }
        let what = if self.sizes.is_empty() { "samples" } else { "packets" };
        let rate = rate * self.packets_a_sample();
        let all = rate * self.lanes() as f64;
        if rate > POLITE_PER_CONNECTION {
            Some(format!(
                "{rate:.0} {what}/s on one connection is above the polite {POLITE_PER_CONNECTION:.0}; {add}"
            ))
        } else if all > POLITE_IN_ALL {
            Some(format!("{all:.0} {what}/s in all is above the polite {POLITE_IN_ALL:.0}; {add}"))
        } else {
            None
        }
    }

    /// Whether connections are to be stamped by the kernel. Reading a stamp costs some µs after the echo: nothing at a
    /// human pace, a share of the rate back to back.
    pub(crate) fn stamped(&self) -> bool {
        match self.timestamps {
            // A connection that carries nothing has no bytes to stamp.
            _ if self.connect => false,
            Timestamps::Off => false,
            Timestamps::Require => true,
            Timestamps::Auto => {
                self.rate_per_connection().is_some_and(|rate| rate * self.lanes() as f64 <= STAMPED_RATE)
            }
        }
    }

    /// The mode as recordings and summaries name it.
    pub(crate) fn mode(&self) -> &'static str {
        match (self.transport, self.pace) {
            _ if self.connect => CONNECT,
            (Transport::Tcp, Pace::Every(_)) => "tcp",
            (Transport::Tcp, Pace::PingPong) => "tcp-ping-pong",
            (Transport::Udp, Pace::Every(_)) => "udp",
            (Transport::Udp, Pace::PingPong) => "udp-ping-pong",
        }
    }
}

fn checked_size(option: &str, size: u64, transport: Transport) -> Result<u32, Failure> {
    let largest = match transport {
        Transport::Tcp => u64::from(fathom_wire::MAX_LEN),
        Transport::Udp => MAX_DATAGRAM,
    };
    if size == 0 {
        return Err(Failure::usage(format!("{option} 0: an empty message has no echo; the smallest is 1")));
    }
    if size > largest {
        let unit = match transport {
            Transport::Tcp => "64MiB for TCP",
            Transport::Udp => "65507 bytes for UDP",
        };
        return Err(Failure::usage(format!("{option} {size}: the largest sample is {unit}")));
    }
    Ok(size as u32)
}

fn paths(args: &Args) -> Result<Vec<Path>, Failure> {
    let mut paths = Vec::with_capacity(args.targets.len());
    for text in &args.targets {
        let target = Target::parse(text).map_err(Failure::Usage)?;
        let label = match &args.label {
            Some(label) if args.targets.len() == 1 => label.clone(),
            Some(label) => format!("{label}-{target}"),
            None => target.host.clone(),
        };
        paths.push(Path { target, label });
    }
    // Two paths to one host (other ports, or the same again) need labels of their own.
    let labels: Vec<String> = paths.iter().map(|p| p.label.clone()).collect();
    for (i, path) in paths.iter_mut().enumerate() {
        if labels.iter().filter(|label| **label == path.label).count() > 1 {
            path.label = format!("{}-{}", path.target, i + 1);
        }
    }
    Ok(paths)
}

/// The configuration that a command line gives: for tests, here and of the driver.
#[cfg(test)]
pub(super) fn from_line(line: &str) -> Result<Config, String> {
    use clap::Parser;
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    let words = std::iter::once("probe").chain(line.split_whitespace());
    let line = Line::try_parse_from(words).map_err(|e| e.to_string())?;
    Config::new(line.args).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_defaults_are_the_articles_experiment() {
        let c = from_line("10.0.0.4").unwrap();
        assert_eq!(
            (c.pace, c.size, c.connections, c.count, c.duration),
            (Pace::Every(1_000_000_000), 64, 1, None, None)
        );
        assert_eq!(c.paths[0].target, Target { host: "10.0.0.4".into(), port: 7007 });
        assert!(c.reconnect && c.record == Record::Default && c.impolite().is_none());
    }

    #[test]
    fn targets_in_every_form() {
        for (text, host, port) in [
            ("db1", "db1", 7007),
            ("db1:7", "db1", 7),
            ("::1", "::1", 7007),
            ("[::1]", "::1", 7007),
            ("[fe80::1%eth0]:7", "fe80::1%eth0", 7),
        ] {
            assert_eq!(Target::parse(text), Ok(Target { host: host.into(), port }), "{text}");
        }
        for text in ["", ":7", "db1:0", "db1:99999", "[::1", "a b", "http://x"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_says_how_to_mend_it() {
        for (line, part) in [
            ("h --size 0", "smallest is 1"),
            ("h --size 100MiB", "largest sample is 64MiB"),
            ("h --size 64KiB --udp", "65507"),
            ("h --sizes 64,64KiB --udp", "65507"),
            ("h --sizes 64,100MiB", "largest sample is 64MiB"),
            ("h --sizes 64,128 --size 64", "cannot be used with"),
            ("h --sizes 64,128 --csv x.csv", "pool"),
            ("h --sizes 8..4", "below its beginning"),
            ("h --connect --ping-pong", "cannot be used with"),
            ("h --connect --udp", "cannot be used with"),
            ("h --connect --size 64", "cannot be used with"),
            ("h --connect --connections 2", "cannot be used with"),
            ("h --connect --csv x.csv", "cannot be used with"),
            ("h --every 0", "--ping-pong"),
            ("h --every -1s", "negative"),
            ("h --for 0", "until Ctrl-C"),
            ("h --priority --spin", "cannot be used with"),
            ("h -4 --source ::1", "family"),
            ("a b --csv x.csv", "export"),
            ("h --tag novalue", "as in"),
            ("h:0", "1 to 65535"),
            ("h --cloud-every 100ms", "1s"),
            ("h --metadata-url https://h", "without TLS"),
        ] {
            let error = from_line(line).expect_err(line);
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn paths_have_labels_of_their_own() {
        let labels =
            |line: &str| from_line(line).unwrap().paths.into_iter().map(|p| p.label).collect::<Vec<_>>();
        assert_eq!(labels("a b"), ["a", "b"]);
        assert_eq!(labels("a --label zone"), ["zone"]);
        assert_eq!(labels("a b --label zone"), ["zone-a:7007", "zone-b:7007"]);
        assert_eq!(labels("a:1 a:2"), ["a:1-1", "a:2-2"]);
    }

    #[test]
    fn loads_that_could_hurt_need_a_word() {
        assert!(from_line("h --every 100us").unwrap().impolite().is_some());
        assert!(from_line("h --every 1ms --connections 60").unwrap().impolite().is_some());
        assert!(from_line("h --every 1ms --connections 50").unwrap().impolite().is_none());
        assert!(from_line("h --ping-pong").unwrap().impolite().is_some());
        assert!(from_line("h --connect --every 10ms").unwrap().impolite().is_none());
        assert!(from_line("h --connect --every 5ms").unwrap().impolite().unwrap().contains("TIME-WAIT"));
        assert!(from_line("h i --connect --every 15ms").unwrap().impolite().is_some(), "both together");
        // A mebibyte is 725 packets, so that ten of them and ten of one a second are 7,260 packets.
        assert!(from_line("h --sizes 64,1MiB --every 100ms").unwrap().impolite().is_none());
        assert!(
            from_line("h --sizes 64,1MiB --every 50ms").unwrap().impolite().unwrap().contains("7260 packets")
        );
        assert!(from_line("h --ping-pong --allow-high-rate").unwrap().impolite().is_none());
    }
}
