//! What a client is to measure.

use crate::codec::Parameters;
use crate::direction::Direction;
use crate::streams::Traffic;
use fathom_os::socket::TcpOptions;
use std::net::SocketAddr;
use std::time::Duration;

/// Where the server is.
#[derive(Debug, Clone)]
pub struct Target {
    /// As the user named it, for messages.
    pub name: String,
    /// The port, for messages.
    pub port: u16,
    /// Its addresses, in the order in which they are tried.
    pub addresses: Vec<SocketAddr>,
}

/// How a test is made.
#[derive(Debug, Clone)]
pub struct TestOptions {
    /// Which end sends.
    pub direction: Direction,
    /// Streams each way.
    pub parallel: u32,
    /// How the streams run.
    pub traffic: Traffic,
    /// What counts.
    pub duration: Duration,
    /// The server may take so long for each answer that it owes before data flows.
    pub timeout: Duration,
    /// How connections are made.
    pub tcp: TcpOptions,
    /// What the server is told of this client's version.
    pub version: String,
}

impl TestOptions {
    /// What the server is asked for. Its seconds are whole: the test ends when this end says so.
    pub fn parameters(&self) -> Parameters {
        let seconds = self.duration.as_nanos().div_ceil(1_000_000_000);
        Parameters {
            tcp: true,
            omit_s: u32::try_from(self.traffic.omit_ns / 1_000_000_000).unwrap_or(u32::MAX),
            time_s: u32::try_from(seconds).unwrap_or(u32::MAX),
            parallel: self.parallel,
            reverse: self.direction == Direction::Reverse,
            bidirectional: self.direction == Direction::Bidirectional,
            block: self.traffic.block,
            bitrate: self.traffic.bitrate,
            client_version: Some(self.version.clone()),
            drains: true,
            ..Parameters::default()
        }
    }
}
