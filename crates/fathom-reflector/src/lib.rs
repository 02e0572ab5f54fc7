//! The reflector, which `fathom echo` is.
//!
//! It listens for probes and has no control surface: whatever comes in is a probe's message or a stranger's bytes, and
//! both are echoed (RFC 862); a probe's question about a connection of its own is answered in its echo. One thread
//! serves every connection, but for one that is `alone`. A [`Config`] becomes bound sockets (`listen`), those are
//! served (`server`), and what was served is told (`tally`, `talk`).

mod address;
mod allow;
mod alone;
mod clock;
mod config;
mod connection;
mod datagram;
mod error;
mod flows;
mod frame;
mod gate;
mod guard;
mod help;
mod idle;
mod intake;
mod itself;
mod listen;
mod notices;
mod one_way;
mod rate;
mod send;
mod server;
mod silent;
mod stamp;
mod strangers;
mod talk;
mod tally;
mod tds;
mod throughput;

pub use address::{DEFAULT_PORT, Listen, Protocol, listen, stamp};
pub use allow::{Allow, network};
pub use config::{Config, Tds, Throughput};
pub use error::Error;
pub use stamp::Kind;

use fathom_cloud::CloudWatch;
use fathom_iperf3::service::Service;
use fathom_os::assist::CpuLatencyHold;
use notices::Notices;
use server::Server;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use talk::Talk;

/// A reflector whose sockets are open.
#[derive(Debug)]
pub struct Reflector {
    server: Server,
    throughput: Option<(Service, Vec<SocketAddr>)>,
    tds: Option<(fathom_tds::service::Service, Vec<SocketAddr>)>,
    talk: Talk,
    stop: Arc<AtomicBool>,
    /// Reads the maintenance that the cloud announces to this host.
    _cloud: CloudWatch,
    /// What the machine granted lasts as long as this.
    _held: Option<CpuLatencyHold>,
}

impl Reflector {
    /// Opens every socket of the configuration.
    pub fn open(config: &Config) -> Result<Self, Error> {
        let held = help::claim(config)?;
        let sockets = listen::open(config)?;
        let notices = Notices::default();
        let server = Server::new(config, sockets, notices.clone())?;
        let throughput = throughput::start(config)?;
        let tds = tds::start(config)?;
        let talk = Talk { json: config.json };
        let cloud = notices.watch(&config.cloud);
        Ok(Self { server, throughput, tds, talk, stop: Arc::default(), _cloud: cloud, _held: held })
    }

    /// What ends [`Self::run`] in order, from any thread.
    pub fn stopper(&self) -> impl Fn() + Send + 'static {
        let (stop, waker) = (Arc::clone(&self.stop), self.server.waker());
        move || {
            stop.store(true, Ordering::Release);
            // If the wake-up fails the server still sees the flag at its next turn.
            let _ = waker.wake();
        }
    }

    /// Serves until it is stopped or its time is over.
    pub fn run(self) -> Result<(), Error> {
        for bound in self.server.sockets() {
            self.talk.listening(bound.protocol, bound.address)?;
        }
        for address in self.throughput.iter().flat_map(|(_, addresses)| addresses) {
            self.talk.listening_for_throughput(*address)?;
        }
        for address in self.tds.iter().flat_map(|(_, addresses)| addresses) {
            self.talk.listening_for_tds(*address)?;
        }
        let tally = self.server.run(&self.stop)?;
        let told = self.talk.served(&tally);
        if let Some((service, _)) = self.throughput {
            let served = service.stop();
            self.talk.throughput_served(&served, &throughput::total(&served))?;
        }
        if let Some((service, _)) = self.tds {
            let served = service.stop();
            self.talk.tds_served(&served, &tds::total(&served))?;
        }
        told
    }
}
