//! A query under way: what is seen and known of it, told to `fathom_core::query` in its order.

use crate::channel::{Channel, Filled};
use crate::done::Done;
use crate::error::Refusal;
use crate::looks::{Look, Looks};
use crate::patience::Patience;
use crate::sending::Sending;
use fathom_core::event::TcpInfo;
use fathom_core::query::{Room, Rtt, ServerState, Timeline};
use fathom_os::clock::mono_ns;
use fathom_os::pause::Running;
use std::collections::{HashMap, VecDeque};
use std::mem::{replace, take};
use std::time::Duration;

/// The kernel is asked what room there is at most so often where this side is busy with nothing but reading.
pub(crate) const ROOM_EVERY_NS: u64 = 200_000;
/// A look that has not come back for so long is not answered.
const SILENT_NS: u64 = 1_000_000_000;
/// A server takes a request up within so long, beyond what round trips vary by.
const PROMPT_NS: u64 = 300_000;
/// Looks that are remembered, and fewer say nothing.
const LOOK_TIMES: std::ops::RangeInclusive<usize> = 5..=16;

/// How long the latest looks took, and the first waits of answers: of a session, from one query to the next.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    looks_ns: VecDeque<u64>,
    first_waits_ns: VecDeque<u64>,
}

/// See the module.
pub(crate) struct UnderWay {
    pub(crate) line: Timeline,
    pub(crate) patience: Patience,
    looks: VecDeque<Look>,
    /// When the latest of them was answered.
    pub(crate) looked_ns: u64,
    /// When the latest that is told of was asked for, and what it saw.
    seen_last: Option<(u64, ServerState)>,
    waits: HashMap<String, u64>,
    pub(crate) began_ns: u64,
    pub(crate) first_row_ns: Option<u64>,
    pub(crate) rows: u64,
    pub(crate) refusal: Option<Refusal>,
    /// When bytes were last read.
    pub(crate) read_ns: u64,
    /// Since then bytes are waited for that have not come: a request was sent, or nothing was there.
    pub(crate) waiting_since_ns: Option<u64>,
    /// The least round trip that the kernel knew of when it began.
    min_rtt_ns: Option<u64>,
    /// When the latest request was sent, and whether anything of its answer has come.
    requested_ns: u64,
    is_answered: bool,
    /// Bytes lay here when it was sent, and none were read since: nothing of them answers it.
    pub(crate) is_stale: bool,
    /// When it was known to be with the server's kernel, of one that is not answered.
    acknowledged_ns: Option<u64>,
    /// Since when the server has been done with the latest request, as the looks say.
    done: Done,
    /// Of a request that does not go at once.
    pub(crate) sending: Option<Sending>,
    /// When the kernel was last asked what room there is, or this side last waited.
    asked_room_ns: u64,
    habits: Habits,
    /// The scheduler tells how late this side runs.
    pub(crate) is_lateness_known: bool,
    /// For how long this process did not run; and since it last did not, the kernel was not asked what had come.
    pub(crate) stood_ns: u64,
    has_stood: bool,
    /// Rows came that were not worked on, or not for all of `--think`: the user ended the run, or the query had taken too long.
    pub(crate) is_cut_short: bool,
}

/// What came of other questions to the server while it did not answer a query, nor the request to cancel it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meanwhile {
    /// Nothing else was asked, or not for long.
    Unknown,
    /// A look was asked for after that request, and saw this.
    Answered(ServerState),
    /// A look has not come back either.
    Unanswered,
}

/// What the kernel says before this side reads what came while it did not run: when, what, and since when nothing more came.
pub(crate) type AfterPause = (u64, Room, u64);

impl Habits {
    /// A look took so long.
    pub(crate) fn looked(&mut self, look: &Look) {
        Self::keep(&mut self.looks_ns, look.at_ns.saturating_sub(look.asked_ns));
    }

    fn keep(of: &mut VecDeque<u64>, ns: u64) {
        of.push_back(ns);
        if of.len() > *LOOK_TIMES.end() {
            of.pop_front();
        }
    }

    /// The path's round trip: no look is answered sooner. Set-ups of connections are few, and many of them of the beginning.
    fn no_longer_than(&self, rtt: Rtt) -> Rtt {
        if self.looks_ns.len() < *LOOK_TIMES.start() {
            return rtt;
        }
        let mut sorted: Vec<_> = self.looks_ns.iter().copied().collect();
        sorted.sort_unstable();
        rtt.usually(sorted[sorted.len() / 2])
    }
}

