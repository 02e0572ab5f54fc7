//! Round trips on a connection that stays: echoes of a reflector, or `COM_PING` on a session of `MySQL`. One that is lost is opened
//! anew.

use super::{Around, Beside, Made, Tried, Way};
use crate::Error;
use crate::link::{Open, Peer, SETUP_EVERY};
use crate::measured::Measured;
use fathom_core::sample::{Flags, Sample};
use fathom_os::clock::mono_ns;
use std::io;

/// A server that lets nobody in is asked so often, each time after twice as long: in all for a minute.
const MOST_REFUSALS: u32 = 8;

/// See the module.
pub(super) struct Echoes<'a> {
    peer: &'a Peer,
    around: Around,
    open: Option<Open>,
    /// The ordinal of the connection that is opened next.
    next: u32,
    /// How often in a row the server let nobody in.
    refusals: u32,
}

impl<'a> Echoes<'a> {
    pub(super) fn new(peer: &'a Peer, around: Around) -> Self {
        Self { peer, around, open: None, next: 0, refusals: 0 }
    }

    fn open(&mut self, beside: &Beside, sent_ns: u64) -> Made {
        let Self { peer, around: Around { stop, record, clock }, open, next, refusals } = self;
        let (remote, connection) = (peer.remote(), *next);
        *next += 1;
        let error = match peer.open(stop, clock) {
            Ok(answerer) => {
                record.opened(connection, remote, answerer.local_addr(), mono_ns() - sent_ns);
                *open = Some(Open { answerer, connection, sent: 0, answered: 0 });
                *refusals = 0;
                return Made::Way;
            }
            Err(error) => error,
        };
        beside.listen(peer, Err(&error));
        record.refused(connection, remote, &error);
        let again_ns = match refusal(&error) {
            Some(refusal) => {
                *refusals += 1;
                beside.refused();
                if *refusals == MOST_REFUSALS {
                    tracing::debug!("beside: the server lets nobody in who would measure");
                }
                again_ns(sent_ns, refusal, *refusals)
            }
            None => sent_ns + SETUP_EVERY.as_nanos() as u64,
        };
        Made::Nothing { again_ns }
    }
}

impl Way for Echoes<'_> {
    fn try_one(&mut self, beside: &Beside, sent_ns: u64) -> Made {
        let Some(link) = &mut self.open else { return self.open(beside, sent_ns) };
        let flags = if link.sent == 0 { Flags::FIRST_ON_CONNECTION } else { Flags::default() };
        let (connection, seq, size) = (link.connection, link.sent, self.peer.size());
        let sample = Sample { connection, seq, size, flags, ..Sample::default() };
        // What the server's process keeps waiting is not on the way.
        let is_there = || beside.known().since_ns = None;
        let echo = link.echo(&self.around.stop, &self.around.clock, is_there);
        let rtt_ns = mono_ns() - sent_ns;
        let outcome = echo.map(|echo| {
            let took_ns = echo.came_ns.map(|came_ns| came_ns.saturating_sub(sent_ns).min(rtt_ns));
            let took_ns = took_ns.filter(|took_ns| *took_ns > 0).unwrap_or(rtt_ns);
            (rtt_ns, Measured::of_ping(took_ns, echo.kernel.as_ref()))
        });
        Made::RoundTrip(Tried { sample, outcome })
    }

    fn recorded(&mut self, _: u32, is_answered: bool, _: u64) {
        if !is_answered {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(link) = self.open.take() {
            link.end(&self.around.record);
        }
    }
}

/// What a server said that let nobody in.
fn refusal(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref::<Error>().filter(|error| error.is_of_a_login())
}

/// When one who was refused so often in a row asks again, if ever.
fn again_ns(now_ns: u64, refusal: &Error, times: u32) -> u64 {
    if refusal.is_barred() || times >= MOST_REFUSALS {
        return u64::MAX;
    }
    now_ns + (SETUP_EVERY.as_nanos() as u64) * (1 << (times - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where it has no room another try may come to more: after longer and longer, and not for ever.
    #[test]
    fn full_server_retries_back_off_then_stop() {
        const MS: u64 = 1_000_000;
        let waits: Vec<_> =
            (1..=MOST_REFUSALS).map(|times| again_ns(0, &Error::Full(String::new()), times)).collect();
        assert_eq!(waits[..3], [500 * MS, 1_000 * MS, 2_000 * MS]);
        assert!(waits.windows(2).all(|pair| pair[0] < pair[1]) && waits.last() == Some(&u64::MAX));
    }
}
