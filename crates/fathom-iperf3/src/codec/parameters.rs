//! What the client asks for.

use super::document::{self, Malformed, count, small, switch, text};
use serde_json::{Value, json};

/// A test as its client describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parameters {
    /// The streams are TCP connections. A client of UDP or SCTP names that instead.
    pub tcp: bool,
    /// The streams are SCTP associations.
    pub sctp: bool,
    /// Seconds at the beginning that do not count.
    pub omit_s: u32,
    /// Seconds that count; 0: another end (bytes, blocks, or the client's word).
    pub time_s: u32,
    /// Streams each way.
    pub parallel: u32,
    /// The server sends.
    pub reverse: bool,
    /// Both send, on streams of their own.
    pub bidirectional: bool,
    /// Bytes of a block; 0: not said.
    pub block: u32,
    /// Bits a second of each stream; none: as fast as it goes.
    pub bitrate: Option<u64>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// The congestion control by name; none: each host's own.
    pub congestion: Option<String>,
    /// Whether the client names a user.
    pub authenticates: bool,
    /// The client's version, as it says.
    pub client_version: Option<String>,
    /// Our own: after its `TEST_END` the client shuts down its side of each stream, so that whoever receives until the end
    /// of the stream has all that was sent. iperf3 stops in the middle.
    pub drains: bool,
}

impl Parameters {
    /// As it stands on the wire, the length before it. What is not said is left out.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = json!({
            "omit": self.omit_s, "time": self.time_s, "num": 0, "blockcount": 0, "parallel": self.parallel,
            "len": self.block, "pacing_timer": 1000,
        });
        let mut add = |key: &str, it: Value| value[key] = it;
        for (key, on) in [
            ("tcp", self.tcp),
            ("sctp", self.sctp),
            ("reverse", self.reverse),
            ("bidirectional", self.bidirectional),
            ("nodelay", self.nodelay),
            ("fathom_drains", self.drains),
        ] {
            if on {
                add(key, Value::Bool(true));
            }
        }
        if let Some(rate) = self.bitrate {
            add("bandwidth", rate.into());
        }
        if let Some(name) = &self.congestion {
            add("congestion", name.as_str().into());
        }
        if self.authenticates {
            add("authtoken", "".into());
        }
        if let Some(version) = &self.client_version {
            add("client_version", version.as_str().into());
        }
        document::encode(&value)
    }

    /// Reads a document.
    pub fn decode(value: &Value) -> Result<Self, Malformed> {
        Ok(Self {
            tcp: switch(value, "tcp"),
            sctp: switch(value, "sctp"),
            omit_s: small(value, "omit")?,
            time_s: small(value, "time")?,
            // A client that does not say has one stream.
            parallel: if value["parallel"].is_null() { 1 } else { small(value, "parallel")? },
            reverse: switch(value, "reverse"),
            bidirectional: switch(value, "bidirectional"),
            block: small(value, "len")?,
            bitrate: count(value, "bandwidth")?.filter(|rate| *rate > 0),
            nodelay: switch(value, "nodelay"),
            congestion: text(value, "congestion"),
            authenticates: !value["authtoken"].is_null(),
            client_version: text(value, "client_version"),
            drains: switch(value, "fathom_drains"),
        })
    }
}
