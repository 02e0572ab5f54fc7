//! `fathom probe --throughput`: the client of iperf3's TCP test. Arguments become a [`plan`], the plan a [`test`], which
//! writes its [`book`] and tells its seconds ([`show`]).

mod args;
mod book;
mod dial;
mod plan;
mod show;
mod test;

pub(in crate::probe) use args::ThroughputArgs;

use super::effective;
use crate::exit::Failure;
use book::Book;
use plan::Plan;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use test::Test;

/// Runs the test to its end and prints what it came to.
pub(super) fn run(args: super::args::Args) -> Result<(), Failure> {
    if args.show_config {
        let plan = Plan::asked_for(args)?;
        return effective::print(plan.shown(), plan.config.json);
    }
    let plan = Plan::new(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    ctrlc::set_handler(move || asked.store(true, Ordering::Relaxed))
        .map_err(|e| Failure::run(format!("cannot handle Ctrl-C: {e}")))?;
    let mut book = Book::open(&plan)?;
    let done = match Test::open(&plan, &stop).and_then(|test| test.run(&mut book)) {
        Ok(done) => done,
        Err(failure) => {
            book.discard(&plan);
            return Err(failure);
        }
    };
    let incomplete = book.close();
    let text =
        if plan.config.json { done.summary.json() + "\n" } else { format!("\n{}", done.summary.text()) };
    if let Err(e) = io::stdout().lock().write_all(text.as_bytes())
        && e.kind() != io::ErrorKind::BrokenPipe
    {
        return Err(Failure::run(format!("cannot print the summary: {e}")));
    }
    if let Some(failure) = done.failure {
        return Err(failure);
    }
    incomplete.map_or(Ok(()), |e| Err(Failure::run(format!("the recording is incomplete: {e}"))))
}
