//! Health probes of a load balancer: a real SYN to each backend, and what its answer says.

use std::net::{IpAddr, SocketAddr};

use rand::Rng;
use serde::{Deserialize, Serialize};

use super::Context;
use super::dnat::Target;
use super::limits::SECOND;
use crate::packet::{Flags, Flow, Packet, Protocol};
use fathom_core::units::serde_ns;

/// Source ports of probes, one after another (RFC 6335, 6: the dynamic ports).
const PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// How a load balancer probes its backends.
///
/// The defaults are Azure's smallest interval and threshold (Load Balancer health probes: at least 5 s and 2 failures; its
/// probe ends a successful handshake with FINs where this one sends a RST, so that no backend accepts a connection).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProbeConfig {
    /// The balancer's own address, from which it probes. Azure's is 168.63.129.16.
    pub source: IpAddr,
    /// The backend's port. Absent: the port of the first frontend at the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// From one probe of a backend to its next, ns.
    #[serde(rename = "every", with = "serde_ns", default = "default_every")]
    pub every_ns: u64,
    /// How long an answer is awaited, ns; at most the interval. Absent: the interval.
    #[serde(default, rename = "timeout", with = "fathom_core::units::serde_ns_option")]
    pub timeout_ns: Option<u64>,
    /// So many failures after one another make a backend unhealthy.
    #[serde(default = "default_failures")]
    pub failures: u32,
    /// So many successes after one another make it healthy again.
    #[serde(default = "default_successes")]
    pub successes: u32,
}

fn default_every() -> u64 {
    5 * SECOND
}

fn default_failures() -> u32 {
    2
}

fn default_successes() -> u32 {
    1
}

/// What the probes of one backend have said.
#[derive(Debug, Clone)]
struct Patient {
    healthy: bool,
    /// Results after one another that contradict `healthy`.
    contrary: u32,
    /// The probe that awaits its answer: as it was sent, its sequence number, and when it is given up.
    awaited: Option<(Flow, u32, u64)>,
}

/// The probes of all backends.
#[derive(Debug)]
pub(super) struct Health {
    config: ProbeConfig,
    port: u16,
    patients: Vec<Patient>,
    /// `None` until [`Health::start`].
    next_round_ns: Option<u64>,
    next_port: u16,
}

impl Health {
    /// Backends are taken for healthy until their probes say otherwise.
    pub(super) fn new(config: ProbeConfig, port: u16, backends: usize) -> Result<Self, String> {
        if config.every_ns == 0 || config.failures == 0 || config.successes == 0 {
            return Err("a probe's interval, failures and successes must be more than 0".into());
        }
        if config.timeout_ns.is_some_and(|timeout_ns| timeout_ns == 0 || timeout_ns > config.every_ns) {
            return Err("a probe's timeout must be more than 0 and at most its interval".into());
        }
        let patient = Patient { healthy: true, contrary: 0, awaited: None };
        let patients = vec![patient; backends];
        Ok(Self { config, port, patients, next_round_ns: None, next_port: *PORTS.start() })
    }

    pub(super) fn source(&self) -> IpAddr {
        self.config.source
    }

    pub(super) fn is_healthy(&self, backend: usize) -> bool {
        self.patients[backend].healthy
    }

    pub(super) fn start(&mut self, now_ns: u64) {
        self.next_round_ns.get_or_insert(now_ns);
    }

    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let awaited = self.patients.iter().filter_map(|patient| patient.awaited.map(|(_, _, until)| until));
        awaited.chain(self.next_round_ns).min()
    }

    /// Gives up what has not been answered in time, and sends the probes that are due. The backends whose health changed.
    pub(super) fn advance(
        &mut self,
        now_ns: u64,
        targets: &[Target],
        context: &mut Context<'_>,
    ) -> Vec<usize> {
        let late = |patient: &Patient| patient.awaited.is_some_and(|(_, _, until_ns)| until_ns <= now_ns);
        let given_up: Vec<_> = (0..self.patients.len()).filter(|&i| late(&self.patients[i])).collect();
        let changed = given_up.into_iter().filter(|&backend| self.result(backend, false)).collect();
        while let Some(due_ns) = self.next_round_ns.filter(|due_ns| *due_ns <= now_ns) {
            for (backend, target) in targets.iter().enumerate() {
                self.probe(due_ns, backend, target.address, context);
            }
            self.next_round_ns = Some(due_ns + self.config.every_ns);
        }
        changed
    }

    /// A packet for the balancer's own address: the backend whose health it changed, if it did.
    pub(super) fn answer(&mut self, packet: &Packet, context: &mut Context<'_>) -> Option<usize> {
        let sent = packet.flow().reversed();
        let tcp = packet.segment()?;
        let backend = self
            .patients
            .iter()
            .position(|patient| patient.awaited.is_some_and(|(flow, _, _)| flow == sent))?;
        let (flow, sequence, _) = self.patients[backend].awaited?;
        if !tcp.flags.has(Flags::ACK) || tcp.ack != sequence.wrapping_add(1) {
            return None;
        }
        let open = tcp.flags.has(Flags::SYN) && !tcp.flags.has(Flags::RST);
        if open {
            // RFC 9293, 3.10.7.3: in the name of the probe's end, at the sequence number that the backend expects.
            let reset = Packet::reset_towards(flow, tcp.ack, Some(tcp.next_seq()));
            context.send.extend(reset.map(|reset| (0, reset)));
        }
        self.result(backend, open).then_some(backend)
    }

    fn probe(&mut self, now_ns: u64, backend: usize, address: IpAddr, context: &mut Context<'_>) {
        let flow = Flow {
            protocol: Protocol::Tcp,
            source: SocketAddr::new(self.config.source, self.next_port),
            destination: SocketAddr::new(address, self.port),
        };
        self.next_port = if self.next_port == *PORTS.end() { *PORTS.start() } else { self.next_port + 1 };
        let sequence = context.random.random();
        let until_ns = now_ns + self.config.timeout_ns.unwrap_or(self.config.every_ns);
        self.patients[backend].awaited = Some((flow, sequence, until_ns));
        let syn = Packet::syn(flow.source, flow.destination, sequence);
        context.send.extend(syn.map(|syn| (0, syn)));
    }

    /// Whether this result changes the backend's health.
    fn result(&mut self, backend: usize, success: bool) -> bool {
        let patient = &mut self.patients[backend];
        patient.awaited = None;
        if success == patient.healthy {
            patient.contrary = 0;
            return false;
        }
        patient.contrary += 1;
        let enough = if success { self.config.successes } else { self.config.failures };
        if patient.contrary < enough {
            return false;
        }
        patient.healthy = success;
        patient.contrary = 0;
        true
    }
}
