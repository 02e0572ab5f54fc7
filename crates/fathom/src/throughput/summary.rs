//! What a throughput test comes to, for people and for machines (`schema/throughput.md`). The receiver's count is the
//! truth: what was sent may still be on its way, or lost.

use super::words::{bytes, micros, rate};
use crate::summary::duration;
use fathom_core::throughput::Direction;
use fathom_recording::PathLabels;
use fathom_wire::iperf3::{Range, Results, StreamResult, stream_id};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// What was measured, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) format: u32,
    pub(crate) mode: String,
    pub(crate) label: String,
    pub(crate) path: PathLabels,
    pub(crate) reflector: String,
    pub(crate) direction: Direction,
    /// Streams each way.
    pub(crate) parallel: u32,
    pub(crate) block_bytes: u32,
    /// Of each stream; none: as fast as it goes.
    pub(crate) bitrate_bits_per_second: Option<u64>,
    pub(crate) omit_ns: u64,
    pub(crate) duration_ns: u64,
    /// Why the test ended before its time; none: it did not.
    pub(crate) ended_early: Option<String>,
    pub(crate) congestion_here: Option<String>,
    pub(crate) congestion_there: Option<String>,
    pub(crate) ways: Vec<Way>,
    pub(crate) recording: Option<String>,
}

/// One way: all its streams together, and each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Way {
    /// `forward`: from the probe; `reverse`: to it.
    #[serde(rename = "way")]
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) total: Flow,
    pub(crate) streams: Vec<Line>,
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Counted from 0 over both ways: the `connection` of the events.
    pub(crate) stream: u32,
    #[serde(flatten)]
    pub(crate) flow: Flow,
}

/// What both ends say of a flow; none where the one that knows did not tell.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Flow {
    pub(crate) sent: Option<Counted>,
    pub(crate) received: Option<Counted>,
    pub(crate) retransmits: Option<u64>,
    pub(crate) cwnd_bytes: Option<Readings>,
    pub(crate) srtt_us: Option<Readings>,
}

/// One end's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) bytes: u64,
    pub(crate) duration_ns: u64,
    pub(crate) bits_per_second: u64,
}

/// What several readings came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readings {
    pub(crate) count: u64,
    pub(crate) min: u64,
    pub(crate) mean: u64,
    pub(crate) max: u64,
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

impl From<Range> for Readings {
    fn from(Range { count, min, mean, max }: Range) -> Self {
        Self { count, min, mean, max }
    }
}

impl Flow {
    /// From what the two ends say of one stream.
    fn new(sender: Option<&StreamResult>, receiver: Option<&StreamResult>) -> Self {
        Self {
            sent: sender.map(Counted::of),
            received: receiver.map(Counted::of),
            retransmits: sender.and_then(|s| s.retransmits),
            cwnd_bytes: sender.and_then(|s| s.cwnd_bytes).map(Readings::from),
            srtt_us: sender.and_then(|s| s.srtt_us).map(Readings::from),
        }
    }

    /// Several flows side by side. Where one of them is not known, their sum is not either.
    fn sum(flows: &[&Self]) -> Self {
        let counted = |of: fn(&Self) -> Option<Counted>| {
            let all = flows.iter().map(|f| of(f)).collect::<Option<Vec<_>>>()?;
            let longest = all.iter().map(|c| c.duration_ns).max()?;
            Some(Counted::new(all.iter().map(|c| c.bytes).sum(), longest))
        };
        let readings = |of: fn(&Self) -> Option<Readings>| {
            let all = flows.iter().filter_map(|f| of(f)).collect::<Vec<_>>();
            let count: u64 = all.iter().map(|r| r.count).sum();
            Some(Readings {
                count,
                min: all.iter().map(|r| r.min).min()?,
                mean: all.iter().map(|r| r.mean * r.count).sum::<u64>() / count.max(1),
                max: all.iter().map(|r| r.max).max()?,
            })
        };
        Self {
            sent: counted(|f| f.sent),
            received: counted(|f| f.received),
            retransmits: flows.iter().map(|f| f.retransmits).sum(),
            cwnd_bytes: readings(|f| f.cwnd_bytes),
            srtt_us: readings(|f| f.srtt_us),
        }
    }
}

