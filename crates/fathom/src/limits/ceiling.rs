//! `fathom limits --rate-ceiling`: the packets a second at which loss or delay begins.

use super::args::Config;
use super::{Asking, address, conclude, record, resume, ticker};
use crate::exit::Failure;
use crate::probe::Stop;
use crate::signals;
use fathom_core::limits::{Asked, CeilingSearch, Found, Verdict};
use fathom_limits::{CeilingDriver, Way};
use fathom_os::reactor::Reactor;
use fathom_os::socket::TcpOptions;

pub(super) fn run(config: &Config, asked: Asked) -> Result<(), Failure> {
    let earlier = resume::earlier(config)?;
    let remote = address::find(config)?;
    let reactor = Reactor::new().map_err(|e| Failure::run(format!("cannot wait for sockets: {e}")))?;
    let stop = Stop::new(vec![reactor.waker()]);
    let asking = Asking(stop.clone());
    signals::on_request_to_end(move || stop.ask())?;
    let options = TcpOptions { source: config.source, ..TcpOptions::default() };
    let target = config.target.to_string();
    let mut ticker = ticker(config, asking);
    let way = Way { remote, options };
    let mut driver = CeilingDriver::new(way, reactor, config.settings.secret.clone(), &mut ticker);
    let opened = driver.open(asked.connections, config.settings.session);
    opened.map_err(|why| Failure::run(format!("{target} {why}")))?;
    let keeper = record::open(config, remote)?;
    let search = CeilingSearch::resumed(asked, earlier.rate.steps());
    let (outcome, keeper) =
        driver.run(search, keeper).map_err(|e| Failure::run(format!("cannot go on: {e}")))?;
    let (verdict, why) = (outcome.verdict, outcome.why.clone());
    let found = Found::Rate(Box::new(outcome));
    let recorded = record::finish(keeper, &found, &target, remote);
    conclude(config, remote, &found, (verdict == Verdict::Unclear).then_some(why).flatten())?;
    recorded
}
