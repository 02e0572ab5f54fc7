//! From arguments to a configuration that can be run.

use super::Args;
use super::args::ThroughputArgs;
use crate::exit::Failure;
use fathom_reflector::{Allow, Config, DEFAULT_PORT, Kind, Listen, Protocol, Tds, Throughput};
use std::net::Ipv6Addr;
use std::time::Duration;

/// A configuration that can be run.
pub(super) fn from_args(args: Args) -> Result<Config, Failure> {
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
        return Err(Failure::usage("--stamp and --tcp-only exclude each other: STAMP is UDP; leave one out"));
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
    let throughput = throughput(&args.throughput)?;
    let tds = args.tds.port.map(|port| Tds {
        port,
        sessions: args.tds.sessions.into(),
        encrypt: args.tds.encrypt,
        send_buffer: args.tds.send_buffer.map(|bytes| bytes as usize),
    });
    let config = Config {
        sockets,
        sockets_are_default,
        stamp: if args.stamp.stateless { Kind::Stateless } else { Kind::Stateful },
        allow: Allow::new(args.allow),
        key: args.key.as_deref().map(crate::key_file::read).transpose()?,
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
        cloud: fathom_cloud::Settings::new(
            args.cloud.cloud,
            args.cloud.metadata_url,
            args.cloud.cloud_every,
            Vec::new(),
        )
        .map_err(|e| Failure::usage(e.to_string()))?,
        throughput,
        tds,
    };
    // A query of a hundred bytes draws gigabytes.
    if config.tds.is_some() && config.answers_strangers() {
        return Err(Failure::usage(
            "--tds sends whoever asks as many rows as they want: name who may with --allow, as in --allow 10.0.0.0/8, or \
             listen on this host alone with --listen 127.0.0.1:7007",
        ));
    }
    Ok(config)
}

/// None: no throughput tests are served.
fn throughput(args: &ThroughputArgs) -> Result<Option<Throughput>, Failure> {
    let Some(port) = args.port else { return Ok(None) };
    // Clients ask for whole seconds.
    let longest_s = u32::try_from(args.longest.as_secs()).unwrap_or(u32::MAX);
    if longest_s == 0 {
        return Err(Failure::usage(
            "--throughput-longest: the shortest test takes a second; write it as in 60s",
        ));
    }
    Ok(Some(Throughput { port, longest_s }))
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
        from_args(line.args)
    }

    fn sockets(line: &[&str]) -> Vec<String> {
        let config = config(line).expect("a usable line");
        config.sockets.iter().map(|(protocol, address)| format!("{protocol} {address}")).collect()
    }

    #[test]
    fn each_address_serves_both_protocols_by_default() {
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

    /// A query of a hundred bytes draws gigabytes: whose, the operator says, or it is nobody's but this host's.
    #[test]
    fn remote_tds_clients_need_allow_option() {
        let everybody: &[&[&str]] = &[
            &["--tds"],
            &["--tds", "0", "-l", "10.0.0.1:7"],
            &["--tds", "0", "-l", "127.0.0.1:7", "-l", "[::]:7"],
            &["--tds", "0", "-l", "127.0.0.1:7", "--stamp", "10.0.0.1:862"],
        ];
        for line in everybody {
            match config(line) {
                Err(Failure::Usage(why)) => assert!(why.contains("--allow 10.0.0.0/8"), "{why}"),
                other => panic!("{line:?}: {other:?}"),
            }
            assert!(config(&[line, &["--allow", "10.0.0.0/8"][..]].concat()).is_ok(), "{line:?}");
            assert!(config(&[line, &["--allow", "0.0.0.0/0"][..]].concat()).is_ok(), "it is said: everybody");
            let without: Vec<&str> =
                line.iter().copied().filter(|word| !matches!(*word, "--tds" | "0")).collect();
            assert!(config(&without).is_ok(), "{without:?}");
        }
        for this_host in ["127.0.0.1:7", "[::1]:7", "[::ffff:127.0.0.1]:7"] {
            assert!(config(&["--tds", "0", "-l", this_host]).is_ok(), "{this_host}");
        }
    }

    #[test]
    fn contradictions_are_usage_errors() {
        for line in [&["-l", "tcp://7", "--udp-only"][..], &["--idle-timeout", "0"], &["--for", "0"]] {
            assert!(matches!(config(line), Err(Failure::Usage(_))), "{line:?}");
        }
    }
}
