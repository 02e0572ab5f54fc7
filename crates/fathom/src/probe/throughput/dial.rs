//! The connections of a test.

use super::plan::Plan;
use crate::exit::Failure;
use crate::probe::resolve::lookup;
use fathom_os::clock::mono_ns;
use fathom_os::socket::{TcpOptions, connect_tcp_blocking};
use fathom_wire::iperf3::Cookie;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};

/// The first of the target's addresses that can be connected to, and the connection.
pub(super) fn control(plan: &Plan) -> Result<(TcpStream, SocketAddr), Failure> {
    let target = &plan.path().target;
    let addresses = lookup(target, plan.config.family).map_err(Failure::run)?;
    let mut last = None;
    for address in addresses {
        match connect_tcp_blocking(address, &options(plan), plan.config.timeout) {
            Ok(socket) => return Ok((socket, address)),
            Err(e) => last = Some(e),
        }
    }
    let why = last.map_or_else(String::new, |e| format!(": {e}"));
    Err(Failure::run(format!(
        "cannot connect to {target}{why}; does `fathom echo --throughput` or `iperf3 -s` run there, and do firewalls let port {} through?",
        target.port
    )))
}

/// One stream's connection, introduced by the cookie; and how long it took to make, in ns.
pub(super) fn stream(plan: &Plan, remote: SocketAddr, cookie: &Cookie) -> io::Result<(TcpStream, u64)> {
    let began_ns = mono_ns();
    let mut socket = connect_tcp_blocking(remote, &options(plan), plan.config.timeout)?;
    let took_ns = mono_ns() - began_ns;
    socket.write_all(cookie.bytes())?;
    Ok((socket, took_ns))
}

fn options(plan: &Plan) -> TcpOptions {
    let user_timeout = plan.config.user_timeout;
    TcpOptions {
        // As iperf3's streams: large writes have nothing to gain from going out at once.
        nodelay: false,
        source: plan.config.source,
        dscp: plan.config.dscp,
        user_timeout_ms: user_timeout.map(|t| u32::try_from(t.as_millis()).unwrap_or(u32::MAX)),
        keep_icmp: false,
    }
}

/// A cookie that no other test has. The standard library seeds its hashers from the system's random source.
pub(super) fn cookie() -> Cookie {
    let random = |i: u64| {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(i);
        hasher.finish()
    };
    Cookie::new([random(0), random(1), random(2), random(3)])
}
