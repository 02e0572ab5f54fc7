//! What a probe run is, checked: everything later code relies on holds once this is built.

mod load;
mod operate;
mod polite;
mod settings;
mod target;

pub(crate) use load::LoadPlan;
pub(crate) use operate::{Command, Operate};
pub(crate) use polite::{POLITE_IN_ALL, POLITE_PER_CONNECTION};
pub(crate) use target::{Path, Target};

use super::args::{Args, OnFull, Timestamps};
use super::formats::Formats;
use super::tls::Tls;
use crate::exit::Failure;
use fathom_core::gaps::WARM;
use fathom_core::loss::Reflector;
use fathom_core::marks;
use fathom_core::schedule::Pace;
use fathom_core::summary::{CONNECT, CONNECT_TLS};
use fathom_core::text::count;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The largest datagram payload of UDP over IPv4: 65,535 less 20 for IP and 8 for UDP.
const MAX_DATAGRAM: u64 = 65_507;

/// The articles' pace and size.
const DEFAULT_EVERY: Duration = Duration::from_secs(1);
const DEFAULT_SIZE: u64 = 64;
/// TCP_USER_TIMEOUT is an `int` of milliseconds for Linux, and a negative one is refused; these are whole days, for people.
const USER_TIMEOUT_MS: u128 = 24 * 86_400_000;

/// Runs of up to so many samples a second in all are stamped by the kernel without being asked.
const STAMPED_RATE: f64 = 1_000.0;

/// What `fathom fabric exec` tells its commands.
pub(crate) const FABRIC_HOST: &str = "FATHOM_FABRIC_HOST";

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
    /// What its figures may not be taken for.
    pub(crate) marks: Vec<String>,
    pub(crate) pace: Pace,
    /// Each sample is a connection.
    pub(crate) connect: bool,
    /// ...with a TLS handshake.
    pub(crate) tls: Option<Tls>,
    /// Bytes of a sample; of a sweep, the smallest.
    pub(crate) size: u32,
    /// The sizes of a sweep, ascending; empty: it is none.
    pub(crate) sizes: Vec<u32>,
    /// The silences between samples, ascending, in ns; empty: there are none.
    pub(crate) idle_gaps_ns: Vec<u64>,
    pub(crate) count: Option<u64>,
    pub(crate) duration: Option<Duration>,
    pub(crate) connections: u32,
    /// Probing threads that share them.
    pub(crate) threads: usize,
    pub(crate) warm_up: u64,
    pub(crate) transport: Transport,
    /// Samples are STAMP packets, to such a reflector.
    pub(crate) stamp: Option<Reflector>,
    pub(crate) allow_high_rate: bool,
    /// The load beside the samples.
    pub(crate) load: Option<LoadPlan>,
    pub(crate) timeout: Duration,
    pub(crate) give_up: Option<Duration>,
    pub(crate) user_timeout: Option<Duration>,
    pub(crate) stall_after: Option<Duration>,
    pub(crate) pause_clock: Option<Duration>,
    pub(crate) reconnect: bool,
    /// The longest wait before another attempt to connect.
    pub(crate) reconnect_at_most: Duration,
    /// Attempts to connect a second; none: as many as come.
    pub(crate) connect_rate: Option<u32>,
    /// What the reflector wants to see that this probe knows.
    pub(crate) secret: Option<fathom_wire::Secret>,
    pub(crate) keep_trying: bool,
    pub(crate) family: Family,
    pub(crate) source: Option<IpAddr>,
    pub(crate) dscp: Option<u8>,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) via: Option<String>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) cloud: fathom_cloud::Settings,
    pub(crate) record: Record,
    /// Whether other accounts of this host may read the recordings.
    pub(crate) readable: bool,
    pub(crate) on_full: OnFull,
    pub(crate) csv: Option<PathBuf>,
    pub(crate) formats: Formats,
    pub(crate) show: Show,
    pub(crate) operate: Operate,
    pub(crate) json: bool,
    pub(crate) timestamps: Timestamps,
    pub(crate) cpu: Option<usize>,
    pub(crate) recorder_cpu: Option<usize>,
    pub(crate) cpu_latency_us: Option<u32>,
    pub(crate) spin: bool,
    pub(crate) priority: bool,
}

/// The secret of `--key`. What shows that it is known stands in the header of a message.
fn secret(file: Option<&std::path::Path>, size: u32) -> Result<Option<fathom_wire::Secret>, Failure> {
    const LEAST: usize = fathom_wire::HEADER_LEN;
    if file.is_some() && (size as usize) < LEAST {
        return Err(Failure::usage(format!(
            "--key: messages of {} have no room for its code; give {LEAST} bytes or more (--size, --sizes)",
            count(size.into(), "byte")
        )));
    }
    file.map(crate::key_file::read).transpose()
}

