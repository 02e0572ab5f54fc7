//! Throughput tests (`fathom echo --throughput`): composes the service of `fathom-iperf3` from the reflector's configuration.

use crate::config::Config;
use crate::error::Error;
use crate::listen::open_tcp_everywhere;
use crate::talk::note;
use fathom_core::text::count;
use fathom_core::units::size_text;
use fathom_iperf3::codec::MAX_PARALLEL;
use fathom_iperf3::machine::agreement::Limits;
use fathom_iperf3::service::{Counts, Notice, Service, ServiceOptions};
use std::net::SocketAddr;
use std::sync::Arc;

/// Listens and serves, where the configuration says so; where it listens.
pub(crate) fn start(config: &Config) -> Result<Option<(Service, Vec<SocketAddr>)>, Error> {
    let Some(settings) = config.throughput else { return Ok(None) };
    let (listeners, addresses) = open_tcp_everywhere(config, settings.port)?;
    // Each stream is a connection and a thread.
    let streams = config.max_connections.unwrap_or(u32::MAX).min(2 * MAX_PARALLEL);
    let allow = config.allow.clone();
    let options = ServiceOptions {
        limits: Limits { longest_s: settings.longest_s, streams },
        permits: Box::new(move |ip| allow.permits(ip)),
        notify: Arc::new(|notice| note(&sentence(notice))),
    };
    let service = Service::start(listeners, options)
        .map_err(|e| Error::new(format!("cannot serve throughput tests: {e}")))?;
    Ok(Some((service, addresses)))
}

/// The line for people about something that happened.
fn sentence(notice: &Notice) -> String {
    match notice {
        Notice::Began { peer, version, direction, parallel, seconds } => {
            let version = version.as_deref().unwrap_or("?");
            let time = seconds.map_or("until it says so".to_owned(), |s| format!("{s} s"));
            let streams = count((*parallel).into(), "stream");
            format!("throughput test of {peer} (client {version}): {direction:?}, {streams}, {time}")
        }
        Notice::Ended { peer, sent, received, early } => {
            let early = early.as_ref().map_or(String::new(), |why| format!(", ended early: {why}"));
            format!(
                "throughput test of {peer}: sent {}, received {}{early}",
                size_text(*sent),
                size_text(*received)
            )
        }
        Notice::Refused { peer, why } => format!("throughput test of {peer} refused: {why}"),
        Notice::CannotBegin(e) => format!("cannot begin a throughput test: {e}"),
        Notice::Stopped(e) => format!("throughput tests are served no more: {e}"),
    }
}

/// The line for people about all that was served.
pub(crate) fn total(served: &Counts) -> String {
    let denied = served.busy + served.not_allowed + served.foreign;
    format!(
        "served {} throughput tests ({} unfinished), refused {}, denied {denied} (busy {}, not allowed {}, no cookie {}); \
         sent {}, received {}",
        served.tests,
        served.tests_unfinished,
        served.tests_refused,
        served.busy,
        served.not_allowed,
        served.foreign,
        size_text(served.bytes_sent),
        size_text(served.bytes_received),
    )
}
