//! What a target that has answered nothing is asked about, in a line: while the run goes on, and as its last word.

use super::config::{Config, Transport};
use super::live_state::{LiveStates, lock};
use crate::output::tell;
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event, EventKind};

use std::fmt::Display;
use std::time::Duration;

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

/// A run that is over within this has its last word instead.
const SOON: Duration = Duration::from_mins(1);

/// Tells of each path once, with its first silence or the first connection that the other end closes: a run without an end
/// would wait, or connect again and again, and never come to its last word.
#[derive(Debug)]
pub(super) struct Unanswered {
    told: Vec<bool>,
}

impl Unanswered {
    pub(super) fn of(config: &Config) -> Self {
        // Connections that are made and closed have no answers.
        let ends_soon = config.count.is_some() || config.duration.is_some_and(|time| time <= SOON);
        Self { told: vec![config.connect || ends_soon; config.paths.len()] }
    }

    pub(super) fn take(&mut self, config: &Config, live: &LiveStates, path: u32, event: &Event) {
        let path = path as usize;
        let is_trouble = match &event.kind {
            EventKind::StallBegan { .. } => true,
            EventKind::ConnectionClosed { cause, .. } => {
                matches!(cause, ClosingCause::PeerClosed | ClosingCause::Reset)
            }
            _ => false,
        };
        if is_trouble && !self.told[path] && lock(live)[path].statistics.answered == 0 {
            self.told[path] = true;
            let target = &config.paths[path].target;
            tell!("fathom: {}", question(config, target, "has answered nothing so far"));
        }
    }
}
