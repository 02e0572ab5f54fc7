//! Waiting and working of this side, and what the server did meanwhile, become sums.

use super::attribute::{Doing, HeldUp, SEEN, Seen, Sums, attribute, doubts, index, spent, take_carried};
use super::busy::{Busy, Room};
use super::rate::Rate;
use super::silence::Silences;
use super::split::Party::{Client, Path, Server};
use super::stood::Stood;
use super::ties::Ties;
use super::turns::RoundTrips;
use super::worked::{Span, Worked};
use super::{Rtt, ServerState, Split, well_within};

/// A lost answer is sent again after this and a round trip or two: "Whenever RTO is computed, if it is less than 1 second, then
/// the RTO SHOULD be rounded up to 1 second" (RFC 6298, 2.4), of which Linux makes 200 ms (`TCP_RTO_MIN`).
pub const AGAIN_NS: u64 = 200_000_000;

/// One query: see the module above.
#[derive(Debug, Clone)]
pub struct Timeline {
    began_ns: u64,
    /// Everything before is accounted for.
    now_ns: u64,
    round_trips: RoundTrips,
    /// Earlier looks are of the time before the turn.
    heeded_from_ns: u64,
    /// Nothing of the answer to the last request has come.
    is_first: bool,
    /// Busy since this side last waited.
    busy: Busy,
    /// When it does not run; for how long it did not, and the bytes that came.
    stood: Stood,
    stood_ns: u64,
    /// For how long this side did anything but wait.
    worked_ns: u64,
    bytes: u64,
    /// What came, and how fast.
    rate: Rate,
    silences: Silences,
    worked: Worked,
    /// The latest look of this turn, and time since then (or since the turn began).
    before: Option<ServerState>,
    since: Sums,
    /// When it came, or the turn began.
    before_ns: u64,
    /// Of the turn's beginning, while no look saw that the server had taken the request up; `None`: one did.
    on_its_way: Option<Sums>,
    /// A look under way is late, or one that was late came last: what it saw may be as old as it is late.
    is_blind: bool,
    is_stale: bool,
    /// Time between looks, by what they saw.
    seen: [Sums; SEEN.len()],
    /// What needs no look.
    sure: Split,
    /// The server's kernel sends a lost answer again after this; of this turn it is here within the other, beyond the round trip.
    again_ns: u64,
    again_within_ns: u64,
    /// The answer of the latest look that saw the server work was held up for so long at the most, though not for so long that it was late, of
    /// this turn and of the others: the query's own may have been, too, and the server done.
    held_back_ns: u64,
    held_back_all_ns: u64,
    /// Of this turn, the shortest, the longest, and the longest of a path that is well; of all, what they were taken to be at most.
    rtt_least_ns: u64,
    rtt_high_ns: u64,
    rtt_well_ns: u64,
    rtt_most_ns: u64,
    /// Of the server's first waits so much may have been that of answers that were lost.
    lost_answers_ns: u64,
    /// So long it took to send the requests, and at the most.
    sent_ns: u64,
    sent_most_ns: u64,
    turns: u32,
    looks: u32,
    is_disordered: bool,
    ties: Ties,
}

impl Timeline {
    /// A query that begins now.
    pub fn new(now_ns: u64) -> Self {
        Self {
            began_ns: now_ns,
            now_ns,
            round_trips: RoundTrips::default(),
            heeded_from_ns: 0,
            is_first: false,
            busy: Busy::default(),
            stood: Stood::default(),
            stood_ns: 0,
            worked_ns: 0,
            bytes: 0,
            rate: Rate::default(),
            silences: Silences::default(),
            worked: Worked::default(),
            before: None,
            since: Sums::default(),
            before_ns: now_ns,
            on_its_way: None,
            is_blind: false,
            is_stale: false,
            seen: [Sums::default(); SEEN.len()],
            sure: Split::default(),
            again_ns: AGAIN_NS,
            again_within_ns: 0,
            held_back_ns: 0,
            held_back_all_ns: 0,
            rtt_least_ns: 0,
            rtt_high_ns: 0,
            rtt_well_ns: 0,
            rtt_most_ns: 0,
            lost_answers_ns: 0,
            sent_ns: 0,
            sent_most_ns: 0,
            turns: 0,
            looks: 0,
            is_disordered: false,
            ties: Ties::new(),
        }
    }

