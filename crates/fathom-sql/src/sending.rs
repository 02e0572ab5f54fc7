//! What the path took to carry a request that does not go at once, by what this side's kernel says of it.

use crate::channel::Channel;
use fathom_core::event::TcpInfo;
use std::time::Duration;

/// A request of no more bytes goes at once: ten segments of 1,460 (RFC 6928).
const AT_ONCE: usize = 14_600;
/// A kernel that waits for its process before it acknowledges has acknowledged all but so many segments at once (RFC 5681, 4.2: "at
/// least every second full-sized segment").
const PUT_OFF: u32 = 2;
/// The kernel is asked after each sixteenth of the time that it has sent, within these: so the moment is known to as much.
const EVERY: u64 = 16;
const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Debug)]
pub(crate) struct Sending {
    /// How long the connection had sent before; `None`: the kernel does not tell.
    before_ns: Option<u64>,
    /// And when all of it was, but for what may be acknowledged late.
    sent_ns: Option<u64>,
}

impl Sending {
    /// Of a request of so many bytes, before it is sent; `None`: it goes at once.
    pub(crate) fn begin(bytes: usize, channel: &Channel) -> Option<Self> {
        (bytes > AT_ONCE).then(|| Self { before_ns: channel.sending_ns(), sent_ns: None })
    }

    /// When the kernel is to be asked again, after it has sent for so long; `None`: it need not be.
    pub(crate) fn every(&self, for_ns: u64) -> Option<Duration> {
        self.goes_on().then(|| Duration::from_nanos(for_ns / EVERY).clamp(LEAST, MOST))
    }

    fn goes_on(&self) -> bool {
        self.before_ns.is_some() && self.sent_ns.is_none()
    }

    /// What the kernel says while the answer is waited for.
    pub(crate) fn note(&mut self, info: &TcpInfo, channel: &Channel) {
        if self.goes_on() && info.notsent_bytes == 0 && info.unacked <= PUT_OFF {
            self.sent_ns = channel.sending_ns();
        }
    }

    /// The answer is here: how long the path carried the request, most likely and at most, of so much time.
    pub(crate) fn took_ns(&self, channel: &Channel, of_ns: u64) -> (u64, u64) {
        let took = |until_ns: Option<u64>| {
            self.before_ns.zip(until_ns).map(|(before, until)| until.saturating_sub(before).min(of_ns))
        };
        let now_ns = channel.sending_ns();
        // Where the kernel does not tell nothing is likely, and all of the time may have been.
        (took(self.sent_ns.or(now_ns)).unwrap_or(0), took(now_ns).unwrap_or(of_ns))
    }
}
