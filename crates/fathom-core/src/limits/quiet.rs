//! From when to when nothing was answered, as far as is known.
//!
//! What was sent and answered at once shows that the path and the peer worked then. What had to be sent again, or was not answered,
//! shows that they did not when it was sent. So a silence has bounds: it lasted from the first such sending to the last one at the
//! least, and from the last sending that was answered to the next answer at the most.

use super::flow::{Flow, Stage};
use super::plan::S;

/// A silence is told from this length on. Of a packet that is lost, a second and a third attempt follow within it.
const TOLD_NS: u64 = 2 * S;
/// So many connections have it: one alone may have died.
const CONNECTIONS: usize = 2;
/// When a SYN is sent that is not answered (RFC 6298, 2.1 and 5.5: after 1 s, and twice as long each time; Linux 6.5 and later sends others between
/// these), and how long it may take.
const SYNS_NS: [u64; 4] = [0, S, 3 * S, 7 * S];
const SYN_RTO_NS: u64 = S;

/// See the module.
#[expect(clippy::struct_field_names, reason = "all of them are times, and say so")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Silence {
    /// When that was sent which was not answered first.
    pub(super) began_ns: u64,
    pub(super) least_ns: u64,
    pub(super) most_ns: u64,
}

/// What is known of the present silence, if there is one.
#[expect(clippy::struct_field_names, reason = "all of them are times, and say so")]
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// When the latest was sent that was answered.
    worked_ns: u64,
    /// When the first and the last were sent, after that, that were not.
    failed_ns: Option<(u64, u64)>,
    /// The first answer after those.
    back_ns: Option<u64>,
    /// When the silence before was over.
    told_ns: u64,
}

impl Quiet {
    /// Nothing is known of before.
    pub(super) fn begins(&mut self, now: u64) {
        *self = Self { worked_ns: now, told_ns: self.told_ns, ..Self::default() };
    }

    /// What was sent then was not answered in time.
    pub(super) fn failed(&mut self, sent_ns: u64) {
        if sent_ns <= self.worked_ns {
            return;
        }
        let (first, last) = self.failed_ns.unwrap_or((sent_ns, sent_ns));
        self.failed_ns = Some((first.min(sent_ns), last.max(sent_ns)));
        self.back_ns.take_if(|at| *at < sent_ns);
    }

    /// What is known of a connection that is open: when what it waits for, or waited for, was sent. Whether it is silent.
    pub(super) fn looks_at(&mut self, now: u64, flow: &Flow, rto_ns: u64) -> bool {
        let before = self.worked_ns;
        let sent_ns = match flow.stage {
            Stage::Opening => {
                for after_ns in SYNS_NS.iter().filter(|after| flow.since_ns + *after + SYN_RTO_NS <= now) {
                    self.failed(flow.since_ns + after_ns);
                }
                return flow.since_ns > before && flow.since_ns + SYN_RTO_NS <= now;
            }
            Stage::Hello => flow.since_ns,
            Stage::Asked(asked) => asked.at_ns,
            _ => return false,
        };
        let is_silent = sent_ns + rto_ns <= now;
        if is_silent {
            self.failed(sent_ns);
        }
        is_silent && sent_ns > before
    }

    /// Something is answered that was sent then; so many other connections are silent. The silence that it ends, if that is to be
    /// told.
    pub(super) fn answered(&mut self, now: u64, sent_ns: u64, rto_ns: u64, others: usize) -> Option<Silence> {
        let at_once = sent_ns + rto_ns > now;
        let silent = others + usize::from(!at_once && sent_ns > self.worked_ns);
        if !at_once {
            self.failed(sent_ns);
        }
        let worked_ns = if at_once { sent_ns } else { now };
        let ended = self.silence(worked_ns);
        if worked_ns > self.worked_ns {
            self.begins(worked_ns);
        }
        let is_told = |silence: &Silence| silent >= CONNECTIONS && silence.began_ns + TOLD_NS <= worked_ns;
        ended.filter(is_told).inspect(|_| self.told_ns = now)
    }

    /// The outage in which something failed was over, and is told.
    pub(super) fn is_over(&mut self, now: u64) {
        self.begins(now);
        self.told_ns = now;
    }

    /// Whether what began then began in a silence that has been told.
    pub(super) fn has_told(&self, since_ns: u64) -> bool {
        since_ns <= self.told_ns
    }

    /// Something is answered while fresh connections are not.
    pub(super) fn is_back(&mut self, now: u64) {
        self.back_ns.get_or_insert(now);
    }

    /// The silence that was over by then, or when something was first answered again.
    pub(super) fn silence(&self, by_ns: u64) -> Option<Silence> {
        let (first, last) = self.failed_ns?;
        let most_ns = self.back_ns.unwrap_or(by_ns).saturating_sub(self.worked_ns);
        Some(Silence { began_ns: first, least_ns: (last - first).min(most_ns), most_ns })
    }
}
