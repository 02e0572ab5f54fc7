//! What a run does for those who do not watch it: a line an interval, a command an event, a file for Prometheus.

mod hook;
mod intervals;
mod textfile;

pub(super) use hook::{Hook, HookSender};
pub(super) use intervals::Intervals;
pub(super) use textfile::Textfile;
