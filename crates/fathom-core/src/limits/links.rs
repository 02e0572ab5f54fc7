//! What every search has: its connections, what is known of the path, and what it tells.

use super::flow::{Asked, Came, Flow, LONGEST_PATIENCE_NS, RTO_NS, Role, SHORTEST_PATIENCE_NS, Stage};
use super::guard::Guard;
use super::io::{KernelView, Output};
use super::outcome::{By, Meanwhile, Outcome};
use super::plan::S;
use super::quiet::{Quiet, Silence};
use super::settings::Settings;
use crate::cause::ClosingCause;
use crate::event::{Death, EventKind, OneWay, What};
use crate::peer_report::{Inquiry, PeerReport};
use crate::probe::NetError;
use crate::probe::words::{cause_of, connect_advice};
use fathom_wire::Secret;
use fathom_wire::frame::MAGIC;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;

/// A connection that cannot be opened is tried again so many times...
pub(super) const TRIES: u32 = 5;
/// ...this long after; so is everything, once all connections ended.
pub(super) const AGAIN_NS: u64 = S;
/// This host did not run if it comes so much later than it was to.
const PAUSED_NS: u64 = S;
/// The reflector is asked about so many of those that died.
const ASKED_ABOUT: usize = 8;

/// A connection that is to be opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) role: Role,
    pub(super) not_before_ns: u64,
    pub(super) tries: u32,
}

impl Wanted {
    pub(super) fn first(role: Role, not_before_ns: u64) -> Self {
        Self { role, not_before_ns, tries: 0 }
    }

    /// Another in the place of one that could not be opened, or broke before its first echo; `None`: it was tried often enough.
    pub(super) fn again(role: Role, tries: u32, now: u64) -> Option<Self> {
        let tries = tries + 1;
        (tries < TRIES).then_some(Self { role, not_before_ns: now + AGAIN_NS, tries })
    }
}

/// What came on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// A part, or the echo of what has been judged.
    Nothing,
    /// The first echo.
    Opened,
    /// The echo of this request.
    Answered(Asked),
    /// What was not sent.
    Foreign,
    /// The last that the reflector has to say.
    Reported,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) flows: BTreeMap<u32, Flow>,
    pub(super) guard: Guard,
    quiet: Quiet,
    pub(super) began_ns: u64,
    pub(super) now_ns: u64,
    /// The longest retransmission timeout that the kernel told of or, before it did, that round trips suggest.
    pub(super) rto_ns: u64,
    /// How long the first echo of a connection took at the least.
    fastest_ns: u64,
    /// When it was to be woken.
    pub(super) expected_ns: Option<u64>,
    target: String,
    session: u32,
    secret: Option<Secret>,
    one_way: Option<OneWay>,
    /// What was not asked for began as what was sent does.
    echoes_all: bool,
    /// Connections so far; the next one's number.
    opened: u32,
    /// One of them was established.
    accepted: bool,
    outputs: VecDeque<Output>,
    inquiry: Inquiry,
    /// Each with its connection.
    reports: Vec<(u32, PeerReport)>,
    /// Connections whose latest request was acknowledged and not answered, and its ordinal.
    unanswered: BTreeMap<u32, u64>,
    meanwhile: Vec<Meanwhile>,
}

