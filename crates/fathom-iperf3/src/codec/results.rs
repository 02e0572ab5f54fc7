//! What each end tells of the test when it is over.

use super::document::{self, Malformed, count, small, text};
use super::limits::MAX_PARALLEL;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One end's results.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Results {
    /// What the test took of this end's processors.
    pub cpu: CpuUse,
    /// The congestion control by name, where this end knows.
    pub congestion: Option<String>,
    /// A result a stream, those that were sent here and those that were received.
    pub streams: Vec<StreamResult>,
}

/// Processor time over the length of the test, in millionths of one processor (on the wire: percent).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuUse {
    /// In the program.
    pub user_ppm: u64,
    /// In the kernel for it.
    pub system_ppm: u64,
}

/// One stream as one end saw it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamResult {
    /// See [`super::stream_id`].
    pub id: u32,
    /// Bytes written to, or read from, the stream.
    pub bytes: u64,
    /// Segments sent again; none: this end received, or its system does not tell.
    pub retransmits: Option<u64>,
    /// How long this end measured, in ns.
    pub duration_ns: u64,
    /// Our own: the sender's smoothed round-trip times, µs. None: it received, or it is no sender of ours.
    pub srtt_us: Option<Range>,
    /// Our own: the sender's congestion windows, bytes. None as `srtt_us`.
    pub cwnd_bytes: Option<Range>,
}

/// What several readings of one quantity came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Range {
    /// How many readings.
    pub count: u64,
    /// The smallest.
    pub min: u64,
    /// Their mean, rounded down.
    pub mean: u64,
    /// The largest.
    pub max: u64,
}

impl Results {
    /// As it stands on the wire, the length before it.
    pub fn encode(&self) -> Vec<u8> {
        let percent = |ppm: u64| ppm as f64 / 1e4;
        let retransmits_known = self.streams.iter().any(|stream| stream.retransmits.is_some());
        let mut value = json!({
            "cpu_util_total": percent(self.cpu.user_ppm.saturating_add(self.cpu.system_ppm)),
            "cpu_util_user": percent(self.cpu.user_ppm),
            "cpu_util_system": percent(self.cpu.system_ppm),
            "sender_has_retransmits": if retransmits_known { 1 } else { -1 },
            "streams": self.streams.iter().map(StreamResult::value).collect::<Vec<_>>(),
        });
        if let Some(name) = &self.congestion {
            value["congestion_used"] = name.as_str().into();
        }
        document::encode(&value)
    }

    /// Reads a document.
    pub fn decode(value: &Value) -> Result<Self, Malformed> {
        let ppm = |key: &str| (value[key].as_f64().unwrap_or(0.0) * 1e4).round() as u64;
        let streams = value["streams"].as_array().ok_or(Malformed("results have no streams"))?;
        if streams.len() > 2 * MAX_PARALLEL as usize {
            return Err(Malformed("results have more streams than a test can have"));
        }
        Ok(Self {
            cpu: CpuUse { user_ppm: ppm("cpu_util_user"), system_ppm: ppm("cpu_util_system") },
            congestion: text(value, "congestion_used"),
            streams: streams.iter().map(StreamResult::decode).collect::<Result<_, _>>()?,
        })
    }

    /// The result of the stream with this id.
    pub fn stream(&self, id: u32) -> Option<&StreamResult> {
        self.streams.iter().find(|stream| stream.id == id)
    }
}

impl StreamResult {
    fn value(&self) -> Value {
        let mut value = json!({
            "id": self.id,
            "bytes": self.bytes,
            "retransmits": self.retransmits.map_or(json!(-1), Value::from),
            "jitter": 0, "errors": 0, "packets": 0,
            "start_time": 0,
            "end_time": self.duration_ns as f64 / 1e9,
        });
        for (key, range) in [("fathom_srtt_us", self.srtt_us), ("fathom_cwnd_bytes", self.cwnd_bytes)] {
            if let Some(Range { count, min, mean, max }) = range {
                value[key] = json!([count, min, mean, max]);
            }
        }
        value
    }

    fn decode(value: &Value) -> Result<Self, Malformed> {
        let seconds = |key: &str| value[key].as_f64().unwrap_or(0.0);
        Ok(Self {
            id: small(value, "id")?,
            bytes: count(value, "bytes")?.ok_or(Malformed("a stream's bytes are no count"))?,
            retransmits: count(value, "retransmits")?,
            // Seconds with a fraction: a nanosecond survives in tests of up to six days.
            duration_ns: ((seconds("end_time") - seconds("start_time")).max(0.0) * 1e9).round() as u64,
            srtt_us: range(value, "fathom_srtt_us"),
            cwnd_bytes: range(value, "fathom_cwnd_bytes"),
        })
    }
}

/// A range of ours; what is none says nothing.
fn range(value: &Value, key: &str) -> Option<Range> {
    let number = |at: usize| value[key].get(at).and_then(Value::as_u64);
    Some(Range { count: number(0)?, min: number(1)?, mean: number(2)?, max: number(3)? })
}
