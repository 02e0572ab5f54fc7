//! What middleboxes have in common to configure: how long they remember, and what they do when they do not.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::tcp::State;
use fathom_core::units::serde_ns;

/// Seconds in ns.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// Minutes in ns.
pub(crate) const MINUTE: u64 = 60 * SECOND;

/// Whose packets keep a flow from being idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counts {
    /// A packet of either end.
    #[default]
    Either,
    /// Only those of the end that opened the flow.
    Originator,
    /// Only those of the other end.
    Responder,
    /// Both ends must be heard: the flow is idle as soon as one of them is.
    Each,
}

/// How long a middlebox remembers a flow without a packet, ns. A packet that comes exactly at the limit comes too late.
///
/// In a scenario either one duration (`idle = "4m"`: that of established connections, the others at their defaults) or a
/// table (`idle = { established = "4m", counts = "originator" }`).
///
/// The defaults are those of Linux's connection tracking (kernel documentation, `nf_conntrack-sysctl`), but for
/// `established`, which each middlebox has of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct IdleLimits {
    /// From the SYN until the handshake is complete. `nf_conntrack_tcp_timeout_syn_sent`: 120 s.
    #[serde(rename = "opening", with = "serde_ns")]
    pub opening_ns: u64,
    /// Established TCP connections.
    #[serde(rename = "established", with = "serde_ns")]
    pub established_ns: u64,
    /// One end has sent a FIN. `nf_conntrack_tcp_timeout_fin_wait`: 120 s.
    #[serde(rename = "half-closed", with = "serde_ns")]
    pub half_closed_ns: u64,
    /// Both have. `nf_conntrack_tcp_timeout_time_wait`: 120 s.
    #[serde(rename = "closed", with = "serde_ns")]
    pub closed_ns: u64,
    /// One has sent a RST. `nf_conntrack_tcp_timeout_close`: 10 s.
    #[serde(rename = "reset", with = "serde_ns")]
    pub reset_ns: u64,
    /// UDP. `nf_conntrack_udp_timeout_stream`: 120 s.
    #[serde(rename = "datagram", with = "serde_ns")]
    pub datagram_ns: u64,
    /// ICMP and all else. `nf_conntrack_icmp_timeout`: 30 s.
    #[serde(rename = "other", with = "serde_ns")]
    pub other_ns: u64,
    /// Whose packets count, once the connection is established and for UDP.
    pub counts: Counts,
}

impl Default for IdleLimits {
    /// With Azure's four minutes for established connections.
    fn default() -> Self {
        Self {
            opening_ns: 120 * SECOND,
            established_ns: 4 * MINUTE,
            half_closed_ns: 120 * SECOND,
            closed_ns: 120 * SECOND,
            reset_ns: 10 * SECOND,
            datagram_ns: 120 * SECOND,
            other_ns: 30 * SECOND,
            counts: Counts::Either,
        }
    }
}

impl IdleLimits {
    /// The defaults, with this limit for established connections.
    pub fn established(established_ns: u64) -> Self {
        Self { established_ns, ..Self::default() }
    }

    /// The limit in a state; `own_established_ns` is the flow's own limit when established, where a rule gave it one.
    pub fn of(&self, state: State, own_established_ns: Option<u64>) -> u64 {
        match state {
            State::Opening => self.opening_ns,
            State::Established => own_established_ns.unwrap_or(self.established_ns),
            State::HalfClosed => self.half_closed_ns,
            State::Closed => self.closed_ns,
            State::Reset => self.reset_ns,
            State::Datagram => self.datagram_ns,
            State::Other => self.other_ns,
        }
    }

    /// When a flow in this state is forgotten, given when each end was last heard.
    pub fn deadline_ns(&self, state: State, own_established_ns: Option<u64>, heard_ns: [u64; 2]) -> u64 {
        let [originator, responder] = heard_ns;
        let counts = match state {
            State::Established | State::Datagram => self.counts,
            _ => Counts::Either,
        };
        let heard = match counts {
            Counts::Either => originator.max(responder),
            Counts::Originator => originator,
            Counts::Responder => responder,
            Counts::Each => originator.min(responder),
        };
        heard.saturating_add(self.of(state, own_established_ns))
    }
}

/// An [`IdleLimits`] of a scenario, laid over defaults that each middlebox has of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Written {
    opening: Option<Ns>,
    established: Option<Ns>,
    half_closed: Option<Ns>,
    closed: Option<Ns>,
    reset: Option<Ns>,
    datagram: Option<Ns>,
    other: Option<Ns>,
    counts: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Ns(#[serde(with = "serde_ns")] u64);

/// Reads idle limits over these defaults: the body of a `deserialize_with`.
pub(super) fn over<'de, D: Deserializer<'de>>(
    defaults: &IdleLimits,
    deserializer: D,
) -> Result<IdleLimits, D::Error> {
    struct Reader;
    impl<'de> Visitor<'de> for Reader {
        type Value = Written;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an idle limit such as \"4m\", or a table of limits by state")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Written, E> {
            let ns = fathom_core::units::duration_ns(text).map_err(E::custom)?;
            Ok(Written { established: Some(Ns(ns)), ..Written::default() })
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
            Written::deserialize(MapAccessDeserializer::new(map))
        }
    }
    let written = deserializer.deserialize_any(Reader)?;
    let or = |written: Option<Ns>, default| written.map_or(default, |ns| ns.0);
    Ok(IdleLimits {
        opening_ns: or(written.opening, defaults.opening_ns),
        established_ns: or(written.established, defaults.established_ns),
        half_closed_ns: or(written.half_closed, defaults.half_closed_ns),
        closed_ns: or(written.closed, defaults.closed_ns),
        reset_ns: or(written.reset, defaults.reset_ns),
        datagram_ns: or(written.datagram, defaults.datagram_ns),
        other_ns: or(written.other, defaults.other_ns),
        counts: written.counts,
    })
}

impl<'de> Deserialize<'de> for IdleLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        over(&Self::default(), deserializer)
    }
}

/// What happens when an established flow has been idle for its limit. Flows in other states end without a word (Azure:
/// a RST is sent for connections in the ESTABLISHED state only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnExpiry {
    /// It is forgotten without a word; the ends learn of it when they send.
    #[default]
    Silent,
    /// Both ends get a RST.
    Reset,
    /// Only the end that opened the flow gets one.
    ResetOriginator,
    /// Only the other end does.
    ResetResponder,
}

/// What happens to a TCP packet, other than a SYN, of a flow that is not (or no longer) known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// It vanishes (`tcp_loose=0` and `ct state invalid drop`).
    #[default]
    Drop,
    /// Its sender gets a RST.
    Reset,
    /// It opens the flow anew (`nf_conntrack_tcp_loose=1`, a kernel's default). At a balancer its backend is chosen anew.
    Admit,
}
