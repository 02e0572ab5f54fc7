//! Samples without an echo that were lost in this host, judged by events only. They were out on a connection that ended
//! for a cause in this host, or at the end of a run in a silence with such a cause.

use crate::event::{Event, EventKind};
use std::collections::BTreeMap;

/// Ends whose explanation may still come, or come again.
const ENDS_KEPT: usize = 1_000;

/// An ended connection.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Samples that were out at the end.
    outstanding: u64,
    /// True if this host's kernel ended it, or it was silent because of this host.
    here: bool,
    /// True if the explanation puts the cause in this host.
    said: bool,
}

impl End {
    fn lost_here(self) -> u64 {
        if self.here || self.said { self.outstanding } else { 0 }
    }
}

/// Counts samples that were lost in this host.
#[derive(Debug, Clone, Default)]
pub(super) struct LostHere {
    lost: u64,
    /// Silent connections, and whether the cause is in this host.
    silent: BTreeMap<u32, bool>,
    /// Connections that ended with samples out.
    ends: BTreeMap<u32, End>,
}

impl LostHere {
    /// Number of samples lost in this host.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn lost(events: &[(&str, Value)]) -> u64 {
        let mut lost = LostHere::default();
        for (kind, fields) in events {
            let mut event =
                json!({"at": "2026-11-21T10:00:00Z", "mono_ns": 5, "connection": 3, "kind": kind});
            event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            lost.event(&serde_json::from_value(event).unwrap());
        }
        lost.count()
    }

    fn closed(cause: &str, errno: Option<i32>) -> (&'static str, Value) {
        let evidence = json!({"sent": 9, "answered": 2, "outstanding": 7});
        let fields = json!({"cause": cause, "age_ns": 9, "evidence": evidence});
        let with = |errno| json!({"cause": cause, "age_ns": 9, "evidence": evidence, "errno": errno});
        ("connection.closed", errno.map_or(fields, with))
    }

    fn explained(about: &str, verdict: &str) -> (&'static str, Value) {
        let fields = json!({"about": about, "verdict": verdict, "because": ["seen"], "fresh": "not_tried"});
        ("connection.explained", fields)
    }

    #[test]
    fn local_verdict_or_cause_excuses_outstanding_samples() {
        for (verdict, expected) in [("local", 7), ("local_paused", 7), ("path_down", 0), ("unknown", 0)] {
            assert_eq!(lost(&[closed("timed_out", Some(110)), explained("closing", verdict)]), expected);
        }
        // The last explanation counts.
        let [first, last] = ["local", "path_down"].map(|verdict| explained("closing", verdict));
        assert_eq!(lost(&[closed("timed_out", Some(110)), first.clone(), last.clone()]), 0);
        assert_eq!(lost(&[closed("timed_out", Some(110)), last, first]), 7);
        // This host's kernel destroyed the socket, which gets no explanation. A peer that does not echo is no fault of
        // this host.
        let unknown = || explained("closing", "unknown");
        assert_eq!(lost(&[closed("local_error", Some(103)), unknown()]), 7);
        assert_eq!(lost(&[closed("local_error", None), unknown()]), 0);
    }

    #[test]
    fn silence_to_the_end_excuses_by_its_verdict() {
        let began = || ("stall.began", json!({"seq": 2, "outstanding": 1, "threshold_ns": 9}));
        let over = ("stall.ended", json!({"duration_ns": 9, "samples": 1, "recovered": true}));
        let here = || explained("stall", "local");
        assert_eq!(lost(&[began(), here(), closed("finished", None)]), 7);
        assert_eq!(lost(&[began(), explained("stall", "path_down"), closed("finished", None)]), 0);
        // That silence was over: samples that are out at the end have another reason.
        assert_eq!(lost(&[began(), over, here(), closed("finished", None)]), 0);
    }
}
