//! The arguments of `fathom echo`.

use crate::values;
use fathom_reflector::{Listen, listen, network, stamp};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `fathom echo`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Listen here; may be given more than once. A port alone means every address of this host, port 0 any free
    /// port, tcp:// or udp:// before it one protocol only [default: [::]:7007]
    #[arg(short, long, value_name = "ADDR", value_parser = listen)]
    pub(super) listen: Vec<Listen>,

    /// Serve TCP only
    #[arg(long, conflicts_with = "udp_only")]
    pub(super) tcp_only: bool,

    /// Serve UDP only
    #[arg(long)]
    pub(super) udp_only: bool,

    #[command(flatten)]
    pub(super) stamp: StampArgs,

    /// Answer these networks only; may be given more than once [default: everybody]
    #[arg(long, value_name = "CIDR", value_parser = network)]
    pub(super) allow: Vec<IpNet>,

    /// Answer only who knows the secret in this file (`fathom probe --key` with the same): nothing else is echoed, stamped or
    /// told. The file is its owner's alone and holds 16 bytes or more
    #[arg(long, value_name = "FILE", conflicts_with_all = ["addresses", "port", "tds"])]
    pub(super) key: Option<PathBuf>,

    /// Serve at most this many connections at once; more are closed as they come [default: what the open-files
    /// limit allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_connections: Option<u32>,

    /// Close a connection on which nothing moved for so long [default: never]
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(super) idle_timeout: Option<Duration>,

    /// Answer UDP to any port. By default well-known ports (below 1024), port 7007 and the ports listened on here
    /// get no answer, so that two echo servers cannot be set against each other
    #[arg(long)]
    pub(super) udp_any_port: bool,

    /// Answer at most this many datagrams a second, all peers together, and half as many of one; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(super) udp_max_rate: u32,

    /// Look so often whether this host lets the reflector run, and tell probes when it did not: `off`, or a duration
    /// (12ms costs about 0.25 % of a core, and tells a length within 10ms)
    #[arg(long, value_name = "off|DURATION", default_value = "12ms", value_parser = values::off_or_period,
          allow_hyphen_values = true)]
    pub(super) pause_clock: values::OffOr,

    #[command(flatten)]
    pub(super) throughput: ThroughputArgs,

    #[command(flatten)]
    pub(super) tds: TdsArgs,

    /// Run on this CPU only
    #[arg(long, value_name = "N")]
    pub(super) cpu: Option<usize>,

    /// Keep every CPU of this host out of idle states that take longer than so many µs to leave, while the
    /// reflector runs (0 is the fastest; needs the right to write `/dev/cpu_dma_latency`)
    #[arg(long, value_name = "US")]
    pub(super) cpu_latency: Option<u32>,

    /// Never sleep: ask for work in a busy loop. Takes a whole CPU, answers tens of µs sooner
    #[arg(long)]
    pub(super) spin: bool,

    /// Stop after so long [default: when told to, by Ctrl-C or SIGTERM]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(super) run_for: Option<Duration>,

    /// Tell machines, one JSON object a line on standard output: where it listens, or that another socket has the
    /// port, and at the end what it served
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) cloud: CloudArgs,

    #[command(flatten)]
    pub(super) log: crate::log::LogArgs,
}

/// Arguments about the cloud's metadata service, as `fathom probe` has them.
#[derive(Debug, clap::Args)]
pub(super) struct CloudArgs {
    /// Whose metadata service to watch for maintenance of this host, and to tell probes of it: azure, aws, gcp, off, or auto to
    /// look which
    #[arg(long, env = "FATHOM_CLOUD", value_name = "CLOUD", default_value = "auto", hide_env_values = true)]
    pub(super) cloud: fathom_cloud::Choice,
    /// Ask the metadata service so often, 1s at the least [default: as suits the cloud]
    #[arg(long, value_name = "DURATION", value_parser = values::duration, allow_hyphen_values = true)]
    pub(super) cloud_every: Option<Duration>,
    /// Where the metadata service is, if not at 169.254.169.254
    #[arg(long, value_name = "URL")]
    pub(super) metadata_url: Option<String>,
}

