//! A client under a policy in virtual time, against servers and paths that do whatever is bad for it, and the laws that hold
//! at every moment of it.

mod laws;
mod random;

pub(crate) use laws::{Laws, MS, S};
pub(crate) use random::{policies, stories};

use fathom_core::policy::{Client, Counts, Input, Output, Policy};
use fathom_core::schedule::{Pace, Schedule};
use fathom_wire::pattern::mix;
use std::collections::{BTreeMap, BTreeSet};

/// What a target does for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It accepts and answers.
    Well,
    /// It accepts, and answers so late.
    Slow(u64),
    /// It refuses, and what is open breaks when something is sent.
    Refuses,
    /// Nothing comes back of whatever is sent there.
    Silent,
    /// It accepts, and ends each connection at once.
    Slams,
    /// One of three things at random goes wrong, each time.
    Moody,
}

/// From when on a target does what, in order.
pub(crate) type Moods = Vec<(u64, Mood)>;

/// What happens to a client.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) interval_ns: u64,
    pub(crate) requests: u64,
    pub(crate) rtt_ns: u64,
    pub(crate) moods: [Moods; 2],
    /// At these moments every open connection is reset.
    pub(crate) resets: Vec<u64>,
    pub(crate) stop_at_ns: Option<u64>,
    /// From when on its host does not run, and for how long.
    pub(crate) pauses: Vec<(u64, u64)>,
    pub(crate) seed: u64,
}

/// What is changed on the way to the laws, so that it is seen that they notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Falsified {
    Nothing,
    /// One ended request is not counted.
    Count,
    /// A request is told to have ended twice.
    EndedTwice,
    /// A connection is opened that the client knows nothing of.
    Leak,
    /// A check of the recovery monitor is begun though the breaker is closed.
    Check,
    /// A request that was sent without an answer is told as failed.
    Harmless,
}

struct World<'a> {
    story: &'a Story,
    now: u64,
    dice: u64,
    next: u64,
    /// What will happen: when, which of those of one moment, what.
    coming: BTreeMap<(u64, u64), Input>,
    open: BTreeMap<u32, usize>,
}

impl World<'_> {
    fn roll(&mut self, n: u64) -> u64 {
        self.dice += 1;
        mix(self.story.seed ^ mix(self.dice)) % n
    }

    fn will(&mut self, after_ns: u64, input: Input) {
        self.next += 1;
        self.coming.insert((self.now + after_ns, self.next), input);
    }

    fn mood(&mut self, target: usize) -> Mood {
        let moods = &self.story.moods[target];
        let mood =
            moods.iter().rev().find(|(from, _)| *from <= self.now).map_or(Mood::Well, |(_, mood)| *mood);
        match (mood, self.roll(6)) {
            (Mood::Moody, 0) => Mood::Silent,
            (Mood::Moody, 1) => Mood::Refuses,
            (Mood::Moody, 2) => Mood::Slow(3 * S),
            (Mood::Moody, _) => Mood::Well,
            (mood, _) => mood,
        }
    }

    fn does(&mut self, output: &Output) {
        match *output {
            Output::Open { id, target, .. } => {
                self.open.insert(id, target);
                let rtt = self.story.rtt_ns;
                match self.mood(target) {
                    Mood::Well | Mood::Slow(_) | Mood::Moody => self.will(rtt, Input::Connected { id }),
                    Mood::Slams => {
                        self.will(rtt, Input::Connected { id });
                        self.will(rtt + 1, Input::Lost { id });
                    }
                    // At once, as over loopback, or after a round trip.
                    Mood::Refuses => {
                        let after = self.roll(2) * rtt;
                        self.will(after, Input::Lost { id });
                    }
                    Mood::Silent => {}
                }
            }
            Output::Send { id, ask, .. } => {
                let target = self.open[&id];
                match self.mood(target) {
                    Mood::Well | Mood::Moody => self.will(self.story.rtt_ns, Input::Answered { id, ask }),
                    Mood::Slow(after) => self.will(after, Input::Answered { id, ask }),
                    Mood::Refuses | Mood::Slams => self.will(self.story.rtt_ns, Input::Lost { id }),
                    Mood::Silent => {}
                }
                if self.roll(50) == 0 {
                    let ask = ask + self.roll(3);
                    self.will(2 * self.story.rtt_ns, Input::Answered { id, ask });
                }
            }
            // What is under way to a connection that was closed is told all the same.
            Output::Close { id, .. } => drop(self.open.remove(&id)),
            Output::Ended { .. } | Output::Event(_) => {}
        }
    }
}

