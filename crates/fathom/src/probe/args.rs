//! The arguments of `fathom probe`, as typed. What they mean together is `config`'s business.

mod client;
mod load;
mod operate;
mod profile;
mod throughput;

pub(crate) use client::{ClientArgs, a_second, refuse_beside_client};
pub(crate) use load::{LoadArgs, Rate};
pub(crate) use operate::OperateArgs;
pub(crate) use profile::Profile;
pub(crate) use throughput::ThroughputArgs;

use super::formats::Formats;
use crate::values;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  fathom probe 10.0.0.4                          once a second, 64 bytes, until Ctrl-C; recorded under ./recordings
  fathom probe db1:7 --for 11h --label same-zone --from az1 --to az1
                                                 the articles' experiment, against an xinetd echo server on port 7
  fathom probe a:7007 b:7007 c:7007 --every 100ms
                                                 three paths at the same moments, from this host
  fathom probe 10.0.0.4 --connections 16 --every 10s --plain
  fathom probe 10.0.0.4 --ping-pong --count 60000 --no-record --json
  fathom probe db1:5432 --connect --for 1h       how long a new connection to any listening port takes, once a second
  fathom probe www.example.com:443 --connect --tls --every 5s
                                                 the same with the TLS 1.3 handshake, both timed
  fathom probe 10.0.0.4 --sizes 64,1KiB,4KiB..1MiB --every 100ms --for 10m
                                                 how round trips grow with the size, all sizes at the same time of day
  fathom probe 10.0.0.4 --idle-gap 1s,10s,60s --size 64KiB --for 1h
                                                 what the first echo after a silence costs
  fathom probe 10.0.0.4 --every 10ms --load 200Mbit --for 5m
                                                 idle and loaded round trips from one run, by turns
  fathom probe 10.0.0.4 --throughput --connections 4 --bidirectional
                                                 how much TCP carries, as iperf3 tests it (there: fathom echo --throughput)
  fathom probe 10.0.0.4 --as-client POLICY.toml --rate 20 --for 1h
                                                 as an application with retries, pool and circuit breaker
  fathom probe 10.0.0.4 --profile sockperf --tcp --for 10s
  fathom probe --profile latte --show-config     what a profile stands for

Profiles:
  polite    one sample every 10s, for a path that is not yours
  article   the articles' echo client: once a second, 64 bytes, TCP, for 11h
  latte     latte -c -i 65100: TCP ping-pong of 4 bytes, 65,100 of them
  sockperf  sockperf ping-pong: UDP ping-pong of 14 bytes for 1s
  psping    psping -l 8k -n 10000: TCP ping-pong of 8 KiB, 10,000 after 5 as warm-up
  qperf     qperf tcp_lat: TCP ping-pong of 1 byte for 2s

Exit codes: 0 done (Ctrl-C too), 1 a target was never reached or answered nothing, a connection was lost, tried again and
not back at the end (--connect: the last two or more samples were refused), or the recording stopped, 2 the command line
cannot be used, 129 the terminal hung up. Any other hang-up (SIGHUP) ends nothing: it reopens --csv, --sockperf-log and --log-file.";

/// What a full disk means for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum OnFull {
    /// Probing goes on, and so does the recording when there is room again.
    #[default]
    Wait,
    /// The run ends.
    Exit,
}