    /// The server's kernel sends what was lost again after so long at the least, where it is not Linux's.
    pub fn sends_again_after(&mut self, ns: u64) {
        self.again_ns = ns;
    }

    /// Requests so far.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Looks at the server that counted.
    pub fn looks(&self) -> u32 {
        self.looks
    }

    /// The path's round trip that was reckoned with, of several turns the mean; `None`: none was known.
    pub fn rtt_ns(&self) -> Option<u64> {
        self.round_trips.rtt_ns()
    }

    /// A request was handed to the kernel; what the path's round trip is at this moment, where that is known.
    pub fn request(&mut self, now_ns: u64, rtt: Option<Rtt>) {
        self.close_turn(now_ns);
        self.round_trips.begin(rtt);
        self.rtt_least_ns = rtt.map_or(0, |rtt| rtt.seen_ns);
        if let Some(rtt) = rtt {
            (self.rtt_high_ns, self.rtt_most_ns) = (rtt.high_ns, self.rtt_most_ns.max(rtt.well_ns));
            // One that a cut held up is remembered for a while, and would excuse the next cut.
            self.rtt_well_ns = rtt.high_ns.min(well_within(rtt.well_ns));
            // What it is taken to be says when room was answered: sooner would be surer of more.
            self.busy.round_trip(rtt.ns);
            self.again_within_ns = self.again_ns.saturating_add(rtt.high_ns.saturating_mul(2));
        }
        self.heeded_from_ns = self.now_ns + rtt.map_or(0, |rtt| rtt.ns);
        self.is_first = true;
        self.on_its_way = Some(Sums::default());
        self.turns += 1;
    }

    /// A read gave so many bytes. `waited`: since when this side had waited for them, and when they came, by the kernel's
    /// stamp where it has one; `None`: they were there.
    pub fn received(&mut self, waited: Option<(u64, u64)>, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some((since_ns, came_ns)) = waited {
            let since_ns = since_ns.max(self.now_ns);
            let came_ns = came_ns.max(since_ns);
            self.busy_until(since_ns);
            self.hide_run();
            self.wait(since_ns, came_ns);
        }
        self.ties.reads();
        if !self.is_first || waited.is_none() {
            let waited_ns = self.ties.came(waited.is_some());
            self.rate.waited(waited_ns, self.rtt_high_ns, bytes);
            self.silences.waited(waited_ns, bytes);
        }
        self.is_first = false;
        self.busy.read(bytes, self.now_ns);
    }

    /// Of the bytes that the latest reads gave, the first and the last came at these moments, by the kernel's stamps; without them they
    /// came when they were read. No first one: this side did not wait for them, and nobody knows how long they came. What is done after the last came is nobody else's, until a further read tells of later ones.
    pub fn arrived(&mut self, first_ns: Option<u64>, last_ns: u64, bytes: u64) {
        if first_ns.is_some() {
            self.ties.woke(0);
        }
        self.busy.arrived(last_ns);
        self.rate.arrived(first_ns, last_ns, bytes);
    }

    /// The same of bytes that ended a wait, of which the first may have come at any time since `earliest_ns`: what of the wait lies
    /// after that is this side's, if it was late to see them.
    pub fn arrived_since(&mut self, earliest_ns: u64, last_ns: u64, bytes: u64) {
        self.ties.woke(self.now_ns.saturating_sub(earliest_ns));
        self.busy.arrived(last_ns);
        self.rate.arrived_since(earliest_ns, last_ns, bytes);
    }

    /// A request was too large to be sent at once: so long this side's kernel had something of it that was not acknowledged, but for what
    /// the server had no room for. Most likely the path carried it meanwhile. `most_ns`: the same until the last of it was acknowledged,
    /// which the server's kernel may put off until its process answers.
    pub fn sending(&mut self, ns: u64, most_ns: u64) {
        self.sent_ns = self.sent_ns.saturating_add(ns);
        self.sent_most_ns = self.sent_most_ns.saturating_add(most_ns.max(ns));
    }

    /// This side could run and had to wait for a processor for no longer in all, since the query began.
    pub fn late_within(&mut self, ns: u64) {
        self.ties.late_within(ns);
    }

