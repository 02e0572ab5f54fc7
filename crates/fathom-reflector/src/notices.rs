//! Maintenance that the cloud announced to this host, for probes that ask. A thread reads the metadata service as the
//! probe reads its own (`fathom-cloud`). An answer is as long as its question (`fathom_wire::notice`).

use fathom_cloud::{CloudMessage, CloudWatch, Settings};
use fathom_core::event::EventKind;
use fathom_core::notice::{Cloud, code_of};
use fathom_os::clock::{mono_ns, utc_ns};
use fathom_wire::{Announced, Silence};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of remembered notices; the latest are kept.
const REMEMBERED: usize = 16;
/// A path may suffer a little before a notice's time, and settles some minutes after it is gone (as in
/// `fathom_core::story`).
const BEFORE_NS: i64 = 60_000_000_000;
const AFTER_NS: i64 = 300_000_000_000;

/// Announced maintenance, shared with the thread that reads it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notices {
    known: Arc<Mutex<VecDeque<Known>>>,
}

/// A notice; times are ns since the Unix epoch by this host's clock.
#[derive(Debug, Clone)]
struct Known {
    cloud: u8,
    /// The cloud's name for the notice, or its word for the planned work.
    name: String,
    what: u8,
    key: u32,
    begins_ns: Option<i64>,
    started_ns: Option<i64>,
    gone_ns: Option<i64>,
    lasts_ns: Option<u64>,
    /// Time of its last change.
    changed_ns: i64,
}

impl Known {
    /// Overlap of a time span with its window, in ns.
    fn covers(&self, from_ns: i64, to_ns: i64) -> i64 {
        let Some(begins) = self.begins_ns.into_iter().chain(self.started_ns).min() else { return 0 };
        let ends = self.gone_ns.map_or(i64::MAX, |gone| gone.saturating_add(AFTER_NS));
        (to_ns.min(ends) - from_ns.max(begins.saturating_sub(BEFORE_NS))).max(0)
    }

    fn told(&self, now_ns: i64) -> Announced {
        // The largest number stands for nothing known.
        let ms = |ns: i64| u32::try_from(ns.max(0) / 1_000_000).unwrap_or(u32::MAX).min(u32::MAX - 1);
        let ago = |at: Option<i64>| at.map(|at| ms(now_ns.saturating_sub(at)));
        Announced {
            cloud: self.cloud,
            what: self.what,
            key: self.key,
            // A time that is too far away for the format is left out.
            begins_in_ms: self.begins_ns.and_then(|at| {
                i32::try_from(at.saturating_sub(now_ns) / 1_000_000).ok().filter(|ms| *ms != i32::MIN)
            }),
            started_ago_ms: ago(self.started_ns),
            gone_ago_ms: ago(self.gone_ns),
            lasts_ms: self.lasts_ns.map(|ns| ms(i64::try_from(ns).unwrap_or(i64::MAX))),
        }
    }
}

impl Notices {
    /// Watches the metadata service until the returned value is dropped.
    pub(crate) fn watch(&self, settings: &Settings) -> CloudWatch {
        let notices = self.clone();
        CloudWatch::start(settings, move |message| match message {
            CloudMessage::Maintenance(kind) => notices.take(&kind, utc_ns()),
            CloudMessage::Note(text) => tracing::info!("{text}"),
            CloudMessage::Instance(_) => {}
        })
    }

