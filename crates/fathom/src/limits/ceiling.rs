//! `fathom limits --rate-ceiling`: the packets a second at which loss or delay begins.

use super::args::Config;
use crate::exit::Failure;
use crate::output::{self, tell};
use crate::probe::{Stop, lookup};
use crate::signals;
use fathom_core::limits::{Asked, CeilingSearch, Verdict};
use fathom_core::text::count;
use fathom_limits::{CeilingDriver, Stopping, Way};
use fathom_os::clock::mono_ns;
use fathom_os::reactor::Reactor;
use fathom_os::socket::TcpOptions;

#[derive(Debug)]
struct Asking(Stop);

impl Stopping for Asking {
    fn is_to_stop(&self) -> bool {
        self.0.times() > 0
    }
}

pub(super) fn run(config: &Config, asked: Asked) -> Result<(), Failure> {
    let remote = lookup(&config.target, config.family).map_err(Failure::run)?[0];
    let reactor = Reactor::new().map_err(|e| Failure::run(format!("cannot wait for sockets: {e}")))?;
    let stop = Stop::new(vec![reactor.waker()]);
    let asking = Asking(stop.clone());
    signals::on_request_to_end(move || stop.ask())?;
    let options = TcpOptions { source: config.source, ..TcpOptions::default() };
    let target = config.target.to_string();
    let mut driver =
        CeilingDriver::new(Way { remote, options }, reactor, config.settings.secret.clone(), &asking);
    let began_ns = mono_ns();
    let opened = driver.open(asked.connections, config.settings.session);
    opened.map_err(|why| Failure::run(format!("{target} {why}")))?;
    let mut search = CeilingSearch::new(asked);
    if !config.quiet {
        let steps = count(search.steps() as u64, "step");
        tell!("looking for the rate ceiling of {target}: {steps} of 2 s, and those that are tried again");
    }
    let told = driver.run(&mut search, |row| _ = (!config.quiet).then(|| tell!("{}", row.line())));
    told.map_err(|e| Failure::run(format!("cannot go on: {e}")))?;
    let outcome = search.outcome(mono_ns() - began_ns);
    let text = if config.json {
        format!("{}\n", outcome.json(&target, Some(remote)))
    } else {
        outcome.text(&target)
    };
    output::print("the result", &text)?;
    if outcome.verdict == Verdict::Unclear {
        let why = outcome.why.unwrap_or_else(|| "the search came to nothing".to_owned());
        return Err(Failure::run(why));
    }
    Ok(())
}
