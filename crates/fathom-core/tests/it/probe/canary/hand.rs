//! A driver by hand, whose every answer and delay the test chooses.

use fathom_core::clock::Anchor;
use fathom_core::event::{Event, EventKind};
use fathom_core::peer_report::Standing;
use fathom_core::probe::{
    Input, LinkId, NetError, Output, Probe, Progress, Purpose, Settings, Transport, Worker,
};
use fathom_core::schedule::Pace;
use fathom_core::verdict::{Explanation, Fresh};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const S: u64 = 1_000 * MS;
pub(crate) const START: Anchor = Anchor { mono_ns: S, utc_ns: 1_800_000_000_000_000_000 };

/// A probe, and what it has asked for and nobody has done.
pub(crate) struct Hand {
    pub(crate) now: u64,
    pub(crate) probe: Probe,
    pub(crate) lanes: VecDeque<LinkId>,
    /// Canary connections that it began, and those that it closed, each with the time.
    pub(crate) canaries: Vec<(u64, LinkId)>,
    pub(crate) closed: Vec<(u64, LinkId)>,
    pub(crate) sends: VecDeque<LinkId>,
    pub(crate) events: Vec<Event>,
}

impl Hand {
    /// A probe whose lanes are all connected.
    pub(crate) fn connected(settings: Settings) -> Self {
        let worker = Worker::alone(settings.targets.len());
        let (probe, now) = (Probe::new(settings, worker, START), START.mono_ns);
        let (lanes, sends) = (VecDeque::new(), VecDeque::new());
        let mut hand = Self { now, probe, lanes, canaries: vec![], closed: vec![], sends, events: vec![] };
        hand.probe.start(now);
        hand.obey();
        for i in 0.. {
            let Some(&link) = hand.lanes.get(i) else { break };
            hand.connects(link);
        }
        hand
    }

    pub(crate) fn tell(&mut self, input: Input<'_>) {
        self.probe.handle(self.now, input);
        self.obey();
    }

    pub(crate) fn connects(&mut self, link: LinkId) {
        self.tell(Input::Connecting { link, since_ns: self.now });
        self.tell(Input::Connected { link, local: String::new(), resent: false, kernel: None });
    }

    pub(crate) fn breaks(&mut self, link: LinkId, kind: ErrorKind) {
        self.tell(Input::Broken { link, error: NetError::of_kind(kind) });
    }

    pub(crate) fn obey(&mut self) {
        while let Some(output) = self.probe.poll() {
            let now = self.now;
            match output {
                Output::Resolve { path } => {
                    let addresses = Ok(vec![SocketAddr::from(([10, 0, 0, 1], 7))]);
                    self.probe.handle(now, Input::Resolved { path, addresses });
                }
                Output::Look { link } => self.probe.handle(now, Input::Kernel { link, info: None }),
                Output::Connect { link, purpose: Purpose::Canary, .. } => self.canaries.push((now, link)),
                Output::Connect { link, .. } => self.lanes.push_back(link),
                Output::Send { link } => self.sends.push_back(link),
                Output::Close { link } => self.closed.push((now, link)),
                Output::Event { event, .. } => self.events.push(*event),
                _ => {}
            }
        }
    }

    /// Time passes, and the probe wakes when it wants to.
    pub(crate) fn until(&mut self, at: u64) {
        while let Some(wake) = self.probe.next_wake().filter(|wake| *wake <= at) {
            assert!(wake >= self.now || self.probe.next_wake() == Some(wake), "a wake-up in the past");
            self.now = self.now.max(wake);
            self.tell(Input::Wake);
        }
        self.now = at;
    }

    /// Does every send that was asked for on this connection, as a whole: the messages.
    pub(crate) fn sent_on(&mut self, link: LinkId) -> Vec<Vec<u8>> {
        let (mut messages, mut pen) = (Vec::new(), vec![0; 4_096]);
        while let Some(at) = self.sends.iter().position(|asked| *asked == link) {
            self.sends.remove(at);
            let Some(piece) = self.probe.write(link, &mut pen) else { continue };
            self.probe.stamp(link, self.now, &mut pen[..piece.len]);
            assert_eq!((piece.offset, piece.len), (0, piece.size), "it fits");
            messages.push(pen[..piece.len].to_vec());
            let progress = Progress::Whole;
            self.tell(Input::Sent { link, sent_ns: self.now, sent_utc_ns: None, progress });
        }
        messages
    }

    pub(crate) fn receives(&mut self, link: LinkId, bytes: &[u8]) {
        self.tell(Input::Received { link, bytes, stamps: None, kernel: None });
    }

    /// What was explained: when, what about, how, what a fresh connection met and how the reflector said that it stands.
    pub(crate) fn explained(&self) -> Vec<Explained<'_>> {
        let explained = self.events.iter().filter_map(|event| {
            let EventKind::ConnectionExplained { about, explanation, fresh, reflector } = &event.kind else {
                return None;
            };
            let standing = reflector.as_ref().map(|report| report.standing);
            Some(Explained { at_ns: event.mono_ns, about, explanation, fresh: *fresh, standing })
        });
        explained.collect()
    }

    /// What explanations say that a fresh connection met, and when.
    pub(crate) fn met(&self) -> Vec<(u64, Fresh)> {
        self.explained().iter().map(|it| (it.at_ns, it.fresh)).collect()
    }
}

/// An explanation that was told.
#[derive(Debug)]
pub(crate) struct Explained<'a> {
    pub(crate) at_ns: u64,
    pub(crate) about: &'a str,
    pub(crate) explanation: &'a Explanation,
    pub(crate) fresh: Fresh,
    pub(crate) standing: Option<Standing>,
}

pub(crate) fn settings(transport: Transport) -> Settings {
    Settings { transport, pace: Pace::Every(S), ..Settings::new(vec!["host:7".to_owned()]) }
}
