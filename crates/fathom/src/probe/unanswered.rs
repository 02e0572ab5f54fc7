//! What a target that has answered nothing is asked about, in a line: while the run goes on, and as its last word.

use super::config::{Config, Transport};
use super::live_state::{LiveStates, lock};
use crate::output::tell;
use fathom_core::event::{Event, EventKind};

use std::fmt::Display;

/// The question that helps; `how` says since when, before it.
pub(super) fn question(config: &Config, target: &dyn Display, how: &str) -> String {
    let remedy = if config.stamp.is_some() {
        "does a STAMP reflector listen there (`fathom echo --stamp`), and do firewalls let UDP through?"
    } else if config.secret.is_none() {
        "is it a reflector (`fathom echo`, or an RFC 862 server), and does it want a key (--key)?"
    } else if config.transport == Transport::Udp {
        "does its `fathom echo` have the same --key? Without one it leaves such datagrams unanswered"
    } else {
        "does its `fathom echo` have the same --key?"
    };
    format!("{target} {how}; {remedy}")
}

/// Tells of each path once, with its first silence or when the end of a connection has been looked into: a run without an end
/// would wait, or connect again and again, and never come to its last word.
#[derive(Debug)]
pub(super) struct Unanswered {
    told: Vec<bool>,
}

impl Unanswered {
    pub(super) fn of(config: &Config) -> Self {
        // Connections that are made and closed have no answers.
        Self { told: vec![config.connect; config.paths.len()] }
    }

    pub(super) fn take(&mut self, config: &Config, live: &LiveStates, path: u32, event: &Event) {
        let path = path as usize;
        let is_trouble =
            matches!(event.kind, EventKind::StallBegan { .. } | EventKind::ConnectionExplained { .. });
        if is_trouble && !self.told[path] && lock(live)[path].statistics.answered == 0 {
            self.told[path] = true;
            let target = &config.paths[path].target;
            tell!("fathom: {}", question(config, target, "has answered nothing so far"));
        }
    }
}
