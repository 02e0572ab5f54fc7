//! Stalls and ends in sentences: what was seen, what it is said to mean, what coincides, and how sure that is.

use super::gather::{Baseline, Gathered};
use super::join::{Closing, Incident, Joined, Overrun, Pause, Seam, Stall};
use super::moment::{Moment, elapsed_ns};
use super::words::{accounts, count, ordinals, were};
use super::{Confidence, Line, State, next, tally, to_whom, whose};
use crate::cause::ClosingCause;
use crate::event::Event;
use crate::units::duration_text as duration;
use crate::verdict::{Grounds, Verdict};
use jiff::Timestamp;

/// Connections that end or stall within this of one another are told together.
const TOGETHER_NS: u64 = 3_000_000_000;
/// "Software caused connection abort" (Linux, errno(3)).
const ECONNABORTED: i32 = 103;
/// What was not sent during an incident is counted when sending goes on, a little after it.
const COUNTED_WITHIN_NS: u64 = 1_000_000_000;

/// What an incident is seen against.
pub(super) struct Context<'a> {
    pub(super) joined: &'a Joined<'a>,
    pub(super) events: &'a [Event],
    pub(super) gathered: &'a Gathered,
    pub(super) state: State,
    /// The last moment the recording knows of.
    pub(super) last: Timestamp,
}

impl Context<'_> {
    /// Whether some incident was going on, so that it tells of what fell into it.
    pub(super) fn during_an_incident(&self, from_ns: u64, to_ns: u64) -> bool {
        self.joined.incidents().any(|i| overlaps(i, from_ns, to_ns))
    }

    /// Whether some incident tells of these samples that were not sent.
    pub(super) fn tells_of(&self, overrun: &Overrun<'_>) -> bool {
        let from_ns = overrun.first.mono_ns.saturating_sub(COUNTED_WITHIN_NS);
        self.during_an_incident(from_ns, overrun.last.mono_ns)
    }

    /// How long a stall lasted, or has lasted by the end of the recording, in ns.
    pub(super) fn lasted_ns(&self, stall: &Stall<'_>) -> u64 {
        match stall.end {
            Some(_) => stall.duration_ns,
            None if stall.cut_short || stall.seam == Seam::GoesOn => stall.duration_ns,
            None => elapsed_ns(self.events, stall.start, self.last).max(stall.duration_ns),
        }
    }
}

fn overlaps(incident: Incident<'_>, from_ns: u64, to_ns: u64) -> bool {
    from_ns <= incident.end_mono_ns() && to_ns >= incident.start().mono_ns
}

/// A line for each incident, or for several connections whose incidents came together.
pub(super) fn told_together(context: &Context<'_>) -> Vec<(u64, Line)> {
    let mut all: Vec<Incident<'_>> = context.joined.incidents().collect();
    all.sort_by_key(|incident| incident.told_at().mono_ns);
    let mut lines = Vec::new();
    let mut rest = all.as_slice();
    while let Some(first) = rest.first() {
        let begin = first.told_at();
        let limit = begin.mono_ns.saturating_add(TOGETHER_NS);
        // A connection that took a lost one's place fails after it, not together with it.
        let was_open = |i: &Incident<'_>| {
            let opened = i.connection().and_then(|id| context.joined.opened_ns.get(&id));
            opened.is_none_or(|&opened| opened <= begin.mono_ns)
        };
        let n = rest.iter().take_while(|i| i.told_at().mono_ns <= limit && was_open(i)).count().max(1);
        let another = (1..n).find(|&at| is_another_fault(&rest[..at], rest[at]));
        let n = another.unwrap_or(n);
        let (group, after) = rest.split_at(n);
        rest = after;
        let mut connections: Vec<u32> = group.iter().filter_map(|i| i.connection()).collect();
        connections.sort_unstable();
        connections.dedup();
        if connections.len() > 1 {
            lines.push((begin.mono_ns, together(context, group, &connections)));
        } else {
            lines.extend(group.iter().map(|&one| (one.told_at().mono_ns, alone(context, one))));
        }
    }
    lines
}

/// Whether an incident is of another fault than those before: all of them were over and their connections well when it began, and
/// one of these has it again, or it is said to have another reason.
fn is_another_fault(before: &[Incident<'_>], next: Incident<'_>) -> bool {
    let was_well = |incident: &Incident<'_>| match incident {
        Incident::Stall(stall) => stall.recovered && incident.end_mono_ns() < next.start().mono_ns,
        Incident::Closing(_) => false,
    };
    before.iter().all(was_well)
        && before.iter().any(|i| i.connection() == next.connection() || i.verdict() != next.verdict())
}