impl Config {
    /// Checks the arguments together.
    pub(crate) fn new(mut args: Args) -> Result<Self, Failure> {
        args.apply_profile();
        let (every, size) = (args.every.unwrap_or(DEFAULT_EVERY), args.size.unwrap_or(DEFAULT_SIZE));
        let stamp = args.stamp.reflector();
        let transport = if args.udp || stamp.is_some() { Transport::Udp } else { Transport::Tcp };
        let sizes = args.sizes.as_ref().map_or(&[][..], |sizes| &sizes.0[..]);
        let sizes = sizes.iter().map(|&size| checked_size("--sizes", size, transport));
        let sizes: Vec<u32> = sizes.collect::<Result<_, Failure>>()?;
        let size = sizes.first().map_or_else(|| checked_size("--size", size, transport), |size| Ok(*size))?;
        // A connection carries nothing.
        let size = if args.connect { 0 } else { size };
        let size = if stamp.is_some() { super::stamp::size(args.size, &sizes)? } else { size };
        if !sizes.is_empty() && args.csv.is_some() {
            return Err(Failure::usage(
                "--csv has no column for a sample's size, so its readers would pool the sizes; use `fathom recording export` on the recording",
            ));
        }
        let idle_gaps_ns: Vec<u64> =
            args.idle_gap.iter().flat_map(|gaps| &gaps.0).map(|gap| gap.as_nanos() as u64).collect();
        // What follows a silence, and is waited for, is back to back.
        let pace = if args.ping_pong || !idle_gaps_ns.is_empty() {
            Pace::PingPong
        } else if every.is_zero() {
            return Err(Failure::usage(
                "--every 0: samples need time between them; for back to back use --ping-pong",
            ));
        } else {
            Pace::Every(every.as_nanos() as u64)
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
        if args.formats.lacks_latte() {
            return Err(Failure::usage(
                "--latte-hc and --latte-hl are of latte's histogram; add --latte, or leave them out",
            ));
        }
        if let Some(cpu) = args.recorder_cpu.filter(|cpu| args.cpu == Some(*cpu)) {
            return Err(Failure::usage(format!(
                "--recorder-cpu {cpu}: there the probing thread of --cpu {cpu} would wait for it; name another, or leave it out"
            )));
        }
        if args.reconnect_at_most.is_zero() {
            return Err(Failure::usage(
                "--reconnect-at-most 0: attempts need time between them; the default is 5s",
            ));
        }
        if let Some((warm_up, count)) =
            args.warm_up.zip(args.count).filter(|(warm_up, count)| warm_up >= count)
        {
            return Err(Failure::usage(format!(
                "--warm-up {warm_up} leaves none of --count {count} for the figures; give a larger --count"
            )));
        }
        if let Some(limit) = args.user_timeout.filter(|limit| limit.as_millis() > USER_TIMEOUT_MS) {
            return Err(Failure::usage(format!(
                "--user-timeout {}s: the kernel counts it in milliseconds and takes 24 days (576h) at most; give less, or leave it out for the kernel's own limit",
                limit.as_secs()
            )));
        }
        let paths = target::paths(&args)?;
        let load = LoadPlan::new(&args)?;
        let (url, every) = (args.metadata_url, args.cloud_every);
        let cloud = fathom_cloud::Settings::new(args.cloud, url, every, args.cloud_tags)
            .map_err(|e| Failure::usage(e.to_string()))?;
        let connections = paths.len().max(1) * args.connections as usize;
        let threads = checked_threads(args.threads, pace, connections)?;
        let config = Self {
            paths,
            marks: marks(args.mark),
            pace,
            connect: args.connect,
            tls: Tls::new(&args.tls)?,
            size,
            sizes,
            idle_gaps_ns,
            count: args.count,
            duration: args.duration,
            connections: args.connections,
            threads,
            warm_up: args.warm_up.unwrap_or(0),
            transport,
            stamp,
            allow_high_rate: args.allow_high_rate,
            load,
            timeout: args.timeout,
            give_up: args.give_up.0,
            user_timeout: args.user_timeout,
            stall_after: args.stall_after.0,
            pause_clock: args.pause_clock.0,
            reconnect: !args.no_reconnect,
            reconnect_at_most: args.reconnect_at_most,
            secret: secret(args.key.as_deref(), size)?,
            connect_rate: (args.connect_rate > 0).then_some(args.connect_rate),
            keep_trying: args.keep_trying,
            family,
            source: args.source,
            dscp: args.dscp,
            from: args.from,
            to: args.to,
            via: args.via,
            tags: tags(args.tags)?,
            cloud,
            record: match (args.no_record, args.record) {
                (true, _) => Record::No,
                (_, Some(dir)) => Record::Into(dir),
                _ => Record::Default,
            },
            readable: args.readable,
            on_full: args.on_full,
            csv: args.csv,
            formats: args.formats,
            operate: Operate::new(args.operate)?,
            show: match (args.plain, args.quiet) {
                (true, _) => Show::Plain,
                (_, true) => Show::Nothing,
                _ => Show::Auto,
            },
            json: args.json,
            timestamps: args.timestamps,
            cpu: args.cpu,
            recorder_cpu: args.recorder_cpu,
            cpu_latency_us: args.cpu_latency,
            spin: args.spin,
            priority: args.priority,
        };
        config.refuse_files_of_several_targets()?;
        Ok(config)
    }

    /// A file of rows in another tool's format holds one path.
    fn refuse_files_of_several_targets(&self) -> Result<(), Failure> {
        let csv = self.csv.as_ref().map(|_| "--csv");
        let log = self.formats.sockperf_log.as_ref().map(|_| "--sockperf-log");
        match csv.or(log).filter(|_| self.paths.len() > 1) {
            Some(option) => Err(Failure::usage(format!(
                "{option} FILE holds one path; with several targets use `fathom recording export --format …` on each recording"
            ))),
            None => Ok(()),
        }
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

    /// Samples a second on one connection, where the schedule says; with silences, at the most.
    pub(crate) fn rate_per_connection(&self) -> Option<f64> {
        match self.pace {
            Pace::PingPong if !self.idle_gaps_ns.is_empty() => {
                let bursts = self.idle_gaps_ns.len() as f64;
                let silent_ns: f64 = self.idle_gaps_ns.iter().map(|&ns| ns as f64).sum();
                Some(bursts * f64::from(1 + WARM) * 1e9 / silent_ns)
            }
            Pace::Every(every_ns) => Some(1e9 / every_ns as f64),
            Pace::PingPong => None,
        }
    }

    /// Whether the probing thread packs the samples: back to back, where no other thread needs each of them, or at once.
    pub(crate) fn packs(&self) -> bool {
        let alike = self.paths.len() == 1 && self.sizes.is_empty() && self.load.is_none() && !self.connect;
        let one_by_one =
            self.csv.is_some() || self.formats.sockperf_log.is_some() || self.show == Show::Plain;
        let at_once = self.operate.rotation.is_some() || self.operate.interval.is_some();
        self.rate_per_connection().is_none() && alike && !one_by_one && !at_once
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
            _ if self.tls.is_some() => CONNECT_TLS,
            _ if self.connect => CONNECT,
            (_, Pace::Every(_)) if self.stamp.is_some() => "stamp",
            (_, Pace::PingPong) if self.stamp.is_some() => "stamp-ping-pong",
            (Transport::Tcp, _) if !self.idle_gaps_ns.is_empty() => "tcp-idle-gap",
            (Transport::Udp, _) if !self.idle_gaps_ns.is_empty() => "udp-idle-gap",
            (Transport::Tcp, Pace::Every(_)) => "tcp",
            (Transport::Tcp, Pace::PingPong) => "tcp-ping-pong",
            (Transport::Udp, Pace::Every(_)) => "udp",
            (Transport::Udp, Pace::PingPong) => "udp-ping-pong",
        }
    }
}

/// One thread keeps the schedules of ten thousand connections; more are for those that wait for their own echo.
fn checked_threads(threads: u32, pace: Pace, connections: usize) -> Result<usize, Failure> {
    let threads = threads as usize;
    if threads > 1 && pace != Pace::PingPong {
        return Err(Failure::usage(
            "--threads is for --ping-pong: one thread keeps the schedules of ten thousand connections",
        ));
    }
    if threads > connections {
        return Err(Failure::usage(format!(
            "--threads {threads}: {connections} connections cannot be shared among more threads than they are; raise --connections"
        )));
    }
    Ok(threads)
}

/// What was said, and that this process runs on a host of an emulated network.
pub(crate) fn marks(said: Vec<String>) -> Vec<String> {
    let emulated = std::env::var_os(FABRIC_HOST).is_some().then(|| marks::EMULATED.to_owned());
    let mut marks: Vec<String> = emulated.into_iter().chain(said).collect();
    marks.sort_unstable();
    marks.dedup();
    marks
}

/// By their keys, each of which is given once.
pub(crate) fn tags(given: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let mut tags = BTreeMap::new();
    for (key, value) in given {
        if let Some(before) = tags.insert(key.clone(), value.clone()) {
            return Err(Failure::usage(format!(
                "--tag {key} is given twice ({key}={before}, {key}={value}); a tag has one value"
            )));
        }
    }
    Ok(tags)
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
mod tests;
