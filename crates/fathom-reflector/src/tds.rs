//! Clients of SQL Server (`fathom echo --tds`): composes the service of `fathom-tds` from the reflector's configuration.

use crate::config::Config;
use crate::error::Error;
use crate::listen::open_tcp_everywhere;
use crate::talk::note;
use fathom_core::text::count;
use fathom_core::units::{duration_text, size_text};
use fathom_tds::machine::identity;
use fathom_tds::service::{Counts, Ended, Notice, Options, Service};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Listens and serves, where the configuration says so; where it listens.
pub(crate) fn start(config: &Config) -> Result<Option<(Service, Vec<SocketAddr>)>, Error> {
    let Some(settings) = config.tds else { return Ok(None) };
    let (listeners, addresses) = open_tcp_everywhere(config, settings.port)?;
    let failed = |e: io::Error| Error::new(format!("cannot serve clients of SQL Server: {e}"));
    let allow = config.allow.clone();
    let options = Options {
        sessions: settings.sessions,
        idle_timeout_ns: config.idle_timeout_ns,
        send_buffer: settings.send_buffer,
        identity: settings.encrypt.then(identity).transpose().map_err(failed)?,
        permits: Box::new(move |ip| allow.permits(ip)),
        notify: Arc::new(|notice| note(&sentence(notice))),
    };
    let service = Service::start(listeners, options).map_err(failed)?;
    Ok(Some((service, addresses)))
}

/// The line for people about something that happened.
fn sentence(notice: &Notice) -> String {
    match notice {
        Notice::Ended(ended) => session(ended),
        Notice::Refused { peer, why } => format!("client of SQL Server {peer} refused: {why}"),
        Notice::Encryption { peer } => format!(
            "client of SQL Server {peer} wants encryption and left; start with --tds-encrypt, or connect with Encrypt=false"
        ),
        Notice::CannotBegin(e) => format!("cannot serve a client of SQL Server: {e}"),
        Notice::Stopped(e) => format!("clients of SQL Server are served no more: {e}"),
    }
}

fn session(ended: &Ended) -> String {
    let Ended { peer, program, packet, served, waits, transfer, why } = ended;
    let held = match transfer {
        // The kernel counts from the first byte to its acknowledgement.
        Some(t) if t.busy_ns > 0 => format!(
            "; of {} of sending, {} because the client did not read",
            duration_text(t.busy_ns),
            duration_text(t.client_ns)
        ),
        _ => String::new(),
    };
    let because = why.as_ref().map(|why| format!("; ended because {why}")).unwrap_or_default();
    format!(
        "session of {peer} ({program}) with packets of {}: {}, {}, {}; blocked on send {}, {} in all{held}{because}",
        count((*packet).into(), "byte"),
        count(served.queries, "query"),
        count(served.rows, "row"),
        size_text(served.bytes),
        count(waits.blocks, "time"),
        duration_text(waits.blocked_ns),
    )
}

/// The line for people about all that was served.
pub(crate) fn total(counts: &Counts) -> String {
    let Counts { sessions, without_login, busy, not_allowed, served, waits } = counts;
    format!(
        "served {} of clients of SQL Server: {}, {}, {}, {} stopped; blocked on send {}, {} in all; denied {} ({busy} beyond the most \
         at one time, {not_allowed} not allowed), {without_login} without a login",
        count(*sessions, "session"),
        count(served.queries, "query"),
        count(served.rows, "row"),
        size_text(served.bytes),
        served.stopped,
        count(waits.blocks, "time"),
        duration_text(waits.blocked_ns),
        busy + not_allowed,
    )
}
