//! Runs of applications under policies, side by side on each path of a scenario, through the same events.

use crate::error::Error;
use crate::recorded::{Made, Measured, at};
use crate::truths::Truths;
use fathom_core::clock::Anchor;
use fathom_core::event::{CLIENT_MODE, Event, EventKind};
use fathom_core::policy::{Amounts, Tally};
use fathom_fabric::scenario::Scenario;
use fathom_fabric::simulate::{Applicant, ClientOnPath, Item, Options, Unservable, simulate_clients};
use fathom_recording::Recorder;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

/// Between two looks at how far a run has come, in items.
const LOOK_EVERY: u64 = 4_096;

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
    /// By policy, and then by run. The runs of all were the same ones.
    pub outcomes: Vec<Vec<Outcome>>,
}

/// Plays a scenario `runs` times, with the seeds from that of the options on, with all applicants on each path. Several at
/// a time, as the machine has processors. `record`: the directory for recordings and truths, of more than one run in a
/// directory each. `tell` is told now and then which share of all has passed.
pub fn compare(
    scenario: &Scenario,
    options: &Options,
    applicants: &[Applicant],
    runs: usize,
    record: Option<&Path>,
    made: &Made,
    tell: impl Fn(f64) + Sync,
) -> Result<Vec<Comparison>, Error> {
    let first = options.seed.unwrap_or(scenario.seed);
    let shares: Vec<AtomicU64> = (0..runs).map(|_| AtomicU64::new(0)).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Played, Error>>>> = Mutex::new((0..runs).map(|_| None).collect());
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= runs {
                return;
            }
            let seed = first.wrapping_add(i as u64);
            let dir =
                record.map(|dir| if runs == 1 { dir.to_owned() } else { dir.join(format!("run-{seed}")) });
            let told = |share: f64| {
                shares[i].store(share.to_bits(), Ordering::Relaxed);
                let sum: f64 = shares.iter().map(|one| f64::from_bits(one.load(Ordering::Relaxed))).sum();
                tell(sum / runs as f64);
            };
            let options = Options { seed: Some(seed), ..*options };
            let played = play(scenario, &options, seed, applicants, dir.as_deref(), made, told);
            if played.is_err() {
                // The others would fail alike.
                next.store(runs, Ordering::Relaxed);
            }
            if let Ok(mut done) = done.lock() {
                done[i] = Some(played);
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(runs);
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    let done = done.into_inner().unwrap_or_default();
    let played = done.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    Ok(by_path(applicants, &played))
}

/// The clients of one run, and what became of each.
type Played = Vec<(ClientOnPath, Outcome)>;

fn by_path(applicants: &[Applicant], played: &[Played]) -> Vec<Comparison> {
    let mut all: Vec<Comparison> = Vec::new();
    for (client, outcome) in played.iter().flatten() {
        let found = all.iter().position(|one| one.path == client.path);
        let at = found.unwrap_or_else(|| {
            all.push(Comparison {
                path: client.path.clone(),
                policies: applicants.iter().map(|one| one.name.clone()).collect(),
                outcomes: vec![Vec::new(); applicants.len()],
            });
            all.len() - 1
        });
        all[at].outcomes[client.applicant].push(*outcome);
    }
    all
}

struct Run {
    recorder: Option<Recorder>,
    dir: Option<PathBuf>,
    tally: Tally,
}

impl Run {
    fn event(&mut self, event: &Event) -> Result<(), Error> {
        self.tally.event(event);
        self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.event(event)).map_err(Error::failed)
    }
}

fn play(
    scenario: &Scenario,
    options: &Options,
    seed: u64,
    applicants: &[Applicant],
    record: Option<&Path>,
    made: &Made,
    tell: impl Fn(f64),
) -> Result<Played, Error> {
    let mut simulation = simulate_clients(scenario, options, applicants).map_err(Error::Asked)?;
    let (clock, end_ns) = (simulation.clock(), simulation.end_ns());
    let mut truth = record.map(|dir| Truths::create(dir, scenario, seed, clock, made)).transpose()?;
    let clients = simulation.clients().to_vec();
    let open = |client: &ClientOnPath| open(scenario, seed, client, applicants, record, clock, end_ns, made);
    let mut runs = clients.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut bounds: Vec<Unservable> =
        clients.iter().map(|client| Unservable::of(scenario, &client.path)).collect();
    let mut items = 0_u64;
    while let Some(item) = simulation.next() {
        match item {
            Item::Sample { probe, sample } => {
                let run = &mut runs[probe];
                run.tally.sample(&sample);
                if let Some(recorder) = &mut run.recorder {
                    recorder.push(&sample).map_err(Error::failed)?;
                }
            }
            Item::Event { probe, event } => runs[probe].event(&event)?,
            Item::Truth(what) => {
                for bound in &mut bounds {
                    bound.truth(&what);
                }
                if let Some(truth) = &mut truth {
                    truth.line(what.at_ns, &what)?;
                }
            }
            Item::Packet(_) => {}
        }
        items += 1;
        if items.is_multiple_of(LOOK_EVERY) {
            tell(simulation.now_ns() as f64 / end_ns.max(1) as f64);
        }
    }
    tell(1.0);
    if let Some(truth) = truth {
        truth.finish(end_ns)?;
    }
    let end = |(i, (client, mut run)): (usize, (ClientOnPath, Run))| {
        let amounts = Amounts { counts: simulation.counts(i), ..run.tally.amounts() };
        let mut result = amounts.json(&client.target);
        result["recording"] = json!(run.dir.as_ref().map(|dir| dir.display().to_string()));
        let kind = EventKind::ClientEnded { result };
        run.event(&Event { at: at(clock, end_ns), mono_ns: end_ns, connection: None, kind })?;
        if let Some(recorder) = run.recorder {
            recorder.finish(at(clock, end_ns), end_ns).map_err(Error::failed)?;
        }
        let applicant = &applicants[client.applicant];
        let deadline_ns = applicant.policy.requests.deadline_ns;
        let unservable = bounds[i].requests(applicant.interval_ns, deadline_ns, end_ns);
        Ok((client, Outcome { amounts, unservable }))
    };
    clients.into_iter().zip(runs).enumerate().map(end).collect()
}

#[expect(clippy::too_many_arguments, reason = "what a recording's manifest says, and where it goes")]
fn open(
    scenario: &Scenario,
    seed: u64,
    client: &ClientOnPath,
    applicants: &[Applicant],
    record: Option<&Path>,
    clock: Anchor,
    end_ns: u64,
    made: &Made,
) -> Result<Run, Error> {
    let applicant = &applicants[client.applicant];
    let tally = Tally::new(&client.target);
    let Some(dir) = record else { return Ok(Run { recorder: None, dir: None, tally }) };
    let label = format!("{}-{}", client.path, applicant.name);
    let dir = dir.join(&label);
    let probe = json!({
        "mode": CLIENT_MODE,
        "size": applicant.policy.requests.size,
        "interval_ns": applicant.interval_ns,
        "duration_ns": end_ns,
        "policy": applicant.policy,
    });
    let (path, policy) = (client.path.as_str(), Some(applicant.name.as_str()));
    let measured = Measured { scenario, seed, path, label, policy, begin_ns: 0, probe };
    let recorder = measured.recorder(&dir, clock, made)?;
    Ok(Run { recorder: Some(recorder), dir: Some(dir), tally })
}