impl UnderWay {
    /// One that begins now; the kernel's counters, and what earlier queries of the session left.
    pub(crate) fn new(
        began_ns: u64,
        patience: Patience,
        before: Option<&TcpInfo>,
        habits: Habits,
        is_lateness_known: bool,
    ) -> Self {
        Self {
            line: Timeline::new(began_ns),
            patience,
            looks: VecDeque::new(),
            looked_ns: 0,
            seen_last: None,
            waits: HashMap::new(),
            began_ns,
            first_row_ns: None,
            rows: 0,
            refusal: None,
            read_ns: began_ns,
            waiting_since_ns: None,
            // It is 2^32 - 1 before there was any.
            min_rtt_ns: before
                .filter(|info| info.min_rtt_us > 0 && info.min_rtt_us < u32::MAX)
                .map(|info| u64::from(info.min_rtt_us) * 1_000),
            requested_ns: began_ns,
            is_answered: false,
            is_stale: false,
            acknowledged_ns: None,
            done: Done::default(),
            sending: None,
            asked_room_ns: began_ns,
            habits,
            is_lateness_known,
            stood_ns: 0,
            has_stood: false,
            is_cut_short: false,
        }
    }

    /// For the next query of the session.
    pub(crate) fn habits(&mut self) -> Habits {
        take(&mut self.habits)
    }

    /// A request is sent now, over a path with this round trip. From here to the first bytes of its answer this side has nothing to do
    /// but to wait, also where those come before the kernel has given back the call that sends (on one host they do).
    pub(crate) fn request(&mut self, now: u64, rtt: Option<Rtt>) {
        let rtt = rtt.map(|rtt| self.habits.no_longer_than(rtt.beside_own(self.own_round_trip_ns())));
        self.line.request(now, rtt);
        (self.waiting_since_ns, self.requested_ns, self.is_answered) = (Some(now), now, false);
        self.acknowledged_ns = None;
        let (least_rtt_ns, rtt_ns, most_rtt_ns) =
            rtt.map_or((0, 0, u64::MAX), |rtt| (rtt.low_ns, rtt.ns, rtt.high_ns));
        self.done = Done { requested_ns: now, least_rtt_ns, rtt_ns, most_rtt_ns, ..Done::default() };
    }

    /// When the kernel is to be asked again whether all of the request was sent; `None`: it need not be.
    pub(crate) fn asks_again(&self, now: u64) -> Option<Duration> {
        let sending = self.sending.as_ref().filter(|_| !self.is_answered)?;
        sending.every(now.saturating_sub(self.requested_ns))
    }

    /// Nothing of an answer has come: asks the kernel what it knows of the request, as long as that is of use.
    pub(crate) fn note_request(&mut self, channel: &Channel) {
        if self.is_answered || self.acknowledged_ns.is_some() {
            return;
        }
        let Some(info) = channel.info() else { return };
        if let Some(sending) = &mut self.sending {
            sending.note(&info, channel);
        }
        if info.unacked == 0 && info.notsent_bytes == 0 {
            self.acknowledged_ns = Some(mono_ns());
        }
    }

    /// No round trip of this path was longer at the least: what the kernel saw on this connection, what looks took, and
    /// requests that were answered.
    fn own_round_trip_ns(&self) -> u64 {
        let waits = self.habits.first_waits_ns.iter().chain(&self.habits.looks_ns).copied();
        self.min_rtt_ns.into_iter().chain(waits).min().unwrap_or(u64::MAX)
    }

    /// Bytes that this side did not wait for, but where they are the first of an answer: since when.
    pub(crate) fn was_there(
        &mut self,
        filled: &Filled,
        asked_ns: Option<u64>,
        after_pause: Option<AfterPause>,
    ) {
        let came_ns = filled.came_ns.clamp(asked_ns.unwrap_or(0), filled.read_ns);
        self.answered(asked_ns.map_or(0, |asked_ns| came_ns - asked_ns));
        self.line.received(asked_ns.map(|asked_ns| (asked_ns, came_ns)), filled.bytes);
        // What was there when this side came to read had come before.
        self.line.arrived(None, filled.came_ns.min(came_ns).max(self.began_ns), filled.bytes);
        self.was_read(filled, after_pause);
    }

    /// Bytes that were waited for since then until then. `is_exact`: that is when the first of them came; else they may have come at
    /// any time since.
    pub(crate) fn was_waited_for(
        &mut self,
        filled: &Filled,
        (since_ns, came_ns): (u64, u64),
        is_exact: bool,
        after_pause: Option<AfterPause>,
    ) {
        self.answered(came_ns - since_ns);
        self.line.received(Some((since_ns, came_ns)), filled.bytes);
        let last_ns = filled.came_ns.clamp(came_ns, filled.read_ns);
        if is_exact {
            self.line.arrived(Some(came_ns), last_ns, filled.bytes);
        } else {
            self.line.arrived_since(since_ns, last_ns, filled.bytes);
        }
        // Who waits is not busy.
        self.asked_room_ns = self.asked_room_ns.max(came_ns);
        self.was_read(filled, after_pause);
    }

