//! `fathom probe --throughput`: the client of iperf3's TCP test. Arguments become a [`plan`], `fathom-iperf3` runs it, and
//! what happens is recorded ([`recorder`]) and shown ([`show`]).

mod plan;
mod recorder;
mod show;

use super::{effective, keep};
use crate::exit::Failure;
use crate::output;
use crate::signals;
use crate::throughput::summary::Summary;
use fathom_iperf3::StreamInterval;
use fathom_iperf3::client::{Error, Finished, Observer, Test};
use fathom_iperf3::outcome::Outcome;
use plan::Plan;
use recorder::TestRecorder;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the test to its end and prints what it came to.
pub(super) fn run(args: super::args::Args) -> Result<(), Failure> {
    if args.show_config {
        let plan = Plan::asked_for(args)?;
        return effective::print(plan.shown(), plan.config.json);
    }
    let plan = Plan::new(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    signals::on_request_to_end(move || asked.store(true, Ordering::Relaxed))?;
    let mut recorder = TestRecorder::open(&plan)?;
    let finished = match measure(&plan, &mut recorder, &stop) {
        Ok(finished) => finished,
        Err(failure) => {
            recorder.discard(&plan);
            return Err(failure);
        }
    };
    let summary = summary(&plan, &finished, recorder.shown());
    recorder.ended(&summary);
    let incomplete = recorder.close();
    let text = if plan.config.json { summary.json() + "\n" } else { format!("\n{}", summary.text()) };
    output::print("the summary", &text)?;
    if let Some(error) = &finished.error {
        return Err(failure(error));
    }
    incomplete.map_or(Ok(()), |e| Err(Failure::run(format!("the recording is incomplete: {e}"))))
}

fn measure(plan: &Plan, recorder: &mut TestRecorder, stop: &AtomicBool) -> Result<Finished, Failure> {
    let target = plan.target()?;
    let test = Test::connect(&target, &plan.test, stop).map_err(|e| failure(&e))?;
    test.run(&mut Live { plan, recorder }).map_err(|e| failure(&e))
}

fn failure(error: &Error) -> Failure {
    Failure::run(error.to_string())
}

fn summary(plan: &Plan, finished: &Finished, recording: Option<String>) -> Summary {
    let early = match &finished.error {
        Some(error) => Some(error.to_string()),
        None if finished.interrupted => Some("interrupted here".to_owned()),
        None => None,
    };
    let test = &plan.test;
    let (ours, theirs) = (&finished.ours, finished.theirs.as_ref());
    let outcome = Outcome::new(test.direction, test.parallel, &test.traffic, ours, theirs, early);
    let label = plan.path().label.clone();
    Summary::new(
        label,
        plan.config.marks.clone(),
        keep::labels(&plan.config),
        finished.remote.to_string(),
        outcome,
        recording,
    )
}

/// Shows and records a test while it runs.
struct Live<'a> {
    plan: &'a Plan,
    recorder: &'a mut TestRecorder,
}

impl Observer for Live<'_> {
    fn stream_opened(&mut self, stream: u32, local: SocketAddr, remote: SocketAddr, connect_ns: u64) {
        self.recorder.opened(stream, local, remote, connect_ns);
    }

    fn began(&mut self) {
        show::introduction(self.plan, self.recorder.shown().as_deref());
    }

    fn intervals(&mut self, begun_ns: u64, intervals: &[StreamInterval]) {
        show::intervals(self.plan, begun_ns, intervals);
        self.recorder.intervals(intervals);
    }

    fn stream_closed(&mut self, stream: u32, at_ns: u64, age_ns: u64) {
        self.recorder.closed(stream, at_ns, age_ns);
    }
}
