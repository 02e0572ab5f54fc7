//! Runs of applications under policies, each in a world of its own, through the same events.

use crate::error::Error;
use crate::played::{Kept, Taker, play};
use crate::recorded::{Made, Measured, at};
use crate::truths::Truths;
use fathom_core::event::{CLIENT_MODE, Event, EventKind};
use fathom_core::policy::{Amounts, Tally};
use fathom_core::sample::Sample;
use fathom_fabric::scenario::Scenario;
use fathom_fabric::simulate::{Applicant, ClientOnPath, Options, Simulation, Unservable, simulate_clients};
use fathom_fabric::truth::Truth;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// What one policy came to in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// What became of its requests.
    pub amounts: Amounts,
    /// Of these, how many nobody could have answered: a bound, see [`Unservable`].
    pub unservable: u64,
}

/// What several policies came to on one path.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The path's label.
    pub path: String,
    /// The policies' names.
    pub policies: Vec<String>,
    /// By policy, and then by run. In one run all met the same events.
    pub outcomes: Vec<Vec<Outcome>>,
}

/// Plays a scenario `runs` times for each applicant, with the seeds from that of the options on. Nobody is in another's way:
/// each has a world of its own, of the same seed. Several at a time, as the machine has processors. `record`: the directory
/// for recordings and truths, of each applicant in `NAME` and of more than one run in `run-SEED/NAME`. `tell` is told now and
/// then which share of all has passed, and says whether it is to go on: if not, what has been played of a run that is not whole
/// is left out, and may be all.
pub fn compare(
    scenario: &Scenario,
    options: &Options,
    applicants: &[Applicant],
    runs: usize,
    record: Option<&Path>,
    made: &Made,
    tell: impl Fn(f64) -> bool + Sync,
) -> Result<Vec<Comparison>, Error> {
    let first = options.seed.unwrap_or(scenario.seed);
    let count = runs * applicants.len();
    let alone = |i: usize| {
        let (applicant, seed) =
            (&applicants[i % applicants.len()], first.wrapping_add((i / applicants.len()) as u64));
        let run = |dir: &Path| if runs == 1 { dir.to_owned() } else { dir.join(format!("run-{seed}")) };
        let record = record.map(|dir| run(dir).join(&applicant.name));
        Alone { scenario, options: Options { seed: Some(seed), ..*options }, seed, applicant, record, made }
    };
    let played = in_parallel(count, |i, tell| alone(i).play(tell), tell)?;
    let whole = played.chunks(applicants.len()).filter_map(|run| run.iter().cloned().collect());
    Ok(by_path(applicants, whole))
}

/// Does so many things, several at a time, until one fails or `tell` says no; what came of them, in their order.
fn in_parallel<T: Send>(
    count: usize,
    work: impl Fn(usize, &dyn Fn(f64) -> bool) -> Result<Option<T>, Error> + Sync,
    tell: impl Fn(f64) -> bool + Sync,
) -> Result<Vec<Option<T>>, Error> {
    let shares: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Result<Option<T>, Error>>> = Mutex::new((0..count).map(|_| Ok(None)).collect());
    let worker = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return;
            }
            let told = |share: f64| {
                shares[i].store(share.to_bits(), Ordering::Relaxed);
                let sum: f64 = shares.iter().map(|one| f64::from_bits(one.load(Ordering::Relaxed))).sum();
                tell(sum / count as f64)
            };
            let result = work(i, &told);
            if !told(1.0) || result.is_err() {
                // The others are not wanted, or would fail alike.
                next.store(count, Ordering::Relaxed);
            }
            if let Ok(mut done) = done.lock() {
                done[i] = result;
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(count);
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(worker);
        }
        worker();
    });
    done.into_inner().unwrap_or_default().into_iter().collect()
}

/// The paths of one run of one policy, and what became of it there.
type Played = Vec<(String, Outcome)>;

