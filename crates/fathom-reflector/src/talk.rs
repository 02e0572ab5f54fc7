//! What the reflector says: sentences on standard error, and with `--json` one object a line on standard output.

use crate::address::Protocol;
use crate::error::Error;
use crate::tally::Tally;
use fathom_iperf3::service::Counts;
use fathom_tds::service::Counts as TdsCounts;
use serde::Serialize;
use std::io::{self, Write};
use std::net::SocketAddr;

/// Whether machines are told too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Talk {
    pub(crate) json: bool,
}

/// Lines of `--json`, format 1.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Listening {
        format: u32,
        protocol: &'a str,
        address: String,
        port: u16,
    },
    /// Instead of `listening`: another socket has the port.
    AddressInUse {
        format: u32,
        protocol: &'a str,
        address: String,
        port: u16,
    },
    Served {
        format: u32,
        #[serde(flatten)]
        tally: &'a Tally,
    },
    ThroughputServed {
        format: u32,
        #[serde(flatten)]
        served: &'a Counts,
    },
    TdsServed {
        format: u32,
        #[serde(flatten)]
        served: &'a TdsCounts,
    },
}

/// A sentence for people. A standard error that nobody reads any more must not end the reflector.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "fathom echo: {}", fathom_core::text::cleaned(text));
}

impl Talk {
    /// A socket takes messages from now on.
    pub(crate) fn listening(self, protocol: Protocol, address: SocketAddr) -> Result<(), Error> {
        note(&format!("listening on {protocol} {address}"));
        let (name, port) = (protocol.to_string(), address.port());
        self.line(&Line::Listening { format: 1, protocol: &name, address: address.to_string(), port })
    }

    /// A socket cannot be had, as another has its port; the error says it to people.
    pub(crate) fn address_in_use(self, protocol: Protocol, address: SocketAddr) -> Result<(), Error> {
        let (name, port) = (protocol.to_string(), address.port());
        self.line(&Line::AddressInUse { format: 1, protocol: &name, address: address.to_string(), port })
    }

    /// Throughput tests are served from now on.
    pub(crate) fn listening_for_throughput(self, address: SocketAddr) -> Result<(), Error> {
        note(&format!("serving throughput tests on tcp {address}"));
        let (protocol, port) = ("iperf3", address.port());
        self.line(&Line::Listening { format: 1, protocol, address: address.to_string(), port })
    }

    /// The end: which tests were served; `sentence` says the same to people.
    pub(crate) fn throughput_served(self, served: &Counts, sentence: &str) -> Result<(), Error> {
        note(sentence);
        self.line(&Line::ThroughputServed { format: 1, served })
    }

    /// Clients of SQL Server are served from now on.
    pub(crate) fn listening_for_tds(self, address: SocketAddr) -> Result<(), Error> {
        note(&format!("serving clients of SQL Server on tcp {address}; this is no database"));
        let (protocol, port) = ("tds", address.port());
        self.line(&Line::Listening { format: 1, protocol, address: address.to_string(), port })
    }

    /// The end: which sessions were served; `sentence` says the same to people.
    pub(crate) fn tds_served(self, served: &TdsCounts, sentence: &str) -> Result<(), Error> {
        note(sentence);
        self.line(&Line::TdsServed { format: 1, served })
    }

    /// The end: what was served.
    pub(crate) fn served(self, tally: &Tally) -> Result<(), Error> {
        note(&tally.sentence());
        self.line(&Line::Served { format: 1, tally })
    }

    /// A machine that reads no more has seen enough; one that is told nothing, though it asked to be, has not.
    fn line(self, line: &Line) -> Result<(), Error> {
        if !self.json {
            return Ok(());
        }
        let text = serde_json::to_string(line).expect("plain fields always serialise");
        let mut out = io::stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::new(format!(
                "cannot print what --json asks for: {e}; see that standard output can be written to"
            ))),
            _ => Ok(()),
        }
    }
}
