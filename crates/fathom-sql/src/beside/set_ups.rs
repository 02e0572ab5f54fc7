//! Round trips by setting up connections to the database's port, which its kernel answers: each is a sample of its own.

use super::{Around, Beside, Made, Tried, Way};
use crate::channel::set_up;
use crate::link::limit;
use crate::measured::Measured;
use fathom_core::sample::{Flags, Sample};
use fathom_os::clock::mono_ns;
use fathom_os::socket;
use std::net::SocketAddr;

/// See the module.
pub(super) struct SetUps {
    remote: SocketAddr,
    around: Around,
    /// The ordinal of the next.
    next: u32,
}

impl SetUps {
    pub(super) fn new(remote: SocketAddr, around: Around) -> Self {
        Self { remote, around, next: 0 }
    }
}

impl Way for SetUps {
    fn try_one(&mut self, _: &Beside, sent_ns: u64) -> Made {
        let Self { remote, around: Around { stop, record, clock }, next } = self;
        let connection = *next;
        *next += 1;
        let stream = set_up(*remote, &limit(stop, clock));
        let rtt_ns = mono_ns() - sent_ns;
        match &stream {
            Ok(stream) => record.opened(connection, *remote, stream.local_addr().ok(), rtt_ns),
            Err(error) => record.refused(connection, *remote, error),
        }
        let outcome =
            stream.map(|stream| (rtt_ns, Measured::of_set_up(rtt_ns, socket::tcp_info(&stream).as_ref())));
        let sample = Sample { connection, flags: Flags::FIRST_ON_CONNECTION, ..Sample::default() };
        Made::RoundTrip(Tried { sample, outcome })
    }

    fn recorded(&mut self, connection: u32, is_answered: bool, sent_ns: u64) {
        if is_answered {
            self.around.record.closed(connection, 1, 1, mono_ns() - sent_ns);
        }
    }

    fn end(&mut self) {}
}
