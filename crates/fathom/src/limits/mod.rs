//! `fathom limits`: finds the idle limit of a path, or its age limit. What is done, and when, `fathom_core::limits` decides.

mod address;
mod args;
mod ceiling;
mod record;
mod resume;

pub(crate) use args::Args;

use crate::exit::Failure;
use crate::output::tell;
use crate::probe::Stop;
use crate::{output, signals};
use args::Config;
use fathom_core::limits::{Ages, Found, Limit, Limits, Search, Verdict};
use fathom_limits::{Driver, Stopping, Ticker, Way};
use fathom_os::assist;
use fathom_os::reactor::Reactor;
use fathom_os::socket::TcpOptions;

/// Files besides the connections.
const OTHER_FILES: u64 = 64;

/// Whether the user asked for an end.
#[derive(Debug)]
struct Asking(Stop);

impl Stopping for Asking {
    fn is_to_stop(&self) -> bool {
        self.0.times() > 0
    }
}

fn ticker(config: &Config, asking: Asking) -> Ticker {
    Ticker::new(config.target.to_string(), config.quiet, Box::new(asking), |line| tell!("{line}"))
}

/// Runs `fathom limits`.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let config = args.config()?;
    if let Some(asked) = config.rate {
        return ceiling::run(&config, asked);
    }
    make_room_for_sockets(&config)?;
    let earlier = resume::earlier(&config)?.lengths;
    let remote = address::find(&config)?;
    let reactor = Reactor::new().map_err(|e| Failure::run(format!("cannot wait for sockets: {e}")))?;
    let stop = Stop::new(vec![reactor.waker()]);
    let asked = stop.clone();
    signals::on_request_to_end(move || asked.ask())?;
    let keeper = record::open(&config, remote)?;
    let search: Box<dyn Search> = match config.limit {
        Limit::Idle => Box::new(Limits::resumed(config.settings.clone(), &earlier)),
        Limit::Age => Box::new(Ages::resumed(config.settings.clone(), &earlier)),
    };
    let options = TcpOptions { source: config.source, keepalive: config.keepalive, ..TcpOptions::default() };
    let mut ticker = ticker(&config, Asking(stop));
    let driver = Driver::new(search, Way { remote, options }, reactor, &mut ticker, keeper);
    let (outcome, keeper) = driver.run().map_err(|e| Failure::run(format!("cannot go on: {e}")))?;
    let (verdict, why) = (outcome.verdict, outcome.why.clone());
    let why = || why.unwrap_or_else(|| "the search came to nothing".to_owned());
    if verdict == Verdict::Failed {
        keeper.discard();
        return Err(Failure::run(why()));
    }
    let found = Found::Lengths(Box::new(outcome));
    let recorded = record::finish(keeper, &found, &config.target.to_string(), remote);
    conclude(&config, remote, &found, (verdict == Verdict::Unclear).then(why))?;
    recorded
}

/// Prints the result; `unclear`: why it is, which is a failure.
fn conclude(
    config: &Config,
    remote: std::net::SocketAddr,
    found: &Found,
    unclear: Option<String>,
) -> Result<(), Failure> {
    let target = config.target.to_string();
    let text =
        if config.json { format!("{}\n", found.json(&target, Some(remote))) } else { found.text(&target) };
    output::print("the result", &text)?;
    unclear.map_or(Ok(()), |why| Err(Failure::run(why)))
}

fn make_room_for_sockets(config: &Config) -> Result<(), Failure> {
    let connections = config.settings.connections.0;
    let needed = connections as u64 + OTHER_FILES;
    let (soft, hard) = assist::raise_open_files();
    if soft >= needed {
        return Ok(());
    }
    Err(Failure::run(format!(
        "{connections} connections need {needed} open files and the limit is {soft} (hard limit {hard}); raise it with `ulimit -Hn {needed}` as root, or allow fewer with --max-connections"
    )))
}
