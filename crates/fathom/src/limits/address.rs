//! The single address that a search uses: several hosts behind one name would be several paths.

use super::args::Config;
use crate::exit::Failure;
use crate::output::tell;
use crate::probe::lookup;
use fathom_os::socket::{TcpOptions, connect_tcp_blocking};
use std::net::SocketAddr;
use std::time::Duration;

/// Time limit of one address if there are others: two retransmitted SYNs (1 s and 3 s).
const WITHIN: Duration = Duration::from_secs(5);

/// The first of the target's addresses that accepts a connection. If none does, the first of all, and the search
/// reports its error.
pub(super) fn find(config: &Config) -> Result<SocketAddr, Failure> {
    let all = lookup(&config.target, config.family).map_err(Failure::run)?;
    if let [only] = all.as_slice() {
        return Ok(*only);
    }
    let options = TcpOptions { source: config.source, ..TcpOptions::default() };
    for address in &all {
        match connect_tcp_blocking(*address, &options, WITHIN) {
            Ok(_) => return Ok(*address),
            Err(error) => tell!("{}: {address} accepts no connection ({error})", config.target),
        }
    }
    Ok(all[0])
}