    fn was_read(&mut self, filled: &Filled, after_pause: Option<AfterPause>) {
        if let Some((at_ns, room, quiet_ns)) = after_pause {
            self.line.room_after_pause(at_ns, room, quiet_ns);
        }
        (self.waiting_since_ns, self.read_ns) = (None, filled.read_ns);
        self.is_stale = false;
    }

    /// The first bytes of an answer came after so long.
    fn answered(&mut self, waited_ns: u64) {
        // Bytes that were there before the request are no answer to it.
        if !replace(&mut self.is_answered, true) && waited_ns > 0 {
            Habits::keep(&mut self.habits.first_waits_ns, waited_ns);
        }
    }

    /// Tells of the looks of a turn that is over, and of one that should have come.
    pub(crate) fn end_turn(&mut self, looks: Option<&Looks>, now: u64, waiting_since_ns: Option<u64>) {
        // Asked first: one that comes meanwhile is noted.
        let under_way = looks.and_then(Looks::under_way);
        self.note_looks(looks, now, waiting_since_ns);
        if let (Some(asked_ns), true) = (under_way, self.line.turns() > 0) {
            self.line.unlooked(asked_ns, now);
        }
    }

    /// Tells the timeline of the looks until then, of which it knows that this side was busy, or had waited since a moment.
    pub(crate) fn note_looks(&mut self, looks: Option<&Looks>, until_ns: u64, waiting_since_ns: Option<u64>) {
        let Some(looks) = looks else { return };
        self.looks.extend(looks.seen());
        self.looked_ns = self.looks.back().map_or(self.looked_ns, |look| look.at_ns);
        while let Some(look) = self.looks.pop_front_if(|look| look.at_ns <= until_ns) {
            match waiting_since_ns {
                Some(since_ns) if look.at_ns > since_ns => self.line.still_waiting(since_ns, look.at_ns),
                _ => self.line.busy_until(look.at_ns),
            }
            let is_there =
                !self.is_answered && self.acknowledged_ns.is_some_and(|known_ns| known_ns <= look.asked_ns);
            let state = look.state.believed(look.since, self.requested_ns, is_there);
            self.done.seen(state, &look);
            if state == ServerState::Working && !self.is_prompt(&look) {
                self.line.look_at_work(look.asked_ns, look.at_ns);
            } else {
                self.line.look(look.asked_ns, look.at_ns, state);
            }
            self.seen_last = Some((look.asked_ns, state));
            self.habits.looked(&look);
            if let (ServerState::Working, Some(wait)) = (state, look.wait) {
                *self.waits.entry(wait).or_default() += 1;
            }
        }
    }

    /// What came of looks while the server was silent to this session, of a query that is given up now.
    pub(crate) fn meanwhile(&self, looks: Option<&Looks>, now: u64) -> Meanwhile {
        let cancelled_ns = self.patience.cancelled_ns();
        // Whoever looks asks each 100 ms, or waits for an answer, or for another session.
        let has_asked = looks.is_some_and(|looks| looks.failure().is_none())
            && cancelled_ns.is_some_and(|at_ns| now.saturating_sub(at_ns) >= SILENT_NS);
        let is_silent = |asked_ns| asked_ns >= self.began_ns && now.saturating_sub(asked_ns) >= SILENT_NS;
        match self.seen_last.filter(|(asked_ns, _)| cancelled_ns.is_some_and(|at_ns| *asked_ns >= at_ns)) {
            Some((_, state)) => Meanwhile::Answered(state),
            None if has_asked || looks.and_then(Looks::unanswered_since).is_some_and(is_silent) => {
                Meanwhile::Unanswered
            }
            None => Meanwhile::Unknown,
        }
    }

    /// Whether a server that is at work took the request up as soon as that can have been there, as far as it says since when it has been.
    fn is_prompt(&self, look: &Look) -> bool {
        let Done { requested_ns, rtt_ns, most_rtt_ns, .. } = self.done;
        let late_ns = most_rtt_ns.saturating_sub(rtt_ns).saturating_add(PROMPT_NS);
        look.since.is_some_and(|since| since.earliest_ns <= requested_ns.saturating_add(late_ns))
    }

