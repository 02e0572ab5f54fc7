//! The laws of delays: what waited for a host to run was on no way meanwhile, and neither the probe nor the story that is
//! told of its events and rows says otherwise.

use super::outcome::Outcome;
use super::{MS, START};
use fathom_core::event::{Event, EventKind};
use fathom_core::sample::Sample;
use fathom_core::story::{Gatherer, Measured, State, tell};
use fathom_core::verdict::{Direction, Verdict};
use jiff::Timestamp;

/// A round trip below this is none that anybody calls late.
const LATE_NS: u64 = 100 * MS;

impl Outcome {
    pub(super) fn check_delays(&self) {
        if self.clock_was_set {
            return;
        }
        for (path, event) in &self.events {
            self.check_delay(path.unwrap_or(0), event);
        }
        let paths: std::collections::BTreeSet<usize> = self.samples.iter().map(|(path, _)| *path).collect();
        for path in paths {
            self.check_story(path);
        }
    }

    /// What the end of a delay says fits the truth about its slowest sample.
    fn check_delay(&self, path: usize, event: &Event) {
        let EventKind::DelayEnded { most_ns, verdict, direction, .. } = event.kind else { return };
        let is_it = |sample: &&Sample| {
            Some(sample.connection) == event.connection && sample.rtt_ns == i64::try_from(most_ns).ok()
        };
        let read_before = |sample: &&Sample| span(sample).is_some_and(|(_, read)| read <= event.mono_ns);
        let of_path = self.samples.iter().filter(|(of, _)| *of == path).map(|(_, sample)| sample);
        let slowest = of_path.filter(is_it).rfind(read_before).expect("it has a row");
        let (sent, read) = span(slowest).expect("it was answered");
        let [local, peer] = [&self.local_stops, &self.peer_stops].map(|stops| covered(stops, sent, read));
        let (known, all) = (self.waited(path, slowest), covered(&self.stops(), sent, read));
        let truth = format!("{event:?}: {all} of {most_ns} ns waited for a host, {local} for this one");
        let paused = matches!(verdict, Verdict::LocalPaused | Verdict::PeerPaused);
        assert!(paused || !nearly_all(known, most_ns), "the path is blamed for hosts: {truth}");
        // A host that did not run for most of it: a little is left for what a clock and a stamp cannot tell.
        assert!(!paused || all * 10 >= most_ns * 7, "hosts are blamed for the path: {truth}");
        assert!(direction.is_none() || local * 5 <= most_ns + MS, "a way is named: {truth}");
        let there = direction == Some(Direction::Forward) && self.knows_the_peer(path, slowest);
        assert!(
            !there || peer * 5 <= most_ns + MS,
            "the way there is named: {peer} of the reflector's, {truth}"
        );
    }

    /// Where every late sample waited for a host, no line of the story blames the path.
    fn check_story(&self, path: usize) {
        let of_path = |of: &Option<usize>| of.is_none_or(|of| of == path);
        let events: Vec<Event> =
            self.events.iter().filter(|(of, _)| of_path(of)).map(|(_, event)| event.clone()).collect();
        let mut gatherer = Gatherer::new(&events);
        let samples = || self.samples.iter().filter(|(of, _)| *of == path).map(|(_, sample)| sample);
        samples().for_each(|sample| gatherer.sample(sample));
        let measured = Measured {
            label: String::new(),
            reflector: String::new(),
            mode: "tcp".to_owned(),
            size: 64,
            interval_ns: None,
            started_at: Timestamp::from_nanosecond(START.utc_ns.into()).expect("a time"),
            ended_at: None,
            state: State::Finished,
        };
        let late = |sample: &&Sample| {
            let rtt_ns = sample.rtt_ns.unwrap_or(0).max(0) as u64;
            rtt_ns >= LATE_NS && !nearly_all(self.waited(path, sample), rtt_ns)
        };
        let lines = tell(&measured, &events, &gatherer.finish());
        let blames = lines.iter().find(|line| line.verdict == Some(Verdict::Delayed));
        assert!(blames.is_none() || samples().any(|sample| late(&sample)), "hosts did not run: {blames:?}");
    }

    /// For how long a sample waited for a host to run, as far as its probe can know.
    fn waited(&self, path: usize, sample: &Sample) -> u64 {
        let Some((sent, read)) = span(sample) else { return 0 };
        let stops = if self.knows_the_peer(path, sample) { self.stops() } else { self.local_stops.clone() };
        covered(&stops, sent, read)
    }

    /// When either host did not run.
    fn stops(&self) -> Vec<(u64, u64)> {
        [&self.local_stops[..], &self.peer_stops].concat()
    }

    /// Whether the reflector's pauses are known of: an echo of its connection had come before, and another comes after, in case
    /// it stood still between its stamp and the sending.
    fn knows_the_peer(&self, path: usize, sample: &Sample) -> bool {
        let Some((sent, read)) = span(sample) else { return false };
        let others = || {
            let of = |(of, other): &&(usize, Sample)| *of == path && other.connection == sample.connection;
            self.samples.iter().filter(of).filter_map(|(_, other)| span(other))
        };
        self.peer_tells
            && others().any(|(_, before)| before <= sent)
            && others().any(|(after, _)| after >= read)
    }
}

/// By the monotonic clock: when a sample was sent, and its echo read.
fn span(sample: &Sample) -> Option<(u64, u64)> {
    let sent = (sample.sent_ns - START.utc_ns) as u64 + START.mono_ns;
    Some((sent, sent + u64::try_from(sample.rtt_ns?).ok()?))
}

fn nearly_all(part: u64, all: u64) -> bool {
    part * 10 >= all * 9
}

/// How much of a time lies in any of these.
fn covered(stops: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let mut stops: Vec<(u64, u64)> = stops.iter().map(|&(a, b)| (a.max(from), b.min(to))).collect();
    stops.sort_unstable();
    let (mut all, mut until) = (0, from);
    for (began, ended) in stops {
        all += ended.saturating_sub(began.max(until));
        until = until.max(ended);
    }
    all
}
