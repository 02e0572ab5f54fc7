//! What a test came to, both ends' figures put together. The receiver's count is the truth: what was sent may still be on
//! its way, or lost.

use crate::codec::{Range, Results, StreamResult, stream_id};
use crate::direction::Direction;
use crate::streams::Traffic;
use serde::{Deserialize, Serialize};

/// What was measured, and how: the middle of the summary that `schema/throughput.md` describes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which end sends.
    pub direction: Direction,
    /// Streams each way.
    pub parallel: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Of each stream; none: as fast as it goes.
    pub bitrate_bits_per_second: Option<u64>,
    /// What did not count at the beginning.
    pub omit_ns: u64,
    /// What counted, by this end's clock.
    pub duration_ns: u64,
    /// Why the test ended before its time; none: it did not.
    pub ended_early: Option<String>,
    /// The congestion control at this end.
    pub congestion_here: Option<String>,
    /// The congestion control at the other.
    pub congestion_there: Option<String>,
    /// Each way that carried data.
    pub ways: Vec<Way>,
}

/// One way: all its streams together, and each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// `forward`: from the client; `reverse`: to it.
    #[serde(rename = "way")]
    pub name: String,
    /// All streams together.
    #[serde(flatten)]
    pub total: Flow,
    /// Each stream.
    pub streams: Vec<StreamFlow>,
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamFlow {
    /// Counted from 0 over both ways: the `connection` of the events.
    pub stream: u32,
    /// What both ends say of it.
    #[serde(flatten)]
    pub flow: Flow,
}

/// What both ends say of a flow; none where the one that knows did not tell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Flow {
    /// The sender's count.
    pub sent: Option<Counted>,
    /// The receiver's.
    pub received: Option<Counted>,
    /// Segments sent again.
    pub retransmits: Option<u64>,
    /// The sender's congestion windows, bytes.
    pub cwnd_bytes: Option<Range>,
    /// The sender's smoothed round-trip times, µs.
    pub srtt_us: Option<Range>,
}

/// One end's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Bytes.
    pub bytes: u64,
    /// In this time.
    pub duration_ns: u64,
    /// Their quotient.
    pub bits_per_second: u64,
}

impl Outcome {
    /// Puts together what both ends say of a test. `theirs` is none where the test ended before they told, and
    /// `ended_early` says why it did.
    pub fn new(
        direction: Direction,
        parallel: u32,
        traffic: &Traffic,
        ours: &Results,
        theirs: Option<&Results>,
        ended_early: Option<String>,
    ) -> Self {
        Self {
            direction,
            parallel,
            block_bytes: traffic.block,
            bitrate_bits_per_second: traffic.bitrate,
            omit_ns: traffic.omit_ns,
            duration_ns: ours.streams.iter().map(|stream| stream.duration_ns).max().unwrap_or(0),
            ended_early,
            congestion_here: ours.congestion.clone(),
            congestion_there: theirs.and_then(|theirs| theirs.congestion.clone()),
            ways: ways(direction, parallel, ours, theirs),
        }
    }
}

impl Counted {
    fn new(bytes: u64, duration_ns: u64) -> Self {
        let rate = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(duration_ns.max(1));
        Self { bytes, duration_ns, bits_per_second: u64::try_from(rate).unwrap_or(u64::MAX) }
    }

    fn of(result: &StreamResult) -> Self {
        Self::new(result.bytes, result.duration_ns)
    }
}

impl Flow {
    /// From what the two ends say of one stream.
    fn new(sender: Option<&StreamResult>, receiver: Option<&StreamResult>) -> Self {
        Self {
            sent: sender.map(Counted::of),
            received: receiver.map(Counted::of),
            retransmits: sender.and_then(|s| s.retransmits),
            cwnd_bytes: sender.and_then(|s| s.cwnd_bytes),
            srtt_us: sender.and_then(|s| s.srtt_us),
        }
    }

    /// Several flows side by side. Where one of them is not known, their sum is not either. The figures may be a hostile
    /// peer's, so that no sum wraps round.
    fn sum(flows: &[&Self]) -> Self {
        let counted = |of: fn(&Self) -> Option<Counted>| {
            let all = flows.iter().map(|f| of(f)).collect::<Option<Vec<_>>>()?;
            let longest = all.iter().map(|c| c.duration_ns).max()?;
            let bytes = all.iter().fold(0, |sum: u64, c| sum.saturating_add(c.bytes));
            Some(Counted::new(bytes, longest))
        };
        let ranges = |of: fn(&Self) -> Option<Range>| {
            let all = flows.iter().filter_map(|f| of(f)).collect::<Vec<_>>();
            let count = all.iter().fold(0, |sum: u64, r| sum.saturating_add(r.count));
            let weighted = all.iter().map(|r| u128::from(r.mean) * u128::from(r.count));
            let weighted = weighted.fold(0, u128::saturating_add);
            Some(Range {
                count,
                min: all.iter().map(|r| r.min).min()?,
                mean: u64::try_from(weighted / u128::from(count.max(1))).unwrap_or(u64::MAX),
                max: all.iter().map(|r| r.max).max()?,
            })
        };
        let retransmits = flows.iter().map(|f| f.retransmits).collect::<Option<Vec<_>>>();
        Self {
            sent: counted(|f| f.sent),
            received: counted(|f| f.received),
            retransmits: retransmits.map(|all| all.into_iter().fold(0, u64::saturating_add)),
            cwnd_bytes: ranges(|f| f.cwnd_bytes),
            srtt_us: ranges(|f| f.srtt_us),
        }
    }
}