    /// Takes the cloud's notices. Those for other machines are skipped.
    fn take(&self, kind: &EventKind, now_ns: i64) {
        let EventKind::Maintenance { host, cloud, id, what, state, not_before, duration_ns, .. } = kind
        else {
            return;
        };
        if host != "local" {
            return;
        }
        let (cloud, name) = (Cloud::code_of(cloud), id.as_ref().unwrap_or(what));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // A cloud may rename a notice from one state to the next.
        let goes_on = |known: &Known| known.cloud == cloud && known.gone_ns.is_none();
        let by_name = known.iter().rposition(|known| goes_on(known) && known.name == *name);
        let by_work = || known.iter().rposition(|known| goes_on(known) && known.what == code_of(what));
        let at = by_name.or_else(|| by_work().filter(|_| state != "scheduled"));
        let at = at.unwrap_or_else(|| {
            if known.len() == REMEMBERED {
                known.pop_front();
            }
            known.push_back(Known {
                cloud,
                name: name.clone(),
                what: code_of(what),
                key: key(name, now_ns),
                begins_ns: None,
                started_ns: None,
                gone_ns: None,
                lasts_ns: None,
                changed_ns: now_ns,
            });
            known.len() - 1
        });
        let Some(notice) = known.get_mut(at) else { return };
        let begins = not_before.map(|at| i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX));
        (notice.begins_ns, notice.lasts_ns) = (begins.or(notice.begins_ns), duration_ns.or(notice.lasts_ns));
        (notice.name, notice.changed_ns) = (name.clone(), now_ns);
        match state.as_str() {
            "started" => notice.started_ns = notice.started_ns.or(Some(now_ns)),
            "gone" => notice.gone_ns = Some(now_ns),
            _ => {}
        }
    }

    /// The notice to report about this silence: the one whose window overlaps it most, or else the latest.
    pub(crate) fn told(&self, silence: Option<Silence>) -> Option<Announced> {
        self.told_at(utc_ns(), mono_ns(), silence)
    }

    fn told_at(&self, utc_ns: i64, now_ns: u64, silence: Option<Silence>) -> Option<Announced> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let covered = silence.and_then(|silence| {
            let utc = |at: u64| utc_ns.saturating_sub(i64::try_from(now_ns.saturating_sub(at)).unwrap_or(0));
            let (from, to) = silence.span(now_ns);
            // A notice that is over at once still lasts a moment.
            let covers = |known: &&Known| known.covers(utc(from), utc(to).max(utc(from) + 1));
            known.iter().filter(|known| covers(known) > 0).max_by_key(covers)
        });
        let notice = covered.or_else(|| known.iter().max_by_key(|known| known.changed_ns))?;
        Some(notice.told(utc_ns))
    }
}

/// FNV-1a over 32 bits.
fn key(name: &str, now_ns: i64) -> u32 {
    let bytes = name.bytes().chain(now_ns.to_be_bytes());
    bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const S: i64 = 1_000_000_000;

    fn said(host: &str, id: &str, state: &str, not_before_s: Option<i64>) -> EventKind {
        let not_before = not_before_s.map(|s| jiff::Timestamp::from_second(s).expect("a time").to_string());
        serde_json::from_value(json!({
            "kind": "maintenance", "host": host, "cloud": "azure", "id": id, "what": "Freeze", "state": state,
            "not_before": not_before, "duration_ns": 5_000_000_000_u64, "notice": {},
        }))
        .expect("an event")
    }

    #[test]
    fn notice_is_told_through_its_states() {
        let notices = Notices::default();
        assert_eq!(notices.told_at(0, 0, None), None);
        notices.take(&said("other", "a", "scheduled", Some(1_000)), 100 * S);
        assert_eq!(notices.told_at(0, 0, None), None, "it concerns other machines");
        notices.take(&said("local", "a", "scheduled", Some(1_000)), 100 * S);
        let told = |at_s: i64| notices.told_at(at_s * S, 0, None).expect("a notice");
        let first = told(400);
        assert_eq!((first.cloud, first.what, first.begins_in_ms), (1, 1, Some(600_000)));
        assert_eq!((first.started_ago_ms, first.gone_ago_ms, first.lasts_ms), (None, None, Some(5_000)));
        // Azure has been seen to change the name.
        notices.take(&said("local", "b", "started", None), 1_001 * S);
        notices.take(&said("local", "b", "gone", None), 1_020 * S);
        let last = told(1_030);
        assert_eq!((last.key, last.begins_in_ms), (first.key, Some(-30_000)));
        assert_eq!((last.started_ago_ms, last.gone_ago_ms), (Some(29_000), Some(10_000)));
        notices.take(&said("local", "c", "scheduled", Some(9_000)), 2_000 * S);
        assert_ne!(told(2_001).key, first.key);
    }

    #[test]
    fn notice_around_the_silence_is_chosen() {
        let notices = Notices::default();
        for (id, at) in [("a", 1_000), ("b", 5_000)] {
            notices.take(&said("local", id, "scheduled", Some(at)), (at - 900) * S);
            notices.take(&said("local", id, "started", None), at * S);
            notices.take(&said("local", id, "gone", None), (at + 10) * S);
        }
        let now = 7_000 * S as u64;
        let key = |from_s: u64, to_s: u64| {
            let silence = Silence::between(from_s * S as u64, to_s * S as u64, now);
            notices.told_at(7_000 * S, now, silence).map(|told| told.key)
        };
        let (first, second) = (key(1_001, 1_006), key(5_001, 5_006));
        assert!(first != second && first.is_some() && second.is_some());
        assert_eq!(key(2_000, 2_010), second, "none is around it: the latest");
    }

    #[test]
    fn no_more_than_the_latest_are_remembered() {
        let notices = Notices::default();
        for n in 0..100 {
            notices.take(&said("local", &n.to_string(), "scheduled", Some(n)), n * S);
        }
        assert_eq!(notices.known.lock().expect("no panic").len(), REMEMBERED);
    }
}
