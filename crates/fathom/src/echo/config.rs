//! From arguments to a configuration that can be run.

use super::Args;
use super::address::{DEFAULT_PORT, Listen, Protocol};
use super::allow::Allow;
use super::stamp::Kind;
use crate::exit::Failure;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

/// A validated configuration of a reflector.
#[derive(Debug)]
pub(super) struct Config {
    /// Where to listen, in the user's order, one entry a socket. TCP comes before UDP of the same address.
    pub(super) sockets: Vec<(Protocol, SocketAddr)>,
    /// Whether the user named the addresses; if not, sockets that systemd hands over take their place.
    pub(super) sockets_are_default: bool,
    /// What to do with STAMP packets.
    pub(super) stamp: Kind,
    pub(super) allow: Allow,
    /// None: as many as the open-files limit allows.
    pub(super) max_connections: Option<u32>,
    pub(super) idle_timeout_ns: Option<u64>,
    pub(super) udp_any_port: bool,
    /// Datagrams a second; none: no limit.
    pub(super) udp_max_rate: Option<u32>,
    pub(super) cpu: Option<usize>,
    /// µs.
    pub(super) cpu_latency_us: Option<u32>,
    pub(super) spin: bool,
    /// How often the pause clock ticks; none: pauses are not watched.
    pub(super) pause_clock: Option<Duration>,
    pub(super) run_for_ns: Option<u64>,
    pub(super) json: bool,
    /// None: throughput tests are not served.
    pub(super) throughput: Option<super::throughput::args::Settings>,
}

impl Config {
    pub(super) fn from_args(args: Args) -> Result<Self, Failure> {
        let wanted = |protocol| match protocol {
            Protocol::Tcp => !args.udp_only,
            Protocol::Udp | Protocol::Stamp => !args.tcp_only,
        };
        let everywhere = Listen { protocol: None, address: (Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into() };
        let sockets_are_default = args.listen.is_empty();
        let listens = if sockets_are_default { vec![everywhere] } else { args.listen };
        let mut sockets = Vec::new();
        for listen in listens {
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                let socket = (protocol, listen.address);
                if listen.protocol.is_some_and(|only| only != protocol) {
                    continue;
                }
                if !wanted(protocol) {
                    if listen.protocol.is_some() {
                        let (other, address) =
                            (if protocol == Protocol::Tcp { "udp" } else { "tcp" }, listen.address);
                        return Err(Failure::usage(format!(
                            "--listen {protocol}://{address} and --{other}-only exclude each other; leave one out"
                        )));
                    }
                } else if !sockets.contains(&socket) || listen.address.port() == 0 {
                    sockets.push(socket);
                }
            }
        }
        if args.tcp_only && !args.stamp.addresses.is_empty() {
            return Err(Failure::usage(
                "--stamp and --tcp-only exclude each other: STAMP is UDP; leave one out",
            ));
        }
        sockets.extend(args.stamp.addresses.iter().map(|&address| (Protocol::Stamp, address)));
        for (name, duration) in [("--idle-timeout", args.idle_timeout), ("--for", args.run_for)] {
            if duration.is_some_and(|d| d.is_zero()) {
                return Err(Failure::usage(format!(
                    "{name} 0 would end at once; give a duration, or leave it out"
                )));
            }
        }
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            sockets,
            sockets_are_default,
            stamp: args.stamp.kind(),
            allow: Allow::new(args.allow),
            max_connections: args.max_connections,
            idle_timeout_ns: args.idle_timeout.map(nanos),
            udp_any_port: args.udp_any_port,
            udp_max_rate: (args.udp_max_rate > 0).then_some(args.udp_max_rate),
            cpu: args.cpu,
            cpu_latency_us: args.cpu_latency,
            spin: args.spin,
            pause_clock: args.pause_clock.0,
            run_for_ns: args.run_for.map(nanos),
            json: args.json,
            throughput: super::throughput::args::Settings::new(&args.throughput)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn config(line: &[&str]) -> Result<Config, Failure> {
        let line = Line::try_parse_from([&["echo"], line].concat()).expect("clap takes the line");
        Config::from_args(line.args)
    }

    fn sockets(line: &[&str]) -> Vec<String> {
        let config = config(line).expect("a usable line");
        config.sockets.iter().map(|(protocol, address)| format!("{protocol} {address}")).collect()
    }

    #[test]
    fn both_protocols_on_each_address_unless_told() {
        assert_eq!(sockets(&[]), ["tcp [::]:7007", "udp [::]:7007"]);
        assert_eq!(sockets(&["--tcp-only"]), ["tcp [::]:7007"]);
        assert_eq!(sockets(&["--udp-only", "-l", "7"]), ["udp [::]:7"]);
        assert_eq!(
            sockets(&["-l", "tcp://7", "-l", "10.0.0.1:9", "-l", "udp://[::1]:5"]),
            ["tcp [::]:7", "tcp 10.0.0.1:9", "udp 10.0.0.1:9", "udp [::1]:5"]
        );
        assert_eq!(
            sockets(&["-l", "7", "-l", "tcp://7"]),
            ["tcp [::]:7", "udp [::]:7"],
            "the same twice is once"
        );
    }

    #[test]
    fn contradictions_are_usage_errors() {
        for line in [&["-l", "tcp://7", "--udp-only"][..], &["--idle-timeout", "0"], &["--for", "0"]] {
            assert!(matches!(config(line), Err(Failure::Usage(_))), "{line:?}");
        }
    }
}