/// Arguments of STAMP.
#[derive(Debug, clap::Args)]
pub(super) struct StampArgs {
    /// Answer STAMP test packets (RFC 8762, unauthenticated) too, on this UDP port or address; may be given more than
    /// once. Packets shorter than 44 bytes get no answer, because an answer is never longer than its packet
    #[arg(long = "stamp", value_name = "ADDR", num_args = 0..=1, default_missing_value = "862",
          value_parser = stamp)]
    pub(super) addresses: Vec<SocketAddr>,

    /// Repeat the numbers of STAMP packets instead of counting them by session: senders then cannot tell which way a
    /// packet was lost
    #[arg(long = "stamp-stateless", requires = "addresses")]
    pub(super) stateless: bool,
}

/// Arguments about throughput tests.
#[derive(Debug, clap::Args)]
pub(super) struct ThroughputArgs {
    /// Serve throughput tests too, those of `fathom probe --throughput` and of iperf3's TCP clients, one at a time, on
    /// this port of the addresses listened on (port 0: any free port) [without PORT: 5201]
    #[arg(long = "throughput", value_name = "PORT", num_args = 0..=1, default_missing_value = "5201")]
    pub(super) port: Option<u16>,

    /// Serve no throughput test longer than this
    #[arg(long = "throughput-longest", value_name = "DURATION", default_value = "60s", requires = "port",
          value_parser = values::duration)]
    pub(super) longest: Duration,
}

/// Arguments about clients of SQL Server.
#[derive(Debug, clap::Args)]
pub(super) struct TdsArgs {
    /// Serve clients of SQL Server too, on this port of the addresses listened on (port 0: any free port): they log in with any
    /// name, are granted the packet size they ask for, and read rows from a source without a disk. It is no database and guards
    /// nothing: it needs `--allow`, or addresses of this host alone (docs/tds.md) [without PORT: 1433]
    #[arg(long = "tds", id = "tds", value_name = "PORT", num_args = 0..=1, default_missing_value = "1433")]
    pub(super) port: Option<u16>,

    /// Encrypt for clients that want it, with a certificate made now and for this run: connect with
    /// `TrustServerCertificate`
    #[arg(long = "tds-encrypt", requires = "tds")]
    pub(super) encrypt: bool,

    /// Serve at most this many sessions at once; each takes a thread
    #[arg(long = "tds-sessions", value_name = "N", default_value_t = 64, requires = "tds",
          value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(super) sessions: u16,

    /// Give the kernel this much room for what is being sent (`SO_SNDBUF`): the less, the sooner sending is held up
    /// [default: the kernel's choice]
    #[arg(long = "tds-send-buffer", value_name = "SIZE", requires = "tds", value_parser = fathom_core::units::size)]
    pub(super) send_buffer: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  fathom echo                                  TCP and UDP on port 7007 of every address
  fathom echo --listen 7                       the standard echo port (needs a right)
  fathom echo --listen tcp://10.0.0.4:7007     one address, TCP only
  fathom echo --allow 10.0.0.0/8               answer the virtual network only
  fathom echo --key FILE                       answer only who knows the secret in the file
  fathom echo --idle-timeout 1h --max-connections 1000
  fathom echo --throughput                     answer throughput tests too, on port 5201
  fathom echo --tds --allow 10.0.0.0/8         serve clients of SQL Server, on port 1433
  fathom echo --stamp                          STAMP (RFC 8762) on UDP port 862 too, for others' senders
  fathom echo --cpu 1 --spin                   the steadiest answers, for one core

Then, on the other host: fathom probe THIS_HOST. For systemd, xinetd and cloud-init see infra/.";
