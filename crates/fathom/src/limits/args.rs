//! The arguments of `fathom limits`, and what they mean.

use crate::exit::Failure;
use crate::probe::{Family, Target, key_value, marks, session, tags};
use crate::{key_file, values};
use fathom_core::limits::{Asked, AtMost, Limit, OneWay, Settings, Side, TooMany};
use fathom_core::text::count;
use fathom_core::units::duration_compact;
use fathom_recording::PathLabels;
use fathom_reflector::DEFAULT_PORT;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  fathom limits 10.0.0.4                 up to 10 minutes, against a reflector (there: fathom echo)
  fathom limits db1:7 --up-to 2h         any echo server will do (xinetd's); an hour's limit takes 67m
  fathom limits 10.0.0.4 --up-to 1h --resolution 1% --max-connections 2000
                                         to within 1 % of the limit
  fathom limits 10.0.0.4 --keepalive 60s --up-to 1h
                                         does a TCP keepalive once a minute keep connections open?
  fathom limits 10.0.0.4 --one-way 30s   does traffic from here alone; from there: --one-way-from there
  fathom limits 10.0.0.4 --age --up-to 2h
                                         do connections in use end at some age?
  fathom limits 10.0.0.4 --rate-ceiling 5000
                                         at how many packets a second does loss or delay begin?
  fathom limits 10.0.0.4 --record idle   keep the evidence; later: fathom recording explain idle
  fathom limits 10.0.0.4 --resume idle --record idle2
                                         go on where that ended early
  fathom limits 10.0.0.4 --json | jq '.survived.idle_ns / 1e9'
                                         a keepalive that is shorter keeps connections alive

It opens hundreds of connections, 40 a second, and leaves them idle (--age: 24, one after the other, and keeps
them in use): docs/limits.md.

Exit codes: 0 a result (Ctrl-C: what is known by then), 1 no connection, no echo, or something else ended
connections again and again, 2 the command line cannot be used.";

/// The shortest search: a few lengths.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_hours(7 * 24);
/// More packets a second than these only with `--allow-high-rate`.
const POLITE_PER_CONNECTION: u32 = 5_000;
const POLITE_IN_ALL: u32 = 50_000;

/// Of the options that `fathom probe` has, too: recordings of one path are to lie together.
const CALLED: &str = "What to call it, with --record";

/// Arguments of `fathom limits`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Echo server at the other end of the path: HOST, HOST:PORT or [IPV6]:PORT [default port: 7007]
    #[arg(value_name = "HOST")]
    target: String,

    /// Look for the age at which connections end though they are in use, instead of for how long they may be idle
    #[arg(long, conflicts_with_all = ["per_length", "resolution", "max_connections", "keepalive"])]
    age: bool,

    /// Look for the packets a second, up to so many, at which loss or delay begins: in steps of a quarter from 50/s, which stop
    /// at the first. Over --connections, of all together [default: 1]
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(100..=1_000_000), conflicts_with_all = ["age", "per_length", "resolution", "max_connections", "keepalive", "one_way", "up_to"])]
    rate_ceiling: Option<u32>,

    /// With --rate-ceiling: above 5,000/s on a connection or 50,000/s in all
    #[arg(long, requires = "rate_ceiling")]
    allow_high_rate: bool,

    /// Longest idleness that is tried (with --age: highest age)
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = values::duration)]
    up_to: Duration,

    /// Connections that are idle for each length
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    per_length: u32,

    /// How far apart the two ends of the result may be, as a share of the limit (never below 0.25s)
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    resolution: f64,

    /// Most connections that may be open at one time
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(16..=50_000))]
    max_connections: u32,

    /// With --age: connections that are kept in use, begun at different moments [default: 24]; with --rate-ceiling: over
    /// which the packets go
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    connections: Option<u32>,

    /// Have the kernel send TCP keepalives this often on every connection: do they keep it open?
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    keepalive: Option<Duration>,

    /// Idle connections have traffic in one direction: a small segment this often, which nobody answers. Does that keep them
    /// open? It needs `fathom echo` at the other end
    #[arg(long, value_name = "TIME", value_parser = values::duration, conflicts_with_all = ["age", "keepalive"])]
    one_way: Option<Duration>,

    /// With --one-way: who sends it, this host (here) or the reflector (there)
    #[arg(long, value_name = "SIDE", default_value = "here", requires = "one_way", value_parser = side)]
    one_way_from: Side,

    /// Show the reflector that this host knows the secret in this file, as `fathom probe --key` does
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Connect from this address of this host
    #[arg(long, value_name = "ADDR")]
    source: Option<IpAddr>,

    /// IPv4 only
    #[arg(short = '4', long = "ipv4", conflicts_with = "ipv6")]
    ipv4: bool,

    /// IPv6 only
    #[arg(short = '6', long = "ipv6")]
    ipv6: bool,

    /// Record what became of each connection (or step), and the result, into DIR: `fathom recording explain DIR` tells it again
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Go on where the search of the same target ended that was recorded in DIR: what it judged is not tried again
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,

    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,

    /// Print nothing but the result
    #[arg(short, long)]
    quiet: bool,

    /// Name of this path in recordings and reports (default: HOST[:PORT])
    #[arg(long, value_name = "TEXT", requires = "record", help_heading = CALLED)]
    label: Option<String>,
    /// Where this host is, in your words (a zone, a region)
    #[arg(long, value_name = "TEXT", requires = "record", help_heading = CALLED)]
    from: Option<String>,
    /// Where the echo server is, in your words
    #[arg(long, value_name = "TEXT", requires = "record", help_heading = CALLED)]
    to: Option<String>,
    /// What lies between (peering, a load balancer, a firewall)
    #[arg(long, value_name = "TEXT", requires = "record", help_heading = CALLED)]
    via: Option<String>,
    /// Anything else worth knowing later; may be given again
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = key_value, requires = "record", help_heading = CALLED)]
    tags: Vec<(String, String)>,
    /// What the result may not be taken for
    #[arg(long = "mark", value_name = "MARK", value_parser = ["quick", "emulated"], hide = true)]
    mark: Vec<String>,
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) target: Target,
    pub(super) family: Family,
    pub(super) source: Option<IpAddr>,
    pub(super) keepalive: Option<Duration>,
    pub(super) limit: Limit,
    /// A rate ceiling is looked for instead.
    pub(super) rate: Option<Asked>,
    pub(super) settings: Settings,
    pub(super) record: Option<PathBuf>,
    pub(super) resume: Option<PathBuf>,
    pub(super) label: Option<String>,
    pub(super) path: PathLabels,
    pub(super) marks: Vec<String>,
    pub(super) json: bool,
    pub(super) quiet: bool,
}