    /// Segments of the answer came out of their order: one before them was lost on the way.
    pub fn disordered(&mut self) {
        self.is_disordered = true;
    }

    /// While this side is busy: the bytes that its kernel has received over the connection's life, for how many more it has
    /// announced room, and what a segment holds.
    pub fn room(&mut self, now_ns: u64, room: Room) {
        self.busy_until(now_ns);
        self.busy.room(self.now_ns, room, None);
    }

    /// The same right after [`Timeline::stood`], before anything is read: nothing has come since `quiet_ns`.
    pub fn room_after_pause(&mut self, now_ns: u64, room: Room, quiet_ns: u64) {
        self.busy_until(now_ns);
        self.busy.room(self.now_ns, room, Some(quiet_ns));
    }

    /// This process did not run from then to then. To be told before what comes after it, which then takes account of it: what of it
    /// this side would have been busy for, because bytes lay here, or could have come, is the client's; what nothing had come of
    /// yet that was waited for is what it was. Nobody looked at the server meanwhile.
    pub fn stood(&mut self, from_ns: u64, to_ns: u64) {
        self.stood.add(from_ns, to_ns, self.now_ns);
    }

    /// The server's backend did this, as an answer said that came at `at_ns`: it is as old as the bytes that came with it.
    /// Looks come in their order. The caller has told what this side did until then ([`Timeline::busy_until`],
    /// [`Timeline::still_waiting`]); one that comes too late counts from now on. None counts that was made before the server
    /// can have had the request. `asked_ns`: when the server was asked; an answer that took longer than the path does is one
    /// that the path held up, or the server, and nobody knows when it was true: what lies before it is open.
    pub fn look(&mut self, asked_ns: u64, at_ns: u64, state: ServerState) {
        self.looked(asked_ns, at_ns, state, true);
    }

    /// The same of one that saw it work, where it is not known that the server took the request up as soon as that can have been there: until
    /// then it may have been on its way.
    pub fn look_at_work(&mut self, asked_ns: u64, at_ns: u64) {
        self.looked(asked_ns, at_ns, ServerState::Working, false);
    }

    fn looked(&mut self, asked_ns: u64, at_ns: u64, state: ServerState, is_prompt: bool) {
        if at_ns < self.heeded_from_ns || self.turns == 0 {
            return;
        }
        // Once it was done it is, until the next request: later looks are less sure of since when.
        let was_done = self.before == Some(ServerState::Done);
        let state = if was_done && state == ServerState::Before { ServerState::Done } else { state };
        self.looks += 1;
        self.is_stale = self.is_late(asked_ns, at_ns);
        self.is_blind |= self.is_stale;
        if state == ServerState::Working && !self.is_stale {
            self.held_back_ns = (at_ns - asked_ns.min(at_ns)).saturating_sub(self.rtt_least_ns);
        }
        match state {
            ServerState::Working if self.is_first => self.worked.seen(asked_ns, at_ns),
            // Something of the answer may be on its way.
            _ => self.worked.end(),
        }
        let before = self.before.or((!is_prompt).then_some(ServerState::Before));
        let seen = Seen::between(before, Some(state));
        // Later, what looks like that is that it has done with it.
        let seen =
            if seen == Seen::MaybeOnItsWay && self.on_its_way.is_none() { Seen::Changed } else { seen };
        self.shut(seen);
        match state {
            ServerState::Before => {}
            ServerState::Untaken | ServerState::Working => self.settle_way(Seen::MaybeOnItsWay),
            ServerState::Sending | ServerState::Done => self.settle_way(Seen::Changed),
        }
        (self.before, self.before_ns) = (Some(state), at_ns);
    }

    /// A turn is over (what comes next is [`Timeline::request`] or [`Timeline::end`]), and a look that was asked for at this
    /// moment has not come.
    pub fn unlooked(&mut self, asked_ns: u64, now_ns: u64) {
        self.is_blind |= self.is_late(asked_ns, now_ns);
    }

    /// Whether it is no matter of the path's round trip, nor little beside what it is a look into.
    fn is_late(&self, asked_ns: u64, at_ns: u64) -> bool {
        let asked_ns = asked_ns.max(self.began_ns);
        let little_ns = (at_ns.saturating_sub(self.before_ns) / 4).max(super::SLACK_NS);
        at_ns.saturating_sub(asked_ns) > self.rtt_well_ns.saturating_add(little_ns)
    }