fn alone(context: &Context<'_>, incident: Incident<'_>) -> Line {
    let subject = subject(context, incident.connection());
    let (seen, facts) = match incident {
        Incident::Stall(stall) => (stalled(context, stall), Vec::new()),
        Incident::Closing(closing) => (ended(closing), closing_facts(context, closing)),
    };
    let explained = incident.explained();
    let verdict = incident.verdict();
    let mut evidence = explained.map_or_else(Vec::new, |e| e.explanation.because.clone());
    let because = evidence.join("; ");
    let could_be = explained.map_or(&[][..], |e| e.explanation.could_be.as_slice());
    let meaning = match verdict {
        Some(verdict) if explained.is_none() => {
            format!("Verdict: {verdict}; because of what, the recording before says")
        }
        // The network did nothing, which is all that a verdict speaks of.
        Some(Verdict::Unknown)
            if incident.cause() == Some(ClosingCause::LocalError) && could_be.is_empty() =>
        {
            format!("It was ended at this end, so there is no verdict: {because}")
        }
        Some(Verdict::Unknown) => format!("Verdict: unknown, why is not known: {because}"),
        Some(verdict) => format!("Verdict: {verdict}, because {because}"),
        None if incident.is_explained_later() => "The next recording says why".to_owned(),
        None => "Why is not known: the recording holds no explanation".to_owned(),
    };
    evidence.extend(facts);
    evidence.extend(coincidences(context, &[incident]));
    if let Some(before) = context.gathered.before.get(&incident.start().utc_ns()) {
        evidence.extend(usual("before it", before));
    }
    evidence.extend(explained.and_then(|e| next::look(e.explanation, destroyed_here(incident))));
    Line {
        at: incident.told_at().utc,
        connection: incident.connection(),
        statement: format!("{subject} {seen}. {meaning}"),
        evidence,
        cause: incident.cause(),
        verdict,
        confidence: confidence(context, incident),
    }
}

/// Several connections at once: what they have in common, and each by itself as evidence.
fn together(context: &Context<'_>, group: &[Incident<'_>], connections: &[u32]) -> Line {
    let (first, last) = (group[0].told_at(), group[group.len() - 1].told_at());
    let within = duration(last.mono_ns - first.mono_ns);
    let ends = group.iter().filter(|i| i.cause().is_some()).count();
    let what = match ends {
        0 => "stalled",
        n if n == group.len() => "ended",
        _ => "stalled or ended",
    };
    let how: Vec<String> =
        group.iter().map(|i| i.cause().map_or("stalled", ClosingCause::name).to_owned()).collect();
    let all_known = group.iter().all(|i| i.verdict().is_some());
    let mut verdicts: Vec<Verdict> = group.iter().filter_map(|i| i.verdict()).collect();
    verdicts.dedup();
    let verdict = verdicts.first().copied().filter(|_| verdicts.len() == 1 && all_known);
    let meaning = match verdict {
        Some(Verdict::Unknown) => "Verdict: unknown for all of them".to_owned(),
        Some(verdict) => format!("Verdict: {verdict} for all of them"),
        None if group.iter().all(|i| i.is_explained_later()) => "The next recording says why".to_owned(),
        None if verdicts.is_empty() => "Why is not known: the recording holds no explanation".to_owned(),
        None => {
            let name = |i: &Incident<'_>| match i.verdict() {
                Some(verdict) => verdict.name(),
                None if i.is_explained_later() => "explained in the next recording",
                None => "not explained",
            };
            let each = group.iter().map(name);
            format!("Their verdicts differ: {}", tally(each))
        }
    };
    let one = group[0].cause();
    let mut evidence: Vec<String> = group.iter().take(8).map(|&i| each(context, i)).collect();
    evidence.extend(coincidences(context, group));
    if verdicts.len() == 1 {
        evidence
            .extend(group[0].explained().and_then(|e| next::look(e.explanation, destroyed_here(group[0]))));
    }
    Line {
        at: first.utc,
        connection: None,
        statement: format!(
            "{} ({}) {what} within {within}: {}. {meaning}",
            count(connections.len() as u64, "connection"),
            ordinals(connections),
            tally(how.iter())
        ),
        evidence,
        cause: one.filter(|_| group.iter().all(|i| i.cause() == one)),
        verdict,
        // Together they are no surer than the least sure, and without a common verdict why is not known.
        confidence: verdict
            .and_then(|_| group.iter().map(|&i| confidence(context, i)).min())
            .unwrap_or(Confidence::None),
    }
}

