//! How a test fails: one line each, what went wrong and what to do about it.

use crate::codec::Refusal;
use crate::machine::client::Failure;
use std::io;
use std::net::SocketAddr;

/// How a test fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No address of the target takes a connection.
    #[error(
        "cannot connect to {target}{why}; does `fathom echo --throughput` or `iperf3 -s` run there, and do firewalls let port {port} through?"
    )]
    Connect {
        /// As the user named it.
        target: String,
        /// Its port.
        port: u16,
        /// What the system says, behind a colon; empty: nothing was tried.
        why: String,
    },
    /// The control connection cannot be used.
    #[error("{target}: {source}")]
    Control {
        /// As the user named it.
        target: String,
        /// What the system says.
        source: io::Error,
    },
    /// A stream's connection cannot be made.
    #[error("cannot open stream {stream} to {remote}: {source}")]
    OpenStream {
        /// The stream, counted from 0.
        stream: u32,
        /// The server's address.
        remote: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The streams' threads cannot be started.
    #[error("cannot begin to send and receive: {0}")]
    Begin(io::Error),
    /// It was interrupted before data flowed.
    #[error("ended before the test began")]
    NotBegun,
    /// What answered, or did not, is no server of this protocol.
    #[error(
        "{target} does not speak iperf3's protocol ({why}); start `fathom echo --throughput` or `iperf3 -s` there"
    )]
    Foreign {
        /// As the user named it.
        target: String,
        /// Why that is thought.
        why: String,
    },
    /// The server does not answer any more.
    #[error("{target} stopped answering; is it, and the path to it, still there?")]
    Silent {
        /// As the user named it.
        target: String,
    },
    /// A stream broke, and the control connection does not say why.
    #[error("stream {stream} to {target} broke ({source}); is the server still running?")]
    StreamBroke {
        /// The stream, counted from 0.
        stream: u32,
        /// As the user named it.
        target: String,
        /// What the system says.
        source: io::Error,
    },
    /// The server runs another test.
    #[error("{target} runs another test, and one at a time only; try again when that is over")]
    Busy {
        /// As the user named it.
        target: String,
    },
    /// The server will not do what was asked.
    #[error("{target} refused the test (iperf3's error {}){}", refusal.code, meaning(*refusal))]
    Refused {
        /// As the user named it.
        target: String,
        /// Why.
        refusal: Refusal,
    },
    /// The server ended the test.
    #[error("{target} ended the test before its time")]
    Terminated {
        /// As the user named it.
        target: String,
    },
    /// The control connection ended.
    #[error("{target} vanished in mid-test: its control connection ended; is the server still running?")]
    Vanished {
        /// As the user named it.
        target: String,
    },
    /// The server spoke the protocol and then broke it.
    #[error("{target} broke iperf3's protocol ({what}); is it another version of it? please report it")]
    Broken {
        /// As the user named it.
        target: String,
        /// How.
        what: &'static str,
    },
}

impl Error {
    /// A failure of the machine, of the test with this target.
    pub(super) fn of(failure: &Failure, target: &str) -> Self {
        let target = target.to_owned();
        match failure {
            Failure::Foreign(why) => Self::Foreign { target, why: (*why).to_owned() },
            Failure::Busy => Self::Busy { target },
            Failure::Refused(refusal) => Self::Refused { target, refusal: *refusal },
            Failure::Terminated => Self::Terminated { target },
            Failure::Vanished => Self::Vanished { target },
            Failure::Broken(what) => Self::Broken { target, what },
        }
    }
}

fn meaning(refusal: Refusal) -> String {
    refusal.words().map_or_else(String::new, |words| format!(": {words}"))
}
