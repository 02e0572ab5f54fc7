//! Queries of a database, held against what their run says of them in the end: none is lost without a word, in all and on each
//! connection, and they come to what it counts.

use super::Findings;
use crate::asked::files::Files;
use crate::asked::laws::{self, Checked, OfConnection, Run};
use crate::manifest::utc_ns;
use crate::{ClockAnchor, Damage, Error, Recording};
use fathom_core::event::EventKind;
use serde_json::Value;

/// Readings of both clocks are this good, and further apart they are no account of every change of the wall clock: the list of an old
/// recording was thinned.
const READS_WITHIN_NS: i64 = 1_000_000;
const ANCHORS_APART_NS: u64 = 120_000_000_000;
/// Figures of `sql.ended` that are sums over its queries. What else it says (medians, shares, verdicts) later versions may reckon otherwise.
const SUMS: [&str; 6] = ["failed", "cancelled", "rows", "bytes_received", "retransmits", "sent_again"];

/// What `sql.ended` says, or recovery in its place.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// All of them; `None`: nothing.
    queries: Option<u64>,
    /// Of these so many are in no file.
    unrecorded: u64,
    /// Of each of several connections.
    each: Vec<OfEach>,
    /// As it stands there; null: it does not.
    result: Value,
}

#[derive(Debug)]
struct OfEach {
    queries: u64,
    /// Without a whole answer: those that failed, and those that the user ended.
    failed: u64,
    /// `None`: it does not say.
    rows: Option<u64>,
    unrecorded: u64,
}

impl Told {
    pub(super) fn event(&mut self, kind: &EventKind) {
        match kind {
            EventKind::SqlEnded { result } => *self = Self::of(result),
            EventKind::QueriesLost { queries } => self.unrecorded = self.unrecorded.saturating_add(*queries),
            _ => {}
        }
    }

    fn of(result: &Value) -> Self {
        let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
        let each = result["connections"].as_array().into_iter().flatten().map(|one| OfEach {
            queries: number(one, "queries"),
            failed: number(one, "failed").saturating_add(number(one, "cancelled")),
            rows: one["rows"].as_u64(),
            unrecorded: number(one, "unrecorded"),
        });
        Self {
            queries: result["queries"].as_u64(),
            unrecorded: number(result, "unrecorded"),
            each: each.collect(),
            result: result.clone(),
        }
    }

    /// How many queries were read, and what of them cannot be; `None`: it is a recording of something else.
    pub(super) fn check(
        &self,
        recording: &Recording,
        running: bool,
        findings: &mut Findings,
    ) -> Result<Option<(u64, Vec<Damage>)>, Error> {
        let files = Files::of(recording)?;
        let sql = &recording.manifest().probe["sql"];
        if files.is_empty() && !sql.is_object() {
            return Ok(None);
        }
        let manifest = recording.manifest();
        // While it is written, and where nobody put it in order, the newest anchors may be in no manifest.
        let ended_ns = manifest.ended_at.map(utc_ns);
        // Earlier versions recovered a recording with the end of its samples.
        let is_end = !self.result.is_null() || files.has_end();
        let run = Run {
            connections: recording.connections().max(1),
            settings: sql["settings"].as_array().map_or(0, |settings| settings.len() as u64),
            back_ns: ended_ns.and_then(|_| back_ns(&manifest.clock_anchors)),
            began_ns: Some(utc_ns(manifest.started_at)),
            ended_ns: ended_ns.filter(|_| is_end),
        };
        let checked = laws::check(&files, run, |file, law, case| {
            findings.add("queries", law, || format!("{file}: {case}"));
        });
        let Checked { rows, damage, .. } = &checked;
        // Rows that cannot be read are damage, and told as that.
        if !running && damage.is_empty() {
            self.check_sums(&checked, findings);
        }
        Ok(Some((rows.read, checked.damage)))
    }