/// `runs`: of each the applicants in their order.
fn by_path(applicants: &[Applicant], runs: impl Iterator<Item = Vec<Played>>) -> Vec<Comparison> {
    let mut all: Vec<Comparison> = Vec::new();
    for (policy, played) in runs.flat_map(|run| run.into_iter().enumerate()) {
        for (path, outcome) in played {
            let found = all.iter().position(|one| one.path == path);
            let at = found.unwrap_or_else(|| {
                all.push(Comparison {
                    path,
                    policies: applicants.iter().map(|one| one.name.clone()).collect(),
                    outcomes: vec![Vec::new(); applicants.len()],
                });
                all.len() - 1
            });
            all[at].outcomes[policy].push(outcome);
        }
    }
    all
}

/// One application on one path.
struct OnPath {
    client: ClientOnPath,
    kept: Kept,
    tally: Tally,
    unservable: Unservable,
}

impl Taker for Vec<OnPath> {
    fn sample(&mut self, client: usize, sample: &Sample) -> Result<(), Error> {
        let one = &mut self[client];
        one.tally.sample(sample);
        one.kept.sample(sample)
    }

    fn event(&mut self, client: usize, event: &Event) -> Result<(), Error> {
        let one = &mut self[client];
        one.tally.event(event);
        one.kept.event(event)
    }

    fn truth(&mut self, truth: &Truth) {
        for one in self {
            one.unservable.truth(truth);
        }
    }
}

/// One run of one policy.
struct Alone<'a> {
    scenario: &'a Scenario,
    options: Options,
    seed: u64,
    applicant: &'a Applicant,
    record: Option<PathBuf>,
    made: &'a Made,
}

impl Alone<'_> {
    /// `None`: it did not come to its end.
    fn play(&self, tell: impl Fn(f64) -> bool) -> Result<Option<Played>, Error> {
        let mut simulation = simulate_clients(self.scenario, &self.options, slice::from_ref(self.applicant))
            .map_err(Error::Asked)?;
        let truths = self.record.as_deref();
        let truths = truths
            .map(|dir| Truths::create(dir, self.scenario, self.seed, simulation.clock(), self.made))
            .transpose()?;
        let mut all = simulation
            .clients()
            .iter()
            .map(|client| self.begin(client, &simulation))
            .collect::<Result<Vec<_>, _>>()?;
        let is_whole = play(&mut simulation, truths, &mut all, tell)?;
        let ended = all.into_iter().enumerate().map(|(i, one)| self.end(i, one, &simulation));
        let ended = ended.collect::<Result<Played, Error>>()?;
        Ok(is_whole.then_some(ended))
    }

    fn begin(&self, client: &ClientOnPath, simulation: &Simulation) -> Result<OnPath, Error> {
        let Self { scenario, seed, applicant, made, .. } = *self;
        let path = client.path.as_str();
        let kept = match &self.record {
            None => Kept::default(),
            Some(dir) => {
                let dir = dir.join(path);
                let probe = json!({
                    "mode": CLIENT_MODE,
                    "size": applicant.policy.requests.size,
                    "interval_ns": applicant.interval_ns,
                    "duration_ns": simulation.end_ns(),
                    "policy": applicant.policy,
                });
                let label = format!("{path}-{}", applicant.name);
                let policy = Some(applicant.name.as_str());
                let measured = Measured { scenario, seed, path, label, policy, begin_ns: 0, probe };
                Kept::new(measured.recorder(&dir, simulation.clock(), made)?, dir)
            }
        };
        let (tally, unservable) = (Tally::new(&client.target), Unservable::of(scenario, path));
        Ok(OnPath { client: client.clone(), kept, tally, unservable })
    }

    fn end(&self, i: usize, mut one: OnPath, simulation: &Simulation) -> Result<(String, Outcome), Error> {
        let (clock, now_ns) = (simulation.clock(), simulation.now_ns());
        let amounts = Amounts { counts: simulation.counts(i), ..one.tally.amounts() };
        let mut result = amounts.json(&one.client.target);
        result["recording"] = json!(one.kept.dir());
        let kind = EventKind::ClientEnded { result };
        one.kept.event(&Event { at: at(clock, now_ns), mono_ns: now_ns, connection: None, kind })?;
        one.kept.finish(clock, now_ns)?;
        let Applicant { interval_ns, policy, .. } = self.applicant;
        let deadline_ns = policy.requests.deadline_ns;
        let unservable = one.unservable.requests(*interval_ns, deadline_ns, simulation.end_ns());
        Ok((one.client.path, Outcome { amounts, unservable }))
    }
}