    /// This side has been busy until now, and will be.
    pub fn busy_until(&mut self, now_ns: u64) {
        while self.now_ns < now_ns {
            let (until_ns, is_stood) = self.stood.piece(self.now_ns, now_ns);
            let ns = until_ns - self.now_ns;
            self.busy.go_on(ns, until_ns, is_stood);
            self.stood_ns += if is_stood { ns } else { 0 };
            self.worked_ns += ns;
            self.now_ns = until_ns;
        }
    }

    /// This side has waited for bytes since `since_ns`, which have not come: so that looks meanwhile find their place.
    pub fn still_waiting(&mut self, since_ns: u64, now_ns: u64) {
        let since_ns = since_ns.max(self.now_ns);
        self.busy_until(since_ns);
        self.hide_run();
        self.wait(since_ns, now_ns.max(since_ns));
    }

    /// The same, and nothing will come: the connection is lost, or nobody waits any more. Whether the server or the path owed
    /// it is open from the last look on.
    pub fn unanswered(&mut self, since_ns: u64, now_ns: u64) {
        self.still_waiting(since_ns, now_ns);
        for doing in [Doing::First, Doing::FirstUnlooked] {
            self.since[index(Doing::Waiting)] += std::mem::take(&mut self.since[index(doing)]);
        }
    }

    /// The answer is whole and processed, or it is [`Timeline::unanswered`]. `retransmits`: segments that were sent again from
    /// here meanwhile; `None`: nobody knows. `slowest`: of the round trips beside the longest, each from when it was sent until its
    /// answer came, or until now.
    pub fn end(mut self, now_ns: u64, retransmits: Option<u64>, slowest: &[Span]) -> Split {
        self.close_turn(now_ns);
        let slowest_ns = slowest.iter().map(|one| one.ns()).max().unwrap_or(0);
        let suffered_ns = slowest.iter().map(|&one| self.worked.outside(one)).max().unwrap_or(0);
        let is_disturbed = slowest_ns > well_within(self.rtt_most_ns);
        let was_held_up = retransmits != Some(0) || is_disturbed;
        // What was sent again, or may have been, waited for nobody knows how long; a round trip beside says how long it took.
        let most_ns = if retransmits == Some(0) { suffered_ns } else { u64::MAX };
        let mut held_up = HeldUp { was: was_held_up, most_ns };
        let mut split = self.sure;
        split.was_well = !was_held_up;
        split.was_held_up = is_disturbed || retransmits.is_some_and(|segments| segments > 0);
        split.wall_ns = self.now_ns - self.began_ns;
        // Where no look saw that the server had the request before it was sent.
        let carried_ns = take_carried(&mut self.seen, self.sent_ns.saturating_sub(self.rtt_most_ns));
        split.give(Path, carried_ns);
        split.doubt(Path, &[Server], carried_ns);
        let spent = spent(&self.seen);
        for &spent in &spent {
            attribute(&mut split, spent, &mut held_up);
        }
        let late_ns = self.ties.late_ns();
        let mut carried = self.rate.carried(self.rtt_high_ns, late_ns);
        if self.is_disordered {
            carried.ns = u64::MAX;
        }
        // What nothing ended is silent too.
        self.silences.waited(self.ties.waiting_ns(), 0);
        let silent_ns = self.silences.beyond(slowest_ns.max(well_within(self.rtt_most_ns)), self.again_ns);
        doubts(&mut split, &spent, self.looks, carried, self.ties.all(), silent_ns);
        let rest_ns = split.wall_ns - self.stood_ns;
        split.doubt(Client, &[Server, Path], self.busy.doubted_ns(self.bytes, rest_ns));
        self.round_trips.doubt(&mut split);
        split.doubt(Server, &[Path], self.held_back_all_ns);
        if !was_held_up {
            split.doubt(Server, &[Path], self.lost_answers_ns);
        }
        split.doubt(Server, &[Path], self.sent_most_ns - carried_ns);
        split.doubt(Server, &[], late_ns);
        split.doubt(Path, &[], late_ns);
        split.may_be(Client, late_ns);
        split.client_at_most(self.worked_ns.saturating_add(late_ns));
        split.agree();
        self.round_trips.settle(&mut split);
        split
    }