/// Both ways, from what the two ends say. `theirs` is none where the test ended before they told.
pub(crate) fn ways(
    direction: Direction,
    parallel: u32,
    ours: &Results,
    theirs: Option<&Results>,
) -> Vec<Way> {
    let client_sends = direction.client_sends(parallel);
    let way = |name: &str, forward: bool| {
        let ours_and_theirs = |stream: u32| {
            let id = stream_id(stream);
            (ours.stream(id), theirs.and_then(|theirs| theirs.stream(id)))
        };
        let line = |stream: u32| {
            let (here, there) = ours_and_theirs(stream);
            let flow = if forward { Flow::new(here, there) } else { Flow::new(there, here) };
            Line { stream, flow }
        };
        let streams: Vec<Line> = (0..)
            .zip(&client_sends)
            .filter(|(_, sends)| **sends == forward)
            .map(|(stream, _)| line(stream))
            .collect();
        let total = Flow::sum(&streams.iter().map(|line| &line.flow).collect::<Vec<_>>());
        (!streams.is_empty()).then(|| Way { name: name.to_owned(), total, streams })
    };
    [way("forward", true), way("reverse", false)].into_iter().flatten().collect()
}

impl Summary {
    /// One line for machines.
    pub(crate) fn json(&self) -> String {
        // Plain data with string keys: nothing that serde_json could refuse.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The table for people.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |text: std::fmt::Arguments<'_>| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{text}");
        };
        let via = self.path.via.as_ref().map_or(String::new(), |via| format!(" via {via}"));
        let route = match (&self.path.from, &self.path.to) {
            (None, None) => String::new(),
            (from, to) => format!("  {} -> {}", word(from.as_ref()), word(to.as_ref())),
        };
        line(format_args!("{}  {}{route}{via}", self.label, self.reflector));
        let streams = if self.parallel == 1 { "stream" } else { "streams" };
        let each_way = if self.direction == Direction::Bidirectional { " each way" } else { "" };
        let limit = self.bitrate_bits_per_second.map_or(String::new(), |r| format!(", at {} each", rate(r)));
        let omitted = if self.omit_ns > 0 {
            format!(", the first {} left out", duration(self.omit_ns))
        } else {
            String::new()
        };
        let block = bytes(u64::from(self.block_bytes));
        line(format_args!(
            "  {} {streams}{each_way}, blocks of {block}{limit}, for {}{omitted}",
            self.parallel,
            duration(self.duration_ns)
        ));
        if let Some(why) = &self.ended_early {
            line(format_args!("  ended early: {why}"));
        }
        line(format_args!(
            "  {:<16} {:>12} {:>14} {:>14} {:>8} {:>10}  srtt min/mean/max",
            "", "received", "as received", "as sent", "resent", "cwnd mean"
        ));
        for way in &self.ways {
            for stream in way.streams.iter().filter(|_| way.streams.len() > 1) {
                line(format_args!("  {}", row(&format!("{} {}", way.name, stream.stream), &stream.flow)));
            }
            let name = if way.streams.len() > 1 { format!("{} in all", way.name) } else { way.name.clone() };
            line(format_args!("  {}", row(&name, &way.total)));
        }
        if let (Some(here), Some(there)) = (&self.congestion_here, &self.congestion_there) {
            line(format_args!("  congestion   {here} here, {there} there"));
        }
        if let Some(recording) = &self.recording {
            line(format_args!("  recording    {recording}"));
        }
        out
    }
}

fn word(text: Option<&String>) -> &str {
    text.map_or("?", String::as_str)
}

fn row(name: &str, flow: &Flow) -> String {
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    format!(
        "{name:<16} {:>12} {:>14} {:>14} {:>8} {:>10}  {}",
        known(flow.received.map(|c| bytes(c.bytes))),
        known(flow.received.map(|c| rate(c.bits_per_second))),
        known(flow.sent.map(|c| rate(c.bits_per_second))),
        known(flow.retransmits.map(|n| n.to_string())),
        known(flow.cwnd_bytes.map(|r| bytes(r.mean))),
        known(flow.srtt_us.map(|r| [r.min, r.mean, r.max].map(micros).join("/"))),
    )
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
    fn the_sender_tells_what_was_sent_again_and_the_receiver_what_came() {
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
    fn streams_side_by_side_add_up_and_what_one_does_not_know_is_not_known() {
        let (ours, theirs) = (results([1_000, 500], [Some(2), Some(3)]), results([900, 400], [None, None]));
        let forward = &ways(Direction::Forward, 2, &ours, Some(&theirs))[0];
        assert_eq!(forward.total.retransmits, Some(5));
        assert_eq!(forward.total.received.map(|c| (c.bytes, c.duration_ns)), Some((1_300, 1_000_000_001)));
        assert_eq!(forward.total.srtt_us.map(|r| (r.count, r.min, r.mean, r.max)), Some((4, 0, 50, 100)));
        let alone = &ways(Direction::Forward, 2, &ours, None)[0];
        assert_eq!(alone.total.received, None);
        assert_eq!(alone.total.sent.map(|c| c.bytes), Some(1_500));
    }
}
