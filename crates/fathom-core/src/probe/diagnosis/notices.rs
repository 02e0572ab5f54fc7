//! Maintenance that a cloud announced to the reflector's host. The reflector passes it on with its peer report. Each
//! state of each notice becomes one event.

use crate::event::EventKind;
use crate::notice::{Cloud, State, word_of};
use crate::probe::context::Context;
use fathom_wire::Announced;
use jiff::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;

/// Maximum number of remembered notices of one reflector. A cloud announces a handful.
const MOST: usize = 64;
const MS: i128 = 1_000_000;

/// Notices that the reflector of a path has passed on.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// The last recorded state of each notice, by its key.
    told: BTreeMap<u32, State>,
    /// Time of the reflector's last answer.
    answered_ns: Option<u64>,
}

impl Notices {
    /// True if the reflector has answered since this time.
    pub(super) fn answered_since(&self, from_ns: u64) -> bool {
        self.answered_ns.is_some_and(|at| at >= from_ns)
    }

    /// Notes an answer of the reflector.
    pub(super) fn take(&mut self, now: u64, path: usize, announced: Option<Announced>, cx: &mut Context) {
        self.answered_ns = Some(now);
        let Some(announced) = announced else { return };
        let state = match (announced.started_ago_ms, announced.gone_ago_ms) {
            (_, Some(_)) => State::Gone,
            (Some(_), None) => State::Started,
            (None, None) => State::Scheduled,
        };
        if self.told.len() >= MOST && !self.told.contains_key(&announced.key) {
            self.told.clear();
        }
        if self.told.insert(announced.key, state) != Some(state) {
            cx.event(now, Some(path), None, event(&announced, state, cx.clock.utc_of(now)));
        }
    }
}

fn event(announced: &Announced, state: State, utc_ns: i64) -> EventKind {
    let Announced { begins_in_ms, started_ago_ms, gone_ago_ms, lasts_ms, .. } = *announced;
    // The observed beginning is more exact than the announced one.
    let begins_in_ms = started_ago_ms.map(|ms| -i128::from(ms)).or(begins_in_ms.map(i128::from));
    let at = |in_ms: i128| Timestamp::from_nanosecond(i128::from(utc_ns) + in_ms * MS).ok();
    EventKind::Maintenance {
        host: "remote".to_owned(),
        cloud: Cloud::of_code(announced.cloud).map_or("unknown", Cloud::name).to_owned(),
        id: None,
        what: word_of(announced.what).to_owned(),
        state: state.name().to_owned(),
        not_before: begins_in_ms.and_then(at),
        duration_ns: lasts_ms.map(|ms| u64::from(ms) * 1_000_000),
        notice: json!({
            "begins_in_ms": announced.begins_in_ms,
            "started_ago_ms": started_ago_ms,
            "gone_ago_ms": gone_ago_ms,
        }),
    }
}
