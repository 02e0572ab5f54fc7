//! What the events of a search for the rate ceiling (`fathom limits --rate-ceiling`) tell of its steps.

use serde::{Deserialize, Serialize};

/// The mode of a search for the rate ceiling, as recordings name it.
pub const RATE_CEILING_MODE: &str = "tcp-rate-ceiling";

/// A search for the rate ceiling began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CeilingBegan {
    /// The highest rate that is tried, in packets a second over all connections.
    pub up_to_per_s: u32,
    /// Over so many connections.
    pub connections: u32,
}

/// A step of a search for the rate ceiling is over: what became of its packets, and how it was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CeilingStepped {
    /// Packets a second, of all connections together.
    pub rate_per_s: u32,
    /// For so long, in ns.
    pub lasts_ns: u64,
    /// Packets that were due: those that were sent, and those that were refused.
    pub due: u64,
    /// Packets that were sent: those that were answered, and those that were outstanding.
    pub sent: u64,
    /// Packets that the kernel did not take, because what was sent before had not left.
    pub refused: u64,
    /// Packets that were answered by a second after the step.
    pub answered: u64,
    /// Packets that were not.
    pub outstanding: u64,
    /// Segments that were sent again.
    pub again: u64,
    /// Segments with data that were sent, those that were sent again too; fewer than packets where TCP joined some of them. Absent:
    /// the kernel does not tell, or the search is of an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<u64>,
    /// Times to the echo, of the packets that were answered. Absent: none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
    /// The same in windows of a tenth of a second, from which it was judged.
    pub windows: Vec<Window>,
    /// How it was judged.
    pub judged: Judged,
    /// What was worse than below. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worse: Option<Began>,
    /// An earlier search tried it, with which this one went on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
}

/// Times to the echo, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// The median.
    pub p50_ns: u64,
    /// 99 % were not longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A tenth of a second of a step, by when packets were due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    /// Packets that were due.
    pub due: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that the kernel did not take.
    pub refused: u64,
    /// Packets that were answered.
    pub answered: u64,
    /// Segments that were sent again in it.
    pub again: u64,
    /// Segments with data that were sent in it, those that were sent again too. Absent: as of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<u64>,
    /// By how much this host was late with one of them at the most, in ns.
    pub late_ns: u64,
    /// Median time to the echo in ns, of all that were due. Absent: half of them or more were not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ns: Option<u64>,
}

/// How a step was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// As good as the steps below it.
    Good,
    /// Worse than those below it: the step below is tried again.
    Doubtful,
    /// It was worse and is as good as those below it, tried again: the trouble passed.
    Moment,
    /// Worse again, while the step below is as good as before: it is beyond the ceiling.
    Beyond,
    /// The lowest rate, and so much was lost that there is no path to look for a ceiling on.
    Lossy,
    /// This host did not keep its schedule: it says nothing of the path.
    HostLate,
    /// TCP joined packets before they left, and nothing else was worse than below: the rate was not reached.
    NotReached,
}

/// What began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Began {
    /// Segments were sent again, or could not be sent.
    Loss,
    /// Echoes came later.
    Delay,
    /// Both.
    Both,
    /// TCP held packets back and sent fewer segments, because it lost more of them.
    HeldBack,
}