impl Links {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            flows: BTreeMap::new(),
            guard: Guard::default(),
            quiet: Quiet::default(),
            began_ns: 0,
            now_ns: 0,
            rto_ns: 0,
            fastest_ns: u64::MAX,
            expected_ns: None,
            target: settings.target.clone(),
            session: settings.session,
            secret: settings.secret.clone(),
            one_way: settings.one_way,
            echoes_all: false,
            opened: 0,
            accepted: false,
            outputs: VecDeque::new(),
            inquiry: Inquiry::new(settings.session).sealed(settings.secret.clone()),
            reports: Vec::new(),
            unanswered: BTreeMap::new(),
            meanwhile: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, now: u64) {
        (self.began_ns, self.now_ns) = (now, now);
        self.quiet.begins(now);
    }

    /// It is so late; where that is much later than it was to be, this host did not run.
    pub(super) fn now_is(&mut self, now: u64) {
        if let Some(late_ns) = self.expected_ns.map(|at| now.saturating_sub(at))
            && late_ns >= PAUSED_NS
        {
            self.happened(now, What::HostPaused { lasted_ns: late_ns });
            // What came meanwhile is read only now.
            if !self.guard.is_out() {
                self.quiet.begins(now);
            }
        }
        self.now_ns = now;
    }

    pub(super) fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The first request of a connection took so long: Linux' timeout is then three times that, or 0.2 s more than it.
    pub(super) fn took(&mut self, rtt_ns: u64) {
        self.fastest_ns = self.fastest_ns.min(rtt_ns);
        self.rto_ns = self.rto_ns.max(3 * rtt_ns + S / 5);
    }

    /// What takes so long is sent again where nothing is lost and nobody stands still.
    fn usual_rto_ns(&self) -> u64 {
        self.fastest_ns.min(S).saturating_mul(3) + S / 5
    }

    /// Its first echo may have come so long before this host, or the kernel, saw it: another's took so much less.
    pub(super) fn seen_late_ns(&self, flow: &Flow) -> u64 {
        flow.took_ns.saturating_sub(self.fastest_ns)
    }

    /// What a request is asked with that is sent now, by the kernel's timeout. `None`: it does not tell.
    pub(super) fn times_out_after(&mut self, rto_ns: Option<u64>) {
        self.rto_ns = self.rto_ns.max(rto_ns.unwrap_or(RTO_NS));
    }

    /// A connection and its first echo take less, and so does one more request.
    pub(super) fn hello_ns(&self) -> u64 {
        2 * self.rto_ns
    }

    /// From when a connection is asked, less than this passes until what became of it is known and counts: it is doubted, a
    /// fresh one is answered, its request is sent again twice (`Asked::dead_ns`), and the control connections outlive it.
    pub(super) fn judged_within_ns(&self) -> u64 {
        let worked_ns = 4 * self.rto_ns;
        let silent_ns = (4 * (worked_ns + self.rto_ns)).min(worked_ns + LONGEST_PATIENCE_NS);
        SHORTEST_PATIENCE_NS.max(silent_ns) + 2 * S + self.rto_ns
    }

    /// The connections of which this holds, by their numbers.
    pub(super) fn ids(&self, of: impl Fn(&Flow) -> bool) -> Vec<u32> {
        self.flows.iter().filter(|(_, flow)| of(flow)).map(|(&id, _)| id).collect()
    }

    /// Opens a connection: its number.
    pub(super) fn open(&mut self, now: u64, wanted: Wanted) -> u32 {
        let id = self.opened;
        self.opened += 1;
        let mut flow = Flow::new(wanted.role, self.session, id, now);
        flow.tries = wanted.tries;
        self.flows.insert(id, flow);
        self.outputs.push_back(Output::Open { id });
        id
    }

    pub(super) fn close(&mut self, id: u32) {
        if self.flows.remove(&id).is_some() {
            self.outputs.push_back(Output::Close { id });
        }
    }

    /// It is established, and the first thing is said; whether it was being opened.
    pub(super) fn connected(&mut self, now: u64, id: u32) -> bool {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.stage == Stage::Opening) else {
            return false;
        };
        // SYNs before the one that was answered were not.
        self.accepted = true;
        self.quiet.looks_at(now, flow, RTO_NS);
        flow.enter(Stage::Hello, now);
        flow.first_ns = now;
        if flow.role == Role::Report {
            while let Some(question) = self.inquiry.next_question(now) {
                self.outputs.push_back(Output::Send { id, bytes: question.to_vec() });
            }
        } else {
            // What an echo server sends back of this is the proof that it is only that.
            if flow.role == Role::Control && self.one_way.is_some() {
                self.say(id, 0, 0);
            }
            self.send(id);
        }
        true
    }

    /// Sends what asks for no echo, but for so many segments, so far apart.
    pub(super) fn say(&mut self, id: u32, segments: u32, every_ns: u64) {
        if let Some(flow) = self.flows.get_mut(&id) {
            let every_ms = u32::try_from(every_ns / 1_000_000).unwrap_or(u32::MAX);
            let bytes = flow.one_way(segments, every_ms, self.secret.as_ref());
            self.outputs.push_back(Output::Send { id, bytes });
        }
    }

    /// The kernel is asked about it. The stage began when the one before did.
    pub(super) fn look(&mut self, id: u32) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.stage = Stage::Looking;
            self.outputs.push_back(Output::Look { id });
        }
    }

    /// Its silence has lasted for too long: the kernel is asked a second time, whether the request was acknowledged.
    pub(super) fn look_at_silence(&mut self, id: u32) {
        if let Some(Flow { stage: Stage::Asked(asked), .. }) = self.flows.get_mut(&id) {
            asked.looked = true;
            self.outputs.push_back(Output::Look { id });
        }
    }

    /// How a connection died that has not answered for too long. `None`: the kernel does not tell.
    pub(super) fn death_in_silence(&mut self, id: u32, view: Option<KernelView>) -> Death {
        let acknowledged = view.is_some_and(|view| view.acknowledged);
        let Some(flow) = self.flows.get(&id).filter(|_| acknowledged) else { return Death::Silent };
        self.unanswered.insert(id, flow.latest());
        Death::NotAnswered
    }

    pub(super) fn ask(&mut self, now: u64, id: u32, asked: Asked) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.enter(Stage::Asked(asked), now);
            self.send(id);
        }
    }

    fn send(&mut self, id: u32) {
        if let Some(flow) = self.flows.get_mut(&id) {
            let bytes = flow.request(self.secret.as_ref());
            self.outputs.push_back(Output::Send { id, bytes });
        }
    }

    pub(super) fn received(&mut self, id: u32, bytes: &[u8]) -> Heard {
        let Some(flow) = self.flows.get_mut(&id) else { return Heard::Nothing };
        if flow.role == Role::Report {
            let mut reports: Vec<(u32, PeerReport)> = Vec::new();
            let told = self.inquiry.receive(bytes, |asked, report| {
                reports.extend(report.map(|report| (asked.connection, report)));
            });
            self.reports.extend(reports);
            let was_all = told.is_err() || self.inquiry.is_done();
            return if was_all { Heard::Reported } else { Heard::Nothing };
        }
        match (flow.receive(bytes), flow.stage) {
            (Came::Foreign, _) => {
                self.echoes_all = bytes.starts_with(&MAGIC);
                Heard::Foreign
            }
            (Came::Echo, Stage::Hello) => Heard::Opened,
            (Came::Echo, Stage::Asked(asked)) => Heard::Answered(asked),
            (Came::Part | Came::Echo, _) => Heard::Nothing,
        }
    }

    /// What was sent then was answered; it vouches for the path at these silences, which are held against no outage any more.
    pub(super) fn path_works(
        &mut self,
        now: u64,
        sent_ns: u64,
        is_fresh: bool,
        vouches: impl Fn(&Asked) -> bool,
    ) {
        let over = self.guard.answered(sent_ns, is_fresh);
        let others = self.silent_in_use(now);
        match over {
            None if self.guard.is_out() => self.quiet.is_back(now),
            None => {
                if let Some(silence) = self.quiet.answered(now, sent_ns, self.usual_rto_ns(), others) {
                    self.was_quiet(now, silence);
                }
            }
            Some(since_ns) => {
                let by_ns = if sent_ns + self.usual_rto_ns() > now { sent_ns } else { now };
                let silence = self.quiet.silence(by_ns);
                self.outage_is_over(now, since_ns, silence);
                self.quiet.is_over(now);
            }
        }
        for flow in self.flows.values_mut() {
            if let Stage::Asked(asked) = &mut flow.stage
                && vouches(asked)
            {
                asked.fresh_ns.get_or_insert(now);
            }
        }
    }

    /// A connection that began was not answered, and is closed: that may be the beginning of an outage.
    pub(super) fn fresh_failed(&mut self, now: u64, id: u32) {
        self.silent_in_use(now);
        let flow = self.flows.get(&id).map(|flow| (flow.since_ns, flow.stage));
        flow.inspect(|(since_ns, _)| self.quiet.failed(*since_ns));
        self.close(id);
        if !self.guard.fresh_failed(now) {
            return;
        }
        // One that others have outlived, or of an outage that is over and told, says nothing more; where none can be opened, it does.
        let silence = self.quiet.silence(now);
        let refused =
            flow.is_some_and(|(since_ns, stage)| stage == Stage::Opening && !self.quiet.has_told(since_ns));
        if silence.is_some() || refused {
            let began_ago_ns = silence.map(|silence| now - silence.began_ns);
            self.happened(now, What::Outage { lasted_ns: None, least_ns: None, began_ago_ns });
        }
    }

    /// Takes down which connections that are not idle wait for an answer for too long: how many.
    fn silent_in_use(&mut self, now: u64) -> usize {
        let controls = self.guard.has_controls();
        let in_use = |flow: &&Flow| {
            matches!(flow.role, Role::Control | Role::Fresh)
                || matches!(flow.stage, Stage::Opening | Stage::Hello)
                || !controls
        };
        let rto_ns = self.usual_rto_ns();
        let quiet = &mut self.quiet;
        self.flows.values().filter(in_use).filter(|flow| quiet.looks_at(now, flow, rto_ns)).count()
    }

    /// Connections under test that were asked while the path was down, as far as is known: each, and of what.
    pub(super) fn silent(&self, now: u64) -> Vec<(u32, usize)> {
        let silent = self.flows.iter().filter_map(|(&id, flow)| match (flow.role, flow.stage) {
            (Role::Test(of), Stage::Asked(asked)) => {
                (asked.fresh_ns.is_none() && asked.doubted_ns() <= now).then_some((id, of))
            }
            _ => None,
        });
        silent.collect()
    }

    pub(super) fn tell(&mut self, connection: Option<u32>, kind: EventKind) {
        self.outputs.push_back(Output::Event { connection, kind });
    }

    pub(super) fn happened(&mut self, now: u64, what: What) {
        self.tell(None, EventKind::LimitsHappened { what: what.clone() });
        let after_ns = (now - self.began_ns).saturating_sub(what.began_ago_ns());
        self.meanwhile.push(Meanwhile { after_ns, what });
    }

    /// Nothing was answered for a while in which no fresh connection failed.
    fn was_quiet(&mut self, now: u64, silence: Silence) {
        let what = What::Outage {
            lasted_ns: Some(silence.most_ns),
            least_ns: Some(silence.least_ns),
            began_ago_ns: Some(now - silence.began_ns),
        };
        self.happened(now, what);
    }

    fn outage_is_over(&mut self, now: u64, since_ns: u64, silence: Option<Silence>) {
        if !self.meanwhile.iter().any(|happened| happened.what.is_outage_that_goes_on()) {
            return;
        }
        let what = What::Outage {
            lasted_ns: Some(silence.map_or(now - since_ns, |silence| silence.most_ns)),
            least_ns: silence.map(|silence| silence.least_ns),
            began_ago_ns: Some(now - silence.map_or(since_ns, |silence| silence.began_ns)),
        };
        for happened in &mut self.meanwhile {
            if happened.what.is_outage_that_goes_on() {
                happened.what = what.clone();
            }
        }
        self.tell(None, EventKind::LimitsHappened { what });
    }

    /// The reflector is to be asked about the first few of these.
    pub(super) fn inquire(&mut self, died: impl Iterator<Item = u32>) {
        for id in died.take(ASKED_ABOUT) {
            self.inquiry.about(id, None);
        }
    }

    /// What was found, with what is known besides.
    pub(super) fn told(&self, found: Outcome) -> Outcome {
        Outcome {
            by: By::of(&self.reports, &self.unanswered),
            took_ns: self.now_ns - self.began_ns,
            opened: Some(self.opened.into()),
            meanwhile: self.meanwhile.clone(),
            ..found
        }
    }

    /// Why there is nothing to measure: the error, or a silence.
    pub(super) fn why_not_opened(&self, error: Option<&NetError>) -> String {
        match error {
            Some(error) => connect_advice(&self.target, None, error),
            None if !self.accepted => {
                connect_advice(&self.target, None, &NetError::of_kind(ErrorKind::TimedOut))
            }
            None => self.target_does(
                "takes connections and sends nothing back; name the port of `fathom echo`, or of another echo server (RFC 862)",
            ),
        }
    }

    pub(super) fn why_foreign(&self) -> String {
        if self.one_way.is_some() && self.echoes_all {
            return self.target_does(
                "sends everything back, as echo servers do: traffic one way needs `fathom echo` there, of this version; leave out --one-way",
            );
        }
        self.target_does(
            "does not send back what it is sent; name the port of `fathom echo`, or of another echo server (RFC 862)",
        )
    }

    pub(super) fn why_hopeless(&self) -> String {
        self.target_does("has not answered for a minute")
    }

    pub(super) fn target_does(&self, what: &str) -> String {
        format!("{} {what}", self.target)
    }
}

/// How a connection died that broke: while it was at rest, and while a request was on its way.
pub(super) fn deaths_of(error: &NetError) -> (Death, Death) {
    match cause_of(error) {
        ClosingCause::Reset => (Death::ResetWhileIdle, Death::ResetOnRequest),
        // The kernel gave it up after a long silence of the path.
        ClosingCause::TimedOut => (Death::Silent, Death::Silent),
        _ => (Death::Other, Death::Other),
    }
}
