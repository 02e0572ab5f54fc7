//! What of a configuration concerns the probe's behaviour.

use super::{Config, Transport};
use fathom_core::probe::{self, LoadSettings, Request, Settings};
use std::time::Duration;

impl Config {
    /// `session` tells this run's messages from any other's.
    pub(crate) fn settings(&self, session: u32) -> Settings {
        let config = self;
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Settings {
            session,
            targets: config.paths.iter().map(|path| path.target.to_string()).collect(),
            connections: config.connections,
            transport: match config.transport {
                Transport::Tcp => probe::Transport::Tcp,
                Transport::Udp => probe::Transport::Udp,
            },
            request: match (config.connect, config.stamp) {
                (true, _) => Request::Connect { tls: config.tls.is_some() },
                (false, Some(reflector)) => Request::Stamp(reflector),
                (false, None) => Request::Echo,
            },
            pace: config.pace,
            size: config.size,
            sizes: config.sizes.clone(),
            idle_gaps_ns: config.idle_gaps_ns.clone(),
            count: config.count,
            duration_ns: config.duration.map(ns),
            warm_up: config.warm_up,
            timeout_ns: ns(config.timeout),
            give_up_ns: config.give_up.map(ns),
            stall_after_ns: config.stall_after.map(ns),
            reconnect: config.reconnect,
            reconnect_at_most_ns: ns(config.reconnect_at_most),
            connect_rate: config.connect_rate,
            secret: config.secret.clone(),
            keep_trying: config.keep_trying,
            watches_pauses: config.pause_clock.is_some(),
            load: config.load.map(|load| LoadSettings {
                phase_ns: load.phase_ns,
                bits_per_s: load.bits_per_s,
                connections: load.connections,
            }),
        }
    }
}
