//! A throughput test from its recording: as it was summed up in the end, or, where it was interrupted, what this end had
//! counted until then.

use super::MODE;
use super::summary::{Summary, ways};
use fathom_core::event::{Event, EventKind};
use fathom_core::throughput::Direction;
use fathom_core::throughput::account::Gather;
use fathom_recording::Manifest;
use fathom_wire::iperf3::{Results, StreamResult, stream_id};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the events say so far.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    ended: Option<Value>,
    streams: BTreeMap<u32, Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    counted: StreamResult,
    srtt_us: Gather,
    cwnd_bytes: Gather,
}

impl Replay {
    /// Takes note of an event.
    pub(crate) fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ThroughputEnded { summary } => self.ended = Some(summary.clone()),
            EventKind::ThroughputInterval {
                interval_ns,
                bytes,
                retransmits,
                cwnd_bytes,
                srtt_us,
                omitted,
                ..
            } if !omitted => {
                let stream = self.streams.entry(event.connection.unwrap_or(0)).or_default();
                let counted = &mut stream.counted;
                counted.bytes += bytes;
                counted.duration_ns += interval_ns;
                if let Some(more) = retransmits {
                    *counted.retransmits.get_or_insert(0) += u64::from(*more);
                }
                if let Some(us) = srtt_us {
                    stream.srtt_us.add(u64::from(*us));
                }
                if let Some(bytes) = cwnd_bytes {
                    stream.cwnd_bytes.add(*bytes);
                }
            }
            _ => {}
        }
    }

    /// The summary; none: the recording is of another mode, or cannot be understood.
    pub(crate) fn summary(self, manifest: &Manifest) -> Option<Summary> {
        let probe = &manifest.probe;
        if probe["mode"] != MODE {
            return None;
        }
        if let Some(ended) = self.ended {
            return serde_json::from_value(ended).ok();
        }
        let direction = Direction::deserialize(&probe["direction"]).ok()?;
        let parallel = probe["connections"].as_u64()? as u32;
        let result = |(stream, it): (u32, Stream)| StreamResult {
            id: stream_id(stream),
            srtt_us: it.srtt_us.range(),
            cwnd_bytes: it.cwnd_bytes.range(),
            ..it.counted
        };
        let ours = Results { streams: self.streams.into_iter().map(result).collect(), ..Results::default() };
        let reflector = manifest.reflector.resolved.as_ref().unwrap_or(&manifest.reflector.address);
        Some(Summary {
            format: 1,
            mode: MODE.to_owned(),
            label: manifest.label.clone(),
            path: manifest.path.clone(),
            reflector: reflector.clone(),
            direction,
            parallel,
            block_bytes: probe["block_bytes"].as_u64().unwrap_or(0) as u32,
            bitrate_bits_per_second: probe["bitrate_bits_per_second"].as_u64(),
            omit_ns: probe["omit_ns"].as_u64().unwrap_or(0),
            duration_ns: ours.streams.iter().map(|stream| stream.duration_ns).max().unwrap_or(0),
            ended_early: Some("the recording breaks off; this is what this end had counted".to_owned()),
            congestion_here: None,
            congestion_there: None,
            ways: ways(direction, parallel, &ours, None),
            recording: None,
        })
    }
}
