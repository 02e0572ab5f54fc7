//! Turning names into addresses without making the probing thread wait.

use super::config::{Family, Target};
use fathom_os::assist;
use fathom_os::reactor::Waker;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

/// An answer: the path's index and its addresses, or why there are none.
pub(super) type Answer = (usize, Result<Vec<SocketAddr>, String>);

/// Asks the system's resolver in a thread of its own for each question.
pub(super) struct Resolver {
    family: Family,
    waker: Waker,
    answers: Sender<Answer>,
}

impl Resolver {
    pub(super) fn new(family: Family, waker: Waker) -> (Self, Receiver<Answer>) {
        let (answers, receiver) = channel();
        (Self { family, waker, answers }, receiver)
    }

    /// Asks for a path's addresses; the answer comes through the channel and wakes the reactor.
    pub(super) fn ask(&self, path: usize, target: &Target) {
        let (target, family) = (target.clone(), self.family);
        let (answers, waker) = (self.answers.clone(), self.waker.clone());
        if target.host.parse::<IpAddr>().is_ok() {
            let _ = answers.send((path, lookup(&target, family)));
            let _ = waker.wake();
            return;
        }
        let work = move || {
            let _ = answers.send((path, lookup(&target, family)));
            let _ = waker.wake();
        };
        // `--cpu` is for the probing thread alone.
        let asked = assist::unpinned(|| thread::Builder::new().name("resolver".into()).spawn(work));
        if let Err(e) = asked {
            let _ = self.answers.send((path, Err(format!("cannot start the resolver: {e}"))));
            let _ = self.waker.wake();
        }
    }
}

/// Addresses of a target, of the families asked for, in the resolver's order.
pub(crate) fn lookup(target: &Target, family: Family) -> Result<Vec<SocketAddr>, String> {
    let asked = Instant::now();
    let addresses = resolved(target, family);
    tracing::debug!(%target, took = ?asked.elapsed(), ?addresses, "resolved");
    addresses
}

fn resolved(target: &Target, family: Family) -> Result<Vec<SocketAddr>, String> {
    let host = &target.host;
    let all = match (host.as_str(), target.port).to_socket_addrs() {
        Ok(all) => all,
        Err(e) => return Err(unresolved(host, &e)),
    };
    let mut admitted: Vec<SocketAddr> = all.filter(|a| family.admits(a.ip())).collect();
    admitted.dedup();
    if admitted.is_empty() {
        let version = if family == Family::V4 { "IPv4" } else { "IPv6" };
        return Err(format!("{host} has no {version} address; leave out -4 or -6, or name another host"));
    }
    Ok(admitted)
}

fn unresolved(host: &str, error: &io::Error) -> String {
    // The standard library wraps getaddrinfo's words in its own; only theirs help.
    let text = error.to_string();
    let reason = text.rsplit(": ").next().unwrap_or(&text).to_owned();
    format!(
        "the name {host} does not resolve ({reason}); check its spelling and this host's DNS, or give the address"
    )
}
