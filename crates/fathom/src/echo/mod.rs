//! `fathom echo`: the reflector.
//!
//! It listens for probes and has no control surface: whatever comes in is a probe's message or a stranger's bytes,
//! and both are echoed (RFC 862); a probe's question about a connection of its own is answered in its echo. One thread serves every connection, but for one that is [`alone`]. Arguments become a [`config::Config`], that
//! becomes bound sockets ([`listen`]), those are served ([`server`]), and what was served is told ([`tally`]).

mod address;
mod allow;
mod alone;
mod args;
mod clock;
mod config;
mod connection;
mod datagram;
mod flows;
mod help;
mod idle;
mod itself;
mod listen;
mod server;
mod stamp;
mod talk;
mod tally;
mod throughput;

use crate::exit::Failure;
use crate::signals;
pub(crate) use args::Args;
use config::Config;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use talk::Talk;

/// Serves until it is told to stop or its time is over.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let _log = crate::log::start(&args.log)?;
    let config = Config::from_args(args)?;
    let talk = Talk { json: config.json };
    let _held = help::claim(&config)?;
    let sockets = listen::open(&config)?;
    let server = server::Server::new(&config, sockets)?;
    let throughput = throughput::start(&config)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (asked, waker) = (Arc::clone(&stop), server.waker());
    signals::on_request_to_end(move || {
        asked.store(true, Ordering::Release);
        // If the wake-up fails the server still sees the flag at its next turn.
        let _ = waker.wake();
    })?;
    for bound in server.sockets() {
        talk.listening(bound.protocol, bound.address);
    }
    for address in throughput.iter().flat_map(|(_, addresses)| addresses) {
        talk.listening_for_throughput(*address);
    }
    let tally = server.run(&stop)?;
    talk.served(&tally);
    if let Some((service, _)) = throughput {
        let served = service.stop();
        talk.throughput_served(&served, &throughput::total(&served));
    }
    Ok(())
}
