//! What this end had counted, from the events of a recording that breaks off.

use crate::account::RangeBuilder;
use crate::codec::{Results, StreamResult, stream_id};
use fathom_core::event::{Event, EventKind, ThroughputInterval};
use std::collections::BTreeMap;

/// The streams of a recording, event by event.
///
/// Feed every event to [`Replay::event`], in their order; [`Replay::results`] then gives this end's results as far as
/// they were recorded.
#[derive(Debug, Default)]
pub struct Replay {
    streams: BTreeMap<u32, Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    counted: StreamResult,
    srtt_us: RangeBuilder,
    cwnd_bytes: RangeBuilder,
}

impl Replay {
    /// Takes note of an event; all but counting intervals are passed over.
    pub fn event(&mut self, event: &Event) {
        let EventKind::ThroughputInterval(interval) = &event.kind else { return };
        let ThroughputInterval {
            interval_ns, bytes, retransmits, cwnd_bytes, srtt_us, omitted: false, ..
        } = interval
        else {
            return;
        };
        let stream = self.streams.entry(event.connection.unwrap_or(0)).or_default();
        let counted = &mut stream.counted;
        counted.bytes = counted.bytes.saturating_add(*bytes);
        counted.duration_ns = counted.duration_ns.saturating_add(*interval_ns);
        if let Some(more) = retransmits {
            let resent = counted.retransmits.get_or_insert(0);
            *resent = resent.saturating_add(u64::from(*more));
        }
        if let Some(us) = srtt_us {
            stream.srtt_us.add(u64::from(*us));
        }
        if let Some(bytes) = cwnd_bytes {
            stream.cwnd_bytes.add(*bytes);
        }
    }

    /// What this end had counted.
    pub fn results(self) -> Results {
        let result = |(stream, counts): (u32, Counts)| StreamResult {
            id: stream_id(stream),
            srtt_us: counts.srtt_us.range(),
            cwnd_bytes: counts.cwnd_bytes.range(),
            ..counts.counted
        };
        Results { streams: self.streams.into_iter().map(result).collect(), ..Results::default() }
    }
}