fn ways(direction: Direction, parallel: u32, ours: &Results, theirs: Option<&Results>) -> Vec<Way> {
    let client_sends = direction.client_sends(parallel);
    let way = |name: &str, forward: bool| {
        let one = |stream: u32| {
            let id = stream_id(stream);
            let (here, there) = (ours.stream(id), theirs.and_then(|theirs| theirs.stream(id)));
            let flow = if forward { Flow::new(here, there) } else { Flow::new(there, here) };
            StreamFlow { stream, flow }
        };
        let streams: Vec<StreamFlow> = (0..)
            .zip(&client_sends)
            .filter(|(_, sends)| **sends == forward)
            .map(|(stream, _)| one(stream))
            .collect();
        let total = Flow::sum(&streams.iter().map(|one| &one.flow).collect::<Vec<_>>());
        (!streams.is_empty()).then(|| Way { name: name.to_owned(), total, streams })
    };
    [way("forward", true), way("reverse", false)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(bytes: [u64; 2], retransmits: [Option<u64>; 2]) -> Results {
        let range = |n| Range { count: 2, min: n, mean: n, max: n };
        let stream = |i: u32| StreamResult {
            id: stream_id(i),
            bytes: bytes[i as usize],
            retransmits: retransmits[i as usize],
            duration_ns: 1_000_000_000 + u64::from(i),
            srtt_us: retransmits[i as usize].map(|_| range(u64::from(i) * 100)),
            cwnd_bytes: None,
        };
        Results { streams: vec![stream(0), stream(1)], ..Results::default() }
    }

    #[test]
    fn sender_reports_retransmits_receiver_reports_bytes() {
        let (ours, theirs) = (results([1_000, 70], [Some(2), None]), results([900, 77], [None, Some(5)]));
        let both = ways(Direction::Bidirectional, 1, &ours, Some(&theirs));
        let [forward, reverse] = &both[..] else { panic!("{both:?}") };
        let counted =
            |flow: &Flow| (flow.sent.map(|c| c.bytes), flow.received.map(|c| c.bytes), flow.retransmits);
        assert_eq!(counted(&forward.total), (Some(1_000), Some(900), Some(2)));
        assert_eq!(counted(&reverse.total), (Some(77), Some(70), Some(5)));
        assert_eq!(reverse.streams[0].stream, 1);
    }

    #[test]
    fn parallel_streams_add_up_unknowns_stay_unknown() {
        let (ours, theirs) = (results([1_000, 500], [Some(2), Some(3)]), results([900, 400], [None, None]));
        let forward = &ways(Direction::Forward, 2, &ours, Some(&theirs))[0];
        assert_eq!(forward.total.retransmits, Some(5));
        assert_eq!(forward.total.received.map(|c| (c.bytes, c.duration_ns)), Some((1_300, 1_000_000_001)));
        assert_eq!(forward.total.srtt_us.map(|r| (r.count, r.min, r.mean, r.max)), Some((4, 0, 50, 100)));
        let alone = &ways(Direction::Forward, 2, &ours, None)[0];
        assert_eq!(alone.total.received, None);
        assert_eq!(alone.total.sent.map(|c| c.bytes), Some(1_500));
    }

    #[test]
    fn hostile_figures_saturate_without_overflow() {
        let range = Range { count: u64::MAX, min: 0, mean: u64::MAX, max: u64::MAX };
        let most = |id| StreamResult {
            id: stream_id(id),
            bytes: u64::MAX,
            retransmits: Some(u64::MAX),
            duration_ns: 1,
            srtt_us: Some(range),
            cwnd_bytes: Some(range),
        };
        let theirs = Results { streams: vec![most(0), most(1)], ..Results::default() };
        let reverse = &ways(Direction::Reverse, 2, &Results::default(), Some(&theirs))[0].total;
        assert_eq!(reverse.sent.map(|sent| (sent.bytes, sent.bits_per_second)), Some((u64::MAX, u64::MAX)));
        assert_eq!((reverse.retransmits, reverse.srtt_us), (Some(u64::MAX), Some(range)));
    }

    #[test]
    fn recorded_stream_count_is_capped() {
        let none = Results::default();
        let lines: usize =
            ways(Direction::Bidirectional, u32::MAX, &none, None).iter().map(|way| way.streams.len()).sum();
        assert_eq!(lines, 256);
    }
}