    fn check_sums(&self, checked: &Checked, findings: &mut Findings) {
        let Checked { rows, outcome, .. } = checked;
        let Self { queries, unrecorded, each, result } = self;
        if let Some(told) = queries.filter(|told| *told != rows.read + unrecorded) {
            findings.add("queries", "there are as many queries as sql.ended counts", || {
                format!("{told} counted, {} read, {unrecorded} told lost", rows.read)
            });
        }
        if rows.missing > *unrecorded {
            findings.add("queries", "no query is missing that was not told lost", || {
                format!("{} missing, {unrecorded} told lost", rows.missing)
            });
        }
        let mut ours = outcome.json();
        if result["cancelled"].is_null() {
            // Earlier versions counted those that the user ended among those that failed.
            let all = [&ours["failed"], &ours["cancelled"]].map(|n| n.as_u64().unwrap_or(0));
            ours["failed"] = all.iter().sum::<u64>().into();
        }
        for name in SUMS.into_iter().filter(|_| *unrecorded == 0) {
            let (told, read) = (&result[name], &ours[name]);
            if !told.is_null() && told != read {
                findings.add("queries", "the queries come to the sums of sql.ended", || {
                    format!("{name}: {told} counted, {read} read")
                });
            }
        }
        let nothing = OfConnection::default();
        for (told, at) in each.iter().zip(0..) {
            let rows = rows.each.get(&at).unwrap_or(&nothing);
            told.check(at, rows, findings);
        }
        let sum = each.iter().map(|told| told.queries).sum::<u64>();
        if let Some(told) = queries.filter(|told| !each.is_empty() && *told != sum) {
            findings.add("queries", "connections have all queries together", || {
                format!("{told} counted in all, {sum} of connections")
            });
        }
    }
}

impl OfEach {
    fn check(&self, at: u64, rows: &OfConnection, findings: &mut Findings) {
        let Self { queries, failed, rows: answers, unrecorded } = self;
        if *queries != rows.read + unrecorded {
            findings.add("queries", "each connection has as many queries as sql.ended counts", || {
                format!("connection {at}: {queries} counted, {} read, {unrecorded} told lost", rows.read)
            });
        }
        // Whether those that are lost had failed nobody says.
        if !(failed.saturating_sub(*unrecorded)..=*failed).contains(&rows.failed) {
            findings.add("queries", "as many failed on each connection as sql.ended counts", || {
                format!("connection {at}: {failed} counted, {} read, {unrecorded} told lost", rows.failed)
            });
        }
        if let Some(told) = answers.filter(|told| *unrecorded == 0 && *told != rows.rows) {
            findings.add("queries", "each connection has as many rows as sql.ended counts", || {
                format!("connection {at}: {told} counted, {} read", rows.rows)
            });
        }
    }
}

/// How far the wall clock went back in all, between these readings; `None`: they do not tell of every change, or there are none.
fn back_ns(anchors: &[ClockAnchor]) -> Option<i64> {
    anchors.first()?;
    let mut back_ns = READS_WITHIN_NS;
    for pair in anchors.windows(2) {
        let apart_ns = pair[1].mono_ns.checked_sub(pair[0].mono_ns).filter(|ns| *ns <= ANCHORS_APART_NS)?;
        let moved_ns = utc_ns(pair[1].utc).saturating_sub(utc_ns(pair[0].utc));
        back_ns = back_ns.saturating_add((apart_ns as i64).saturating_sub(moved_ns).max(0));
    }
    Some(back_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    const S: u64 = 1_000_000_000;

    /// Of each reading the monotonic second and that of the wall clock.
    fn anchors(of: &[(u64, i64)]) -> Vec<ClockAnchor> {
        let anchor = |&(mono_s, utc_s): &(u64, i64)| ClockAnchor {
            mono_ns: mono_s * S,
            utc: Timestamp::from_second(1_750_000_000 + utc_s).unwrap(),
            stepped: false,
        };
        of.iter().map(anchor).collect()
    }

    #[test]
    fn clock_steps_back_sum_to_allowed_overlap() {
        let back = |of: &[(u64, i64)]| back_ns(&anchors(of)).map(|ns| ns - READS_WITHIN_NS);
        assert_eq!(back(&[(5, 0)]), Some(0));
        assert_eq!(back(&[(5, 0), (65, 60)]), Some(0));
        // Back by 3 s, on by an hour, and back by 7 s.
        assert_eq!(back(&[(5, 0), (15, 7), (75, 3_667), (85, 3_670)]), Some(10 * S as i64));
        // Nobody knows what came between.
        assert_eq!(back(&[(5, 0), (200, 195)]), None);
        assert_eq!(back(&[]), None);
    }
}