    /// What is known of when the server was done.
    pub(crate) fn done(&self) -> Done {
        Done { least_rtt_ns: self.done.least_rtt_ns.min(self.own_round_trip_ns()), ..self.done }
    }

    /// This thread runs: of the pauses that it learns of now the query is told, before anything that comes after them is.
    pub(crate) fn stood(&mut self, running: Option<&mut Running>, now: u64) {
        let Some(running) = running else { return };
        let pauses = running.runs(now);
        if pauses.is_empty() {
            return;
        }
        let mut pauses = pauses.to_vec();
        // As they were noticed.
        pauses.sort_unstable();
        for (from_ns, to_ns) in pauses {
            let from_ns = from_ns.max(self.began_ns);
            self.line.stood(from_ns, to_ns);
            self.patience.stood(from_ns, to_ns);
            self.stood_ns += to_ns.saturating_sub(from_ns);
            self.has_stood = true;
        }
    }

    /// Asks the kernel how much room there is for more, if so long nobody did.
    pub(crate) fn room(&mut self, channel: &Channel, looks: Option<&Looks>, now: u64, every_ns: u64) {
        if take(&mut self.has_stood) {
            if let Some((room, quiet_ns)) = channel.quiet_room() {
                self.note_looks(looks, now, None);
                self.line.room_after_pause(now, room, quiet_ns);
            }
        } else if now.saturating_sub(self.asked_room_ns) >= every_ns {
            self.asked_room_ns = now;
            if let Some(room) = channel.room() {
                // Looks are in their order with it.
                self.note_looks(looks, now, None);
                self.line.room(now, room);
            }
        }
    }

    /// What the kernel says before this side reads what came while it did not run; `None`: it ran.
    pub(crate) fn room_after_pause(&mut self, channel: &Channel) -> Option<AfterPause> {
        let was_told = take(&mut self.has_stood);
        let (room, quiet_ns) = was_told.then(|| channel.quiet_room())??;
        Some((mono_ns(), room, quiet_ns))
    }

    /// What the server was seen to wait for at more than half of all looks: without one it was seen at work, or elsewhere, for longer.
    pub(crate) fn waited_for(&mut self) -> Option<String> {
        mostly(take(&mut self.waits), self.line.looks().into())
    }
}

fn mostly(waits: HashMap<String, u64>, looks: u64) -> Option<String> {
    waits.into_iter().find(|(_, n)| n.saturating_mul(2) > looks).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_core::query::Since;

    /// Of forty looks two saw it sleep, and the others at work: it did not wait for most of the time.
    #[test]
    fn main_wait_needs_majority_of_observations() {
        let waits = |n| HashMap::from([("Timeout/PgSleep".to_owned(), n), ("IO/DataFileRead".to_owned(), 1)]);
        assert_eq!(mostly(waits(2), 40), None);
        assert_eq!(mostly(waits(20), 40), None);
        assert_eq!(mostly(waits(21), 40).as_deref(), Some("Timeout/PgSleep"));
        assert_eq!(mostly(HashMap::new(), 0), None);
    }

    /// It was once counted from the longest round trip, and on a long path one that was taken up late was prompt (a reviewer).
    #[test]
    fn prompt_start_allows_only_rtt_variation() {
        const MS: u64 = 1_000_000;
        let asked_ns = 1_000 * MS;
        let is_prompt = |usual_ns, most_ns, taken_up_ns: Option<u64>| {
            let patience = Patience::new(asked_ns, None, None, &crate::Stop::default());
            let mut run = UnderWay::new(asked_ns, patience, None, Habits::default(), true);
            run.request(asked_ns, Rtt::of(&[usual_ns, usual_ns, most_ns]));
            let since =
                taken_up_ns.map(|ns| Since { earliest_ns: asked_ns + ns, latest_ns: asked_ns + ns + MS });
            let (at_ns, state) = (asked_ns + 200 * MS, ServerState::Working);
            run.is_prompt(&Look {
                at_ns,
                asked_ns: at_ns - usual_ns,
                state,
                since,
                is_rest: false,
                wait: None,
            })
        };
        for usual in [2, 50] {
            let (usual_ns, most_ns) = (usual * MS, (usual + 3) * MS);
            assert!(is_prompt(usual_ns, most_ns, Some(3 * MS)), "{usual}");
            assert!(!is_prompt(usual_ns, most_ns, Some(4 * MS)), "{usual}");
            // Where they do not vary nothing but the server keeps a request lying.
            assert!(!is_prompt(usual_ns, usual_ns, Some(MS)), "{usual}");
            // Who does not say since when may have begun late.
            assert!(!is_prompt(usual_ns, most_ns, None), "{usual}");
        }
    }
}