    /// The last busy time of a turn is the client's, from when the last bytes came; before, whoever delivered them may have been
    /// as slow.
    fn close_turn(&mut self, now_ns: u64) {
        self.busy_until(now_ns);
        self.is_blind |= self.is_stale;
        let seen = Seen::between(self.before, None);
        let (tied, alone_ns) = self.busy.end_turn(seen.if_late(self.is_blind));
        self.sure.give(Client, alone_ns);
        for (doing, seen, ns) in tied {
            self.seen[seen as usize][index(doing)] += ns;
        }
        if !self.is_blind && matches!(seen, Seen::Nothing | Seen::Ended) {
            let first_ns = self.since[index(Doing::First)] + self.since[index(Doing::FirstUnlooked)];
            // Where nobody looked it may have been lost again and again.
            self.lost_answers_ns +=
                if self.before.is_some() { first_ns.min(self.again_within_ns) } else { first_ns };
        }
        self.shut(seen);
        self.settle_way(Seen::Changed);
        self.worked.end();
        self.held_back_all_ns += std::mem::take(&mut self.held_back_ns);
        (self.before, self.before_ns, self.is_stale) = (None, self.now_ns, false);
    }

    /// A wait follows: what this side was busy with is hidden behind it.
    fn hide_run(&mut self) {
        let mut hidden_ns = 0;
        for (doing, seen, ns) in self.busy.end_by_wait() {
            let sums = seen.map_or(&mut self.since, |seen| &mut self.seen[seen as usize]);
            sums[index(doing)] += ns;
            // That it did not run is not how fast it is.
            hidden_ns += if matches!(doing, Doing::Stood | Doing::StoodShut) { 0 } else { ns };
        }
        self.ties.hid(hidden_ns);
    }

    fn wait(&mut self, since_ns: u64, until_ns: u64) {
        let ns = until_ns - since_ns;
        let unlooked_ns = self.waited_while_stood(since_ns, until_ns);
        self.now_ns = until_ns;
        if !self.is_first {
            self.since[index(Doing::Waiting)] += ns - unlooked_ns;
            self.seen[Seen::Late as usize][index(Doing::Waiting)] += unlooked_ns;
            self.ties.waited(ns);
            return;
        }
        // A first wait may come in pieces: what of the round trip is left over goes on to the next.
        let Some(path) = self.round_trips.wait(ns) else {
            self.sure.without_rtt = true;
            self.since[index(Doing::FirstWithoutRtt)] += ns;
            return;
        };
        self.sure.give(Path, path);
        let unlooked_ns = unlooked_ns.min(ns - path);
        self.since[index(Doing::First)] += ns - path - unlooked_ns;
        self.since[index(Doing::FirstUnlooked)] += unlooked_ns;
    }

    /// Of a wait, so much in which this process did not run: nothing had come, but nobody looked either.
    fn waited_while_stood(&mut self, since_ns: u64, until_ns: u64) -> u64 {
        let (mut at_ns, mut stood_ns) = (since_ns, 0);
        while at_ns < until_ns {
            let (to_ns, is_stood) = self.stood.piece(at_ns, until_ns);
            stood_ns += if is_stood { to_ns - at_ns } else { 0 };
            at_ns = to_ns;
        }
        self.stood_ns += stood_ns;
        stood_ns
    }

    /// Accounts for what lies between two looks.
    fn shut(&mut self, seen: Seen) {
        let seen = seen.if_late(std::mem::take(&mut self.is_blind));
        self.busy.looked(seen);
        let since = std::mem::take(&mut self.since);
        let sums = match &mut self.on_its_way {
            Some(on_its_way) if seen == Seen::MaybeOnItsWay => on_its_way,
            _ => &mut self.seen[seen as usize],
        };
        add(sums, &since);
    }

    /// The server was seen to have taken the request up, or its kernel to have it, or it will not be: what that says of the time before.
    /// Only of one that was seen to work then is known that it had not before.
    fn settle_way(&mut self, seen: Seen) {
        if let Some(on_its_way) = self.on_its_way.take() {
            add(&mut self.seen[seen as usize], &on_its_way);
        }
    }
}

fn add(sums: &mut Sums, more: &Sums) {
    for (sum, ns) in sums.iter_mut().zip(more) {
        *sum += ns;
    }
}