/// Arguments of `fathom probe`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the reflector is: HOST, HOST:PORT or [IPV6]:PORT; the port is 7007 unless given (862 with --stamp, 5201 with --throughput)
    #[arg(required_unless_present = "show_config", value_name = "TARGET")]
    pub(super) targets: Vec<String>,

    /// A set of options under one name (below); options that are given count for more than the profile's
    #[arg(long, value_enum, value_name = "NAME", help_heading = "Special kinds of runs")]
    pub(super) profile: Option<Profile>,
    /// One sample so often on each connection, whether or not the last came back [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = values::duration, help_heading = "What to send", allow_hyphen_values = true)]
    pub(super) every: Option<Duration>,
    /// The next sample as soon as the last came back, instead of on a schedule
    ///
    /// Of datagrams, which may be lost, also after four times their usual p99 (20ms at the least).
    #[arg(long, conflicts_with = "every", help_heading = "What to send")]
    pub(super) ping_pong: bool,
    /// Time the making of connections instead of echoes: one a sample, closed at once; any listening TCP port will do
    #[arg(long, conflicts_with_all = ["ping_pong", "udp", "size", "sizes", "connections", "csv", "timestamps", "no_reconnect", "reconnect_at_most", "connect_rate", "stall_after"], help_heading = "What to send")]
    pub(super) connect: bool,
    #[command(flatten)]
    pub(super) tls: super::tls::TlsArgs,
    /// Bytes of a sample, each way (64 and more carry a header that a `fathom echo` can stamp) [default: 64; with --stamp 44; a block of --throughput: 128KiB]
    #[arg(long, value_name = "SIZE", value_parser = values::size, help_heading = "What to send", allow_hyphen_values = true)]
    pub(super) size: Option<u64>,
    /// Samples of all these sizes, each once a round in random order: sizes and ranges by commas, `4KiB..1MiB` doubling (below 64 bytes they carry no header: then no sample of a TCP connection is surely stamped)
    #[arg(long, value_name = "SIZES", conflicts_with = "size", value_parser = values::sizes, help_heading = "Special kinds of runs")]
    pub(super) sizes: Option<values::Sizes>,
    /// The first echo after a silence: keep each connection silent for each of these in turn, each once a round in random order, then send one sample, and three more back to back to compare it with
    #[arg(long, value_name = "DURATIONS", conflicts_with_all = ["every", "ping_pong", "connect", "sizes", "csv", "load"], value_parser = values::gaps, help_heading = "Special kinds of runs")]
    pub(super) idle_gap: Option<values::Gaps>,
    /// Stop after so many samples on each connection
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "What to send")]
    pub(super) count: Option<u64>,
    /// Stop after so long
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration, help_heading = "What to send", allow_hyphen_values = true)]
    pub(super) duration: Option<Duration>,
    /// Connections to each target, each sample at its own phase
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "What to send")]
    pub(super) connections: u32,
    /// Threads that share the connections of --ping-pong: each leads its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024), conflicts_with_all = ["load", "cpu"], help_heading = "Special kinds of runs")]
    pub(super) threads: u32,
    /// Samples at the start of the run that are recorded and flagged, but left out of the summary [default: 0]
    #[arg(long, value_name = "N", help_heading = "Special kinds of runs")]
    pub(super) warm_up: Option<u64>,
    /// Send datagrams instead of a TCP stream
    #[arg(long, help_heading = "What to send")]
    pub(super) udp: bool,
    #[command(flatten)]
    pub(super) stamp: super::stamp::StampArgs,
    /// Send on a TCP stream, as without a profile that says otherwise
    #[arg(long, conflicts_with = "udp", help_heading = "What to send")]
    pub(super) tcp: bool,
    /// Go above 5,000 samples/s a connection or 50,000/s in all, above 100 connections/s with --connect, a --load of as much, or --throughput, to another host (clouds may throttle you, and others notice)
    #[arg(long, help_heading = "What to send")]
    pub(super) allow_high_rate: bool,
    #[command(flatten)]
    pub(super) throughput: ThroughputArgs,
    #[command(flatten)]
    pub(super) client: ClientArgs,

    #[command(flatten)]
    pub(super) load: LoadArgs,

    /// Mark a sample as late after this long; the connection is kept and a late echo is still timed
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::duration, help_heading = "When it goes wrong", allow_hyphen_values = true)]
    pub(super) timeout: Duration,
    /// Close a connection that has owed an echo for this long: `never`, or a duration
    #[arg(long, value_name = "never|DURATION", default_value = "never", value_parser = never_or_duration, help_heading = "When it goes wrong", allow_hyphen_values = true)]
    pub(super) give_up: NeverOr,
    /// Let the kernel end a connection that has owed an acknowledgement for this long (TCP_USER_TIMEOUT; default: its own limit, about 15 minutes)
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["udp", "stamp"], value_parser = values::duration, help_heading = "When it goes wrong", allow_hyphen_values = true)]
    pub(super) user_timeout: Option<Duration>,
    /// Silence that counts as a stall: `auto` (4 x p99, at least 200ms), or a duration
    #[arg(long, value_name = "auto|DURATION", default_value = "auto", value_parser = auto_or_duration, help_heading = "When it goes wrong", allow_hyphen_values = true)]
    pub(super) stall_after: AutoOr,
    /// Look so often whether this host lets the probe run, to tell its pauses from the network's: `off`, or a duration (12ms costs about 0.25 % of a core, and tells a length within 10ms). With `off` nothing that is said of the path is sure
    #[arg(long, value_name = "off|DURATION", default_value = "12ms", value_parser = values::off_or_period, help_heading = "When it goes wrong", allow_hyphen_values = true)]
    pub(super) pause_clock: values::OffOr,
    /// End with the first connection that ends, instead of connecting again
    #[arg(long, help_heading = "When it goes wrong")]
    pub(super) no_reconnect: bool,
    /// Wait at most this long before another attempt to connect; the waits grow from 100 ms, with jitter
    #[arg(long, value_name = "DURATION", conflicts_with = "no_reconnect", value_parser = values::duration, default_value = "5s", help_heading = "When it goes wrong")]
    pub(super) reconnect_at_most: Duration,
    /// Attempt to connect at most so many times a second, all connections together, when the run begins and when they come back; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = fathom_core::probe::CONNECT_RATE, conflicts_with_all = ["udp", "stamp"], help_heading = "When it goes wrong")]
    pub(super) connect_rate: u32,
    /// Keep trying when the very first connection fails, or each is closed and none answered, instead of ending with an error; --for counts from the first connection (over UDP, which needs none, from the start)
    #[arg(long, conflicts_with = "no_reconnect", help_heading = "When it goes wrong")]
    pub(super) keep_trying: bool,

    /// Show the reflector that this probe knows the secret in this file, where it answers nobody else (`fathom echo --key`); the file is its owner's alone and holds 16 bytes or more
    #[arg(long, value_name = "FILE", conflicts_with_all = ["connect", "stamp", "load"], help_heading = "How to get there")]
    pub(super) key: Option<PathBuf>,
    /// Use IPv4 only
    #[arg(short = '4', long = "ipv4", conflicts_with = "ipv6", help_heading = "How to get there")]
    pub(super) ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long = "ipv6", help_heading = "How to get there")]
    pub(super) ipv6: bool,
    /// Send from this address
    #[arg(long, value_name = "ADDRESS", help_heading = "How to get there")]
    pub(super) source: Option<IpAddr>,
    /// Mark packets with this DSCP (RFC 2474), 0 to 63
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=63), help_heading = "How to get there")]
    pub(super) dscp: Option<u8>,

    /// Name of this path in recordings and reports (default: HOST[:PORT])
    #[arg(long, value_name = "TEXT", help_heading = "What to call it")]
    pub(super) label: Option<String>,
    /// Where the probe is, in your words (a zone, a region)
    #[arg(long, value_name = "TEXT", help_heading = "What to call it")]
    pub(super) from: Option<String>,
    /// Where the reflector is, in your words
    #[arg(long, value_name = "TEXT", help_heading = "What to call it")]
    pub(super) to: Option<String>,
    /// What lies between (peering, a load balancer, a firewall)
    #[arg(long, value_name = "TEXT", help_heading = "What to call it")]
    pub(super) via: Option<String>,
    /// Anything else worth knowing later; may be given again
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = key_value, help_heading = "What to call it")]
    pub(super) tags: Vec<(String, String)>,

    /// What the figures may not be taken for (`quick`: too short to count); shown before them everywhere
    #[arg(long = "mark", value_name = "MARK", value_parser = ["quick", "emulated"], hide = true, help_heading = "What to call it")]
    pub(super) mark: Vec<String>,

    /// Whose metadata service to watch for maintenance: azure, aws, gcp, off, or auto to look which (never delays the run)
    #[arg(
        long,
        env = "FATHOM_CLOUD",
        value_name = "CLOUD",
        default_value = "auto",
        hide_env_values = true,
        help_heading = "What the cloud says"
    )]
    pub(super) cloud: fathom_cloud::Choice,
    /// Record this tag of the machine too (GCP: custom metadata); may be given again, and no other tag is recorded
    #[arg(long = "cloud-tag", value_name = "NAME", help_heading = "What the cloud says")]
    pub(super) cloud_tags: Vec<String>,
    /// Ask the metadata service so often, 1s at the least [default: as suits the cloud]
    #[arg(long, value_name = "DURATION", value_parser = values::duration, help_heading = "What the cloud says", allow_hyphen_values = true)]
    pub(super) cloud_every: Option<Duration>,
    /// Where the metadata service is, if not at 169.254.169.254
    #[arg(long, value_name = "URL", help_heading = "What the cloud says")]
    pub(super) metadata_url: Option<String>,

    /// Record into this directory (with several targets: one directory for each in it) [default: ./recordings/LABEL-UTCTIME]
    #[arg(long, value_name = "DIR", help_heading = "What to keep and show")]
    pub(super) record: Option<PathBuf>,
    /// Record nothing
    #[arg(long, conflicts_with = "record", help_heading = "What to keep and show")]
    pub(super) no_record: bool,
    /// Let other accounts of this host read the recording, as far as the umask does; otherwise it is yours alone, since it names hosts
    #[arg(long, conflicts_with = "no_record", help_heading = "What to keep and show")]
    pub(super) readable: bool,

    /// When the disk is full: go on probing and record again when there is room, or end
    #[arg(long, value_enum, default_value_t = OnFull::Wait, conflicts_with = "no_record", value_name = "WHAT", help_heading = "What to keep and show")]
    pub(super) on_full: OnFull,
    /// Also append the articles' CSV columns to this file while running. SIGHUP reopens it after a rotation
    #[arg(long, value_name = "FILE", help_heading = "What to keep and show")]
    pub(super) csv: Option<PathBuf>,
    #[command(flatten)]
    pub(super) formats: Formats,
    /// A line a sample, as ping does, instead of the live view
    #[arg(long, conflicts_with_all = ["quiet", "json"], help_heading = "What to keep and show")]
    pub(super) plain: bool,
    /// Show nothing while running
    #[arg(short, long, help_heading = "What to keep and show")]
    pub(super) quiet: bool,
    /// Print the final summary as JSON, one object a target
    #[arg(long, help_heading = "What to keep and show")]
    pub(super) json: bool,
    /// Print what the options amount to, defaults and profile included (--json: as JSON), and send nothing
    #[arg(long, help_heading = "What to keep and show")]
    pub(super) show_config: bool,

    #[command(flatten)]
    pub(super) operate: OperateArgs,

    /// Split round trips by the kernel's stamps into send stack, network, reflector and receive stack: `auto` (where the kernel can, up to 1,000 samples/s in all), `off` or `require`
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Help from the machine (each is recorded with what was granted)"
    )]
    pub(super) timestamps: Timestamps,
    /// Run the probing thread on this processor only
    #[arg(
        long,
        value_name = "N",
        help_heading = "Help from the machine (each is recorded with what was granted)"
    )]
    pub(super) cpu: Option<usize>,
    /// Run the thread that writes the recording on this processor only: another than the probe's and the reflector's, where there is one
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "no_record",
        help_heading = "Help from the machine (each is recorded with what was granted)"
    )]
    pub(super) recorder_cpu: Option<usize>,
    /// Ask the kernel for idle states that wake within so many microseconds (0: none), system-wide while running; needs root
    #[arg(
        long,
        value_name = "US",
        help_heading = "Help from the machine (each is recorded with what was granted)"
    )]
    pub(super) cpu_latency: Option<u32>,
    /// Poll without sleeping: takes a whole processor, sees the floor of the path
    #[arg(long, help_heading = "Help from the machine (each is recorded with what was granted)")]
    pub(super) spin: bool,
    /// Run the probing thread under SCHED_FIFO with its memory locked; needs CAP_SYS_NICE
    #[arg(
        long,
        conflicts_with = "spin",
        help_heading = "Help from the machine (each is recorded with what was granted)"
    )]
    pub(super) priority: bool,

    #[command(flatten)]
    pub(super) log: crate::log::LogArgs,
}

/// `never`, or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeverOr(pub(super) Option<Duration>);

/// `auto`, or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AutoOr(pub(super) Option<Duration>);

fn never_or_duration(text: &str) -> Result<NeverOr, String> {
    if text == "never" {
        return Ok(NeverOr(None));
    }
    match values::duration(text).map_err(|e| e.to_string())? {
        Duration::ZERO => Err("no echo comes in no time; write never to close no connection".to_owned()),
        patience => Ok(NeverOr(Some(patience))),
    }
}

fn auto_or_duration(text: &str) -> Result<AutoOr, values::UnitError> {
    if text == "auto" { Ok(AutoOr(None)) } else { values::duration(text).map(|d| AutoOr(Some(d))) }
}

/// Whether to ask for the kernel's stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Timestamps {
    /// Where the kernel gives them, on schedules slow enough not to feel their cost.
    Auto,
    /// Never.
    Off,
    /// Always, or the run does not begin.
    Require,
}

pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text} has no key; write it as in vm=D3v2")),
    }
}
