//! The arguments of `fathom limits`, and what they mean.

use crate::exit::Failure;
use crate::probe::{Family, Target, session};
use crate::{key_file, values};
use fathom_core::limits::{AtMost, Limit, Settings, TooMany};
use fathom_core::text::count;
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
  fathom limits 10.0.0.4 --age --up-to 2h
                                         do connections in use end at some age?
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

    /// With --age: connections that are kept in use, begun at different moments
    #[arg(long, value_name = "N", default_value_t = 24, requires = "age", value_parser = clap::value_parser!(u32).range(8..=1_000))]
    connections: u32,

    /// Have the kernel send TCP keepalives this often on every connection: do they keep it open?
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    keepalive: Option<Duration>,

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

    /// Record what became of each connection, and the result, into DIR: `fathom recording explain DIR` tells it again
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
}

/// What is to be done.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) target: Target,
    pub(super) family: Family,
    pub(super) source: Option<IpAddr>,
    pub(super) keepalive: Option<Duration>,
    pub(super) limit: Limit,
    pub(super) settings: Settings,
    pub(super) record: Option<PathBuf>,
    pub(super) resume: Option<PathBuf>,
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

impl Args {
    pub(super) fn config(self) -> Result<Config, Failure> {
        let target = Target::parse(&self.target, Some(DEFAULT_PORT)).map_err(Failure::Usage)?;
        if !(SHORTEST..=LONGEST).contains(&self.up_to) {
            return Err(Failure::usage("--up-to: from 1s to 168h, as in --up-to 1h"));
        }
        if self.keepalive.is_some_and(|every| every < SHORTEST || every.subsec_nanos() > 0) {
            return Err(Failure::usage("--keepalive: whole seconds, as in --keepalive 30s"));
        }
        let settings = Settings {
            target: target.to_string(),
            up_to_ns: self.up_to.as_nanos() as u64,
            per_length: if self.age { self.connections } else { self.per_length },
            resolution: self.resolution,
            connections: AtMost(
                self.max_connections.max(if self.age { self.connections + 4 } else { 0 }) as usize
            ),
            keepalive_ns: self.keepalive.map(|every| every.as_nanos() as u64),
            session: session()?,
            secret: self.key.as_deref().map(key_file::read).transpose()?,
        };
        let room = if self.age { Ok(()) } else { settings.check() };
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
            limit: if self.age { Limit::Age } else { Limit::Idle },
            settings,
            record: self.record,
            resume: self.resume,
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