/// Lets a client live through a story under `policy`; the laws believe in `believed`. How it ended, or which law was broken.
pub(crate) fn live(
    story: &Story,
    policy: &Policy,
    believed: &Policy,
    falsified: Falsified,
) -> Result<(Counts, Laws), String> {
    let schedule = Schedule::new(Pace::Every(story.interval_ns), 0, Some(story.requests), None);
    let mut client = Client::new(policy.clone(), schedule, story.seed);
    let mut laws = Laws::new(believed.clone(), story.interval_ns, story.requests);
    let coming = BTreeMap::new();
    let mut world = World { story, now: 0, dice: 0, next: 0, coming, open: BTreeMap::new() };
    let mut resets: BTreeSet<u64> = story.resets.iter().copied().collect();
    let mut stops: BTreeSet<u64> = story.stop_at_ns.into_iter().collect();
    let mut done = false;
    client.start(0);
    for step in 0_u64.. {
        while let Some(output) = client.poll() {
            world.does(&output);
            for output in falsify(falsified, output, &mut done, &laws) {
                laws.output(world.now, &output)?;
            }
        }
        let mut counts = client.counts();
        if falsified == Falsified::Count {
            counts.answered = counts.answered.saturating_sub(1);
        }
        laws.moment(world.now, counts, client.standing().0)?;
        if client.is_over() {
            laws.over()?;
            return Ok((client.counts(), laws));
        }
        if step > 400_000 {
            return Err(format!("it goes on for ever: at {} ns {counts:?}", world.now));
        }
        let first = world.coming.keys().next().map(|(at, _)| *at);
        let moments = [first, client.next_wake(), resets.first().copied(), stops.first().copied()];
        let Some(next) = moments.into_iter().flatten().min() else {
            return Err(format!("nothing will ever happen: {counts:?}"));
        };
        world.now = world.now.max(next);
        for &(from, lasts) in &story.pauses {
            if (from..from + lasts).contains(&world.now) {
                world.now = from + lasts;
            }
        }
        laws.begins(world.now);
        if stops.first().is_some_and(|at| *at <= world.now) {
            stops.pop_first();
            laws.stopped();
            client.handle(world.now, Input::Stop);
        } else if resets.first().is_some_and(|at| *at <= world.now) {
            resets.pop_first();
            let all: Vec<u32> = world.open.keys().copied().collect();
            for id in all {
                world.will(0, Input::Lost { id });
            }
            client.handle(world.now, Input::Wake);
        } else if first.is_some_and(|at| at <= world.now) {
            let (_, input) = world.coming.pop_first().expect("there is a first");
            laws.input(input);
            client.handle(world.now, input);
        } else {
            client.handle(world.now, Input::Wake);
        }
    }
    unreachable!("steps are counted")
}

fn falsify(how: Falsified, output: Output, done: &mut bool, laws: &Laws) -> Vec<Output> {
    use fathom_core::policy::Outcome;
    let once = |hit: bool, done: &mut bool| hit && !std::mem::replace(done, true);
    match (how, &output) {
        (Falsified::EndedTwice, Output::Ended { .. }) if once(true, done) => vec![output.clone(), output],
        (Falsified::Leak, Output::Open { target, .. }) if once(true, done) => {
            let more = Output::Open { id: 1_000_000, target: *target, place: 1_000_000 };
            vec![output, more]
        }
        (Falsified::Check, Output::Open { .. }) if once(true, done) => {
            let place = laws.monitors().expect("it has one");
            vec![output, Output::Open { id: 1_000_000, target: 0, place }]
        }
        (Falsified::Harmless, Output::Ended { request, outcome: Outcome::Ambiguous })
            if laws.was_sent(*request) && once(true, done) =>
        {
            vec![Output::Ended { request: *request, outcome: Outcome::Failed }]
        }
        _ => vec![output],
    }
}
