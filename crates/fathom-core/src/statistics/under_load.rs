//! What a run amounts to while a load of ours was running beside its samples.

use super::group::Group;
use crate::load::bits_per_s;

/// The samples under load, and the load that they were under.
#[derive(Debug, Clone, Default)]
pub struct UnderLoad {
    /// Samples flagged as under load. Those sent while the load was coming or going are flagged as warm-up besides.
    pub samples: Group,
    /// Loaded phases.
    pub phases: u64,
    /// How long they were together, in ns.
    pub duration_ns: u64,
    /// Payload bytes that the load sent in that time.
    pub sent_bytes: u64,
    /// Payload bytes of its echoes that came back in that time.
    pub echoed_bytes: u64,
}

impl UnderLoad {
    /// A loaded phase is over.
    pub(super) fn ended(&mut self, duration_ns: u64, sent_bytes: u64, echoed_bytes: u64) {
        self.phases += 1;
        self.duration_ns += duration_ns;
        self.sent_bytes += sent_bytes;
        self.echoed_bytes += echoed_bytes;
    }

    /// What was sent, bits a second of the loaded phases; `None`: none is over.
    pub fn sent_bits_per_s(&self) -> Option<u64> {
        bits_per_s(self.sent_bytes, self.duration_ns)
    }

    /// What came back, bits a second of the loaded phases; `None`: none is over.
    pub fn echoed_bits_per_s(&self) -> Option<u64> {
        bits_per_s(self.echoed_bytes, self.duration_ns)
    }
}