/// Whether this host's kernel destroyed the socket.
fn destroyed_here(incident: Incident<'_>) -> bool {
    matches!(incident, Incident::Closing(closing) if closing.errno == Some(ECONNABORTED))
}

fn each(context: &Context<'_>, incident: Incident<'_>) -> String {
    let subject = subject(context, incident.connection());
    let seen = match incident {
        Incident::Stall(stall) => stalled(context, stall),
        Incident::Closing(closing) => ended(closing),
    };
    let because = incident.explained().map_or_else(String::new, |e| {
        format!(" ({}: {})", e.explanation.verdict, e.explanation.because.join("; "))
    });
    format!("{subject} {seen}{because}")
}

fn subject(context: &Context<'_>, connection: Option<u32>) -> String {
    let Some(id) = connection else { return "a connection".into() };
    let remote = context.joined.remotes.get(&id).map_or_else(String::new, |remote| format!(" to {remote}"));
    format!("connection #{id}{remote}")
}

fn stalled(context: &Context<'_>, stall: &Stall<'_>) -> String {
    let lasted = duration(context.lasted_ns(stall));
    let again = match stall.retransmits {
        Some(n @ 1..) => format!(", {} sent again", count(n.into(), "segment")),
        _ => String::new(),
    };
    if let Seam::OverBefore { waiting, .. } = stall.seam {
        let echoes = match waiting {
            0 => String::new(),
            n => format!(": the echoes of {} that waited came here", count(n, "sample")),
        };
        return format!("stalled for {lasted}, which was over before this recording began{echoes}");
    }
    match (stall.end, context.state) {
        (Some(_), _) if stall.recovered => {
            let later = match stall.seam {
                Seam::MoreFollows(n @ 1..) => {
                    format!(", {n} of which have their echoes in the next recording")
                }
                _ => String::new(),
            };
            format!(
                "stalled for {lasted}, then the echo came: {} waited{again}{later}",
                count(stall.samples, "sample")
            )
        }
        (Some(_), _) => format!("stalled for {lasted} until it ended{again}"),
        (None, _) if stall.cut_short => format!(
            "stalled, and still waited after {lasted} when this probe closed it as planned: how it would have gone on is not known"
        ),
        (None, _) if stall.seam == Seam::GoesOn => {
            format!("stalled, and had for {lasted} when the recording ends: it goes on in the next recording")
        }
        (None, State::Running) => {
            format!("stalls, for {lasted} so far: {} wait", count(stall.outstanding, "sample"))
        }
        (None, _) => {
            format!("stalled, and had for {lasted} when the recording ends; how it went on is not known")
        }
    }
}

fn ended(closing: &Closing<'_>) -> String {
    let how = match closing.cause {
        ClosingCause::Finished => "the run was over",
        ClosingCause::Refreshed => "it was refreshed by policy",
        ClosingCause::PeerClosed => "the peer closed it (FIN)",
        ClosingCause::Reset => "it was reset (RST)",
        ClosingCause::TimedOut => "the kernel gave up retransmitting",
        ClosingCause::Unreachable => "this host or the network said that the peer cannot be reached",
        ClosingCause::Abandoned => "given up, as the policy of this run says",
        ClosingCause::LocalError => "an error of this host, or a peer that does not echo",
    };
    let errno = closing.errno.map_or_else(String::new, |n| format!(" (errno {n})"));
    format!("ended after {}: {how}{errno}", duration(closing.age_ns))
}