/// `2%`: a share of 0.5 % to 50 %.
fn share(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match percent {
        Some(percent) if (0.5..=50.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write a share from 0.5% to 50%, as in 2%".to_owned()),
    }
}

/// `here` or `there`.
fn side(text: &str) -> Result<Side, String> {
    match text {
        "here" => Ok(Side::Here),
        "there" => Ok(Side::There),
        _ => Err("write here, or there".to_owned()),
    }
}

impl Args {
    /// Connections that are kept in use, or over which packets go.
    fn connections(&self) -> Result<u32, Failure> {
        match (self.connections, self.age, self.rate_ceiling) {
            (Some(_), false, None) => Err(Failure::usage(
                "--connections: it is for --age or --rate-ceiling; a search for the idle limit has --per-length",
            )),
            (Some(few), true, _) if few < 8 => Err(Failure::usage(
                "--connections: with --age 8 or more, because fewer do not tell an age from chance",
            )),
            (given, _, rate) => Ok(given.unwrap_or(if rate.is_some() { 1 } else { 24 })),
        }
    }

    /// The rate ceiling that is looked for, if one is.
    fn rate(&self, connections: u32) -> Result<Option<Asked>, Failure> {
        let Some(up_to_per_s) = self.rate_ceiling else { return Ok(None) };
        let most = POLITE_PER_CONNECTION.saturating_mul(connections).min(POLITE_IN_ALL);
        if up_to_per_s > most && !self.allow_high_rate {
            return Err(Failure::usage(format!(
                "--rate-ceiling {up_to_per_s}: more than {most}/s over {} may harm a path that others use; allow it with --allow-high-rate",
                count(connections.into(), "connection")
            )));
        }
        Ok(Some(Asked { up_to_per_s, connections }))
    }

    pub(super) fn config(self) -> Result<Config, Failure> {
        let connections = self.connections()?;
        let rate = self.rate(connections)?;
        let target = Target::parse(&self.target, Some(DEFAULT_PORT)).map_err(Failure::Usage)?;
        if !(SHORTEST..=LONGEST).contains(&self.up_to) {
            return Err(Failure::usage("--up-to: from 1s to 168h, as in --up-to 1h"));
        }
        if self.keepalive.is_some_and(|every| every < SHORTEST || every.subsec_nanos() > 0) {
            return Err(Failure::usage("--keepalive: whole seconds, as in --keepalive 30s"));
        }
        let one_way =
            self.one_way.map(|every| OneWay { every_ns: every.as_nanos() as u64, from: self.one_way_from });
        let settings = Settings {
            target: target.to_string(),
            up_to_ns: self.up_to.as_nanos() as u64,
            per_length: if self.age { connections } else { self.per_length },
            resolution: self.resolution,
            connections: AtMost(self.max_connections.max(if self.age { connections + 4 } else { 0 }) as usize),
            keepalive_ns: self.keepalive.map(|every| every.as_nanos() as u64),
            one_way,
            session: session()?,
            secret: self.key.as_deref().map(key_file::read).transpose()?,
        };
        if let Some(OneWay { every_ns, from }) = one_way {
            let least_ns = if from == Side::There { settings.least_every_ns() } else { 1_000_000_000 };
            if every_ns < least_ns || every_ns % 1_000_000 > 0 {
                let (why, least) = match from {
                    Side::There => {
                        (", because a reflector sends 128 segments on a connection at the most", least_ns)
                    }
                    Side::Here => ("", least_ns),
                };
                return Err(Failure::usage(format!(
                    "--one-way: {} or more{why}, as in --one-way 30s",
                    duration_compact(least)
                )));
            }
        }
        let room = if self.age || rate.is_some() { Ok(()) } else { settings.check() };
        room.map_err(|TooMany { needed }| {
            Failure::usage(format!(
                "this needs {} at one time and may have {}; allow them with --max-connections {needed}, or ask for less with --per-length, --up-to or --resolution",
                count(needed as u64, "connection"),
                self.max_connections
            ))
        })?;
        let family = match (self.ipv4, self.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        };
        Ok(Config {
            target,
            family,
            source: self.source,
            keepalive: self.keepalive,
            rate,
            limit: if self.age { Limit::Age } else { Limit::Idle },
            settings,
            record: self.record,
            resume: self.resume,
            label: self.label,
            path: PathLabels { from: self.from, to: self.to, via: self.via, tags: tags(self.tags)? },
            marks: marks(self.mark),
            json: self.json,
            quiet: self.quiet,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_as_people_write_them() {
        assert_eq!(share("2%"), Ok(0.02));
        assert_eq!(share(" 0.5 %"), Ok(0.005));
        for text in ["2", "0%", "51%", "half", "%", "NaN%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
