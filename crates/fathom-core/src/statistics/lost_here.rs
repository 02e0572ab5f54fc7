//! Samples without an echo that were lost in this host, by the events alone: those that were out on a connection when it ended
//! for a cause in this host, or when the run ended in a silence that had one.

use crate::event::{Event, EventKind};
use std::collections::BTreeMap;

/// Ends of which the explanation may still come, or come again.
const ENDS_KEPT: usize = 1_000;

/// The end of a connection.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Samples that were out.
    outstanding: u64,
    /// This host's system ended it, or it was silent for the sake of this host.
    here: bool,
    /// The explanation says that the cause lies in this host.
    said: bool,
}

impl End {
    fn lost_here(self) -> u64 {
        if self.here || self.said { self.outstanding } else { 0 }
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct LostHere {
    lost: u64,
    /// Connections that are silent: whether for a cause in this host.
    silent: BTreeMap<u32, bool>,
    /// Of those that ended with samples out.
    ends: BTreeMap<u32, End>,
}

impl LostHere {
    /// How many.
    pub(super) fn count(&self) -> u64 {
        self.lost
    }

    pub(super) fn event(&mut self, event: &Event) {
        let Some(connection) = event.connection else { return };
        match &event.kind {
            EventKind::StallBegan { .. } => _ = self.silent.insert(connection, false),
            EventKind::StallEnded { .. } => _ = self.silent.remove(&connection),
            EventKind::ConnectionExplained { about, explanation, .. } => {
                let here = explanation.verdict.is_local();
                if about != "closing" {
                    self.silent.entry(connection).and_modify(|silent| *silent = here);
                } else if let Some(end) = self.ends.get(&connection).copied() {
                    self.ended(connection, End { said: here, ..end });
                }
            }
            EventKind::ConnectionClosed { cause, errno, evidence, .. } => {
                let silent_here = self.silent.remove(&connection) == Some(true);
                let here = cause.is_of_this_host(*errno) || silent_here && !cause.is_loss();
                let outstanding = evidence.outstanding;
                if outstanding > 0 {
                    self.ended(connection, End { outstanding, here, said: false });
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, connection: u32, end: End) {
        let before = self.ends.insert(connection, end).map_or(0, End::lost_here);
        self.lost = (self.lost + end.lost_here()).saturating_sub(before);
        if self.ends.len() > ENDS_KEPT {
            self.ends.pop_first();
        }
    }
}