fn closing_facts(context: &Context<'_>, closing: &Closing<'_>) -> Vec<String> {
    let evidence = closing.evidence;
    let mut facts = Vec::new();
    if evidence.outstanding > 0 {
        facts.push(format!("{} had no echo at the end", count(evidence.outstanding, "sample")));
    }
    if let Some(stall) = &closing.stall {
        facts.push(format!("before its end no echo came for {}", duration(stall.duration_ns)));
        if let Some(explained) = stall.explained {
            facts.push(format!("of that silence: {}", explained.explanation.because.join("; ")));
        }
    }
    facts.extend(evidence.silent_ns.map(|ns| format!("the last byte came {} before the end", duration(ns))));
    facts.extend(evidence.error.as_ref().map(|error| format!("the error was \"{error}\"")));
    if let Some(tcp) = &evidence.tcp {
        facts.push(format!(
            "TCP_INFO, last look before the end: {} unacknowledged, {} in a row, back-off {}, {} sent again in its life",
            tcp.unacked,
            count(tcp.retransmits.into(), "timeout"),
            tcp.backoff,
            count(tcp.total_retrans.into(), "segment")
        ));
    }
    if let Some((at, id)) = closing.again {
        let gap = duration(at.mono_ns.saturating_sub(closing.at.mono_ns));
        facts.push(format!("{gap} later connection #{id} was established"));
        let changes = context.joined.changes.get(&id).into_iter().flatten();
        facts.extend(changes.map(|change| format!("for connection #{id} {change}")));
    }
    if closing.unsent > 0 {
        let n = closing.unsent;
        facts.push(format!("{} due meanwhile {} not sent", count(n, "sample"), were(n)));
    }
    facts
}

/// What fell into the same time. A link, not a cause.
fn coincidences(context: &Context<'_>, group: &[Incident<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    for pause in &context.joined.pauses {
        if group.iter().any(|&i| overlaps(i, pause.start.mono_ns, pause.end_mono_ns)) {
            let why = pause.reason.map_or_else(String::new, |reason| format!(": {}", accounts(reason)));
            found.push(format!(
                "at that time {} did not run for {}{why}",
                whose(pause.host),
                duration(pause.duration_ns)
            ));
        }
    }
    for overrun in &context.joined.overruns {
        if group.iter().any(|&i| {
            overlaps(i, overrun.first.mono_ns.saturating_sub(COUNTED_WITHIN_NS), overrun.last.mono_ns)
        }) {
            found.push(format!(
                "{} due {} not sent ({})",
                count(overrun.skipped, "sample"),
                were(overrun.skipped),
                overrun.reason
            ));
        }
    }
    for notice in &context.joined.notices {
        let inside = |i: &Incident<'_>| {
            let end = match i {
                Incident::Stall(stall) => stall.end.map_or(context.last, |end: Moment| end.utc),
                Incident::Closing(closing) => closing.at.utc,
            };
            notice.covers(i.start().utc, end)
        };
        if group.iter().any(|i| may_be_of(*i, notice.host) && inside(i)) {
            let whom = if notice.host == "local" { " to this host" } else { to_whom(notice.host) };
            let text = "inside the window of CLOUD's NOTICE notice WHOM; whether that caused it is not known";
            let text = text.replace("CLOUD", notice.cloud).replace("NOTICE", notice.what);
            let text = text.replace(" WHOM", whom);
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found
}

/// True if a notice to this host may concern an incident: it explains only the host it names.
fn may_be_of(incident: Incident<'_>, host: &str) -> bool {
    match incident.verdict() {
        Some(Verdict::PeerPaused) => host == "remote",
        Some(Verdict::LocalPaused) => host == "local",
        _ => host != "other",
    }
}

/// What round trips usually took.
pub(super) fn usual(when: &str, baseline: &Baseline) -> Option<String> {
    let p50 = baseline.p50_ns?;
    let p99 = baseline.p99_ns.map_or_else(String::new, |ns| format!(", p99 {}", duration(ns)));
    Some(format!("{when}: median {}{p99} of {}", duration(p50), count(baseline.count, "round trip")))
}

/// How sure the recorded verdict is: as the probe wrote it down, or from the events where it did not yet.
fn confidence(context: &Context<'_>, incident: Incident<'_>) -> Confidence {
    let Some(explained) = incident.explained() else {
        return incident.said_before().map_or(Confidence::None, |(_, confidence)| confidence);
    };
    if let Some(confidence) = explained.explanation.confidence {
        return confidence;
    }
    let paused = |local: bool| {
        let of = |p: &Pause<'_>| (p.host == "local") == local;
        context.joined.pauses.iter().any(|p| of(p) && overlaps(incident, p.start.mono_ns, p.end_mono_ns))
    };
    let grounds = Grounds {
        fresh: explained.fresh,
        report: explained.report,
        direction: explained.explanation.direction.is_some(),
        cause: incident.cause(),
        local_pause: paused(true),
        remote_pause: paused(false),
    };
    grounds.confidence(explained.explanation.verdict)
}
